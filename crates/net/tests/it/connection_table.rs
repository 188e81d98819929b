//! Sandboxes cannot fill the machine's connection table, neither by asking for names nor by closing connections.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use cabana_supervisor::Supervisor;
use hickory_proto::op::ResponseCode;

use crate::dns::{SERVER, ask_udp, query};
use crate::machine::{PUBLIC, acquire, inside, on_machine, owner, sh};
use crate::policy::rules;
use crate::resolver::Resolver;

fn entries() -> u32 {
    sh("cat /proc/sys/net/netfilter/nf_conntrack_count").trim().parse().unwrap()
}

/// Queries from this many source ports.
const PORTS: u32 = 3000;

/// Sends a query from each of many ports.
fn ask_from_many_ports(server: Ipv4Addr) {
    let bytes = query("example.com.", None).to_vec().unwrap();
    for _ in 0..PORTS {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let _ = socket.send_to(&bytes, (server, 53));
    }
}

#[test]
fn queries_to_the_name_server_are_not_tracked() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let mut config = machine.config();
        config.resolvers = vec![resolver.address];
        let network = cabana_net::Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        for internet in [false, true] {
            let slot = acquire(&network, internet).await.unwrap();
            inside(&slot.netns, || {
                ask_from_many_ports(SERVER);
                for _ in 0..300 {
                    // Refused beyond a rate.
                    let _ = TcpStream::connect_timeout(&(SERVER, 53).into(), Duration::from_millis(20));
                }
            })
            .await;
            let entries = entries();
            // The forwarder's own queries to the resolver on the loopback are tracked, 64 at a time.
            assert!(entries < 1200, "{entries} for internet {internet}");
            assert!(internet || entries < 20, "{entries} of an offline sandbox");
            let answered = inside(&slot.netns, || {
                std::thread::sleep(Duration::from_millis(1100));
                ask_udp(&query("example.com.", None)).is_some()
            });
            assert!(answered.await, "it still answers");
            network.release(slot.index).await.unwrap();
        }
        network.close().await.unwrap();
    });
}

#[test]
fn redirected_queries_are_limited() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = network.acquire(&owner(), rules(&["203.0.113.9"], &["0.0.0.0/0"])).await.unwrap();
        inside(&slot.netns, || ask_from_many_ports(PUBLIC)).await;
        let entries = entries();
        assert!((1..2000).contains(&entries), "{entries}");
        network.close().await.unwrap();
    });
}

/// Opens and closes connections as fast as possible until many were dropped. Returns how many succeeded.
fn open_and_close(server: SocketAddr) -> u64 {
    let (mut opened, mut dropped) = (0, 0);
    while dropped < 500 && opened < 20_000 {
        match TcpStream::connect_timeout(&server, Duration::from_millis(20)) {
            Ok(_) => opened += 1,
            Err(_) => dropped += 1,
        }
    }
    opened
}

/// The kernel keeps them for minutes, but does not count them as concurrent.
#[test]
fn closed_connections_are_limited_by_their_rate() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        let port = inside(&machine.outside, || start_sink(PUBLIC)).await;
        let begin = Instant::now();
        let opened = inside(&slot.netns, move || open_and_close((PUBLIC, port).into())).await;
        let most = 4096 + 500 * (begin.elapsed().as_secs() + 2);
        let entries = u64::from(entries());
        assert!(opened > 2000, "{opened}: connections are possible");
        assert!(opened < most && entries < most, "{opened} and {entries}, more than {most}");
        network.close().await.unwrap();
    });
}

/// A server that closes every connection.
fn start_sink(address: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    port
}
