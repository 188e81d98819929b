//! Contents of a sandbox's network namespace.

use cabana_supervisor::Supervisor;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::Instant;

use crate::machine::{Machine, acquire, greeting, inside, listen, on_machine, sh};

#[test]
fn slots_are_configured() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        assert_eq!(slot.address, Ipv4Addr::from_bits(slot.gateway.to_bits() + 1));
        assert_eq!(slot.dns, Ipv4Addr::new(100, 96, 0, 1));
        let (address, gateway) = (slot.address, slot.gateway);
        inside(&slot.netns, move || {
            let read = |path: &str| std::fs::read_to_string(path).unwrap();
            assert_eq!(read("/proc/sys/net/ipv4/ip_unprivileged_port_start").trim(), "0");
            assert_eq!(read("/proc/sys/net/ipv4/ping_group_range").trim(), "0\t4294967294");
            let links = sh("ip -o link");
            assert_eq!(links.lines().count(), 2, "{links}");
            assert!(links.contains("eth0@") && links.contains("mtu 1400"), "{links}");
            assert!(sh("ip -o -4 addr show eth0").contains(&format!("{address}/30")));
            assert!(sh("ip route").contains(&format!("default via {gateway} dev eth0")));
            let v6 = read("/proc/thread-self/net/if_inet6");
            assert_eq!(v6.lines().count(), 1, "{v6}");
            assert!(v6.contains(" lo"), "{v6}");
            TcpListener::bind("[::1]:80").unwrap();
            // A listener on [::] is reached over IPv4, too.
            let dual = TcpListener::bind("[::]:443").unwrap();
            std::net::TcpStream::connect("127.0.0.1:443").unwrap();
            std::net::TcpStream::connect("[::1]:443").unwrap();
            drop(dual);
            UdpSocket::bind((address, 53)).unwrap();
        })
        .await;
        let host = sh(&format!("ip -o addr show cbt1-{0}; cat /proc/sys/net/ipv4/conf/cbt1-{0}/rp_filter", slot.index));
        assert!(!host.contains("inet"), "a change of the machine's addresses interrupts its browsers: {host}");
        network.close().await.unwrap();
    });
}

#[test]
fn the_host_reaches_a_sandbox_at_once() {
    on_machine(async |machine: std::sync::Arc<Machine>| {
        let network = machine.open().await;
        for internet in [true, false] {
            let slot = acquire(&network, internet).await.unwrap();
            let port = listen(&slot.netns, Ipv4Addr::UNSPECIFIED).await;
            let start = Instant::now();
            let said = tokio::task::spawn_blocking(move || greeting((slot.address, port).into())).await.unwrap();
            assert_eq!(said, Some(slot.dns.to_string()));
            // A lost first packet would be retransmitted after a second.
            assert!(start.elapsed().as_millis() < 900, "{:?}", start.elapsed());
        }
        network.close().await.unwrap();
    });
}

#[test]
fn slots_are_allocated_quickly() {
    on_machine(async |machine| {
        let mut config = machine.config();
        config.slots = 300;
        config.spare = 100;
        let start = Instant::now();
        let network = cabana_net::Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        let opened = start.elapsed();
        network.settled().await;
        let filled = start.elapsed() - opened;
        let mut worst = [0_u128; 4];
        let mut slots = Vec::new();
        let mut time = [0_u128; 4];
        let mut note = |kind: usize, start: Instant| {
            let micros = start.elapsed().as_micros();
            time[kind] += micros;
            worst[kind] = worst[kind].max(micros);
        };
        for n in 0..100 {
            let start = Instant::now();
            slots.push(acquire(&network, n % 2 == 0).await.unwrap());
            note(n % 2, start);
        }
        for slot in slots {
            let start = Instant::now();
            network.release(slot.index).await.unwrap();
            note(2, start);
        }
        let start = Instant::now();
        network.settled().await;
        println!(
            "open {opened:?}; fill 100 {filled:?}; acquire online {} us (worst {}), offline {} us (worst {}), \
             release {} us (worst {}); settle {:?}",
            time[0] / 50,
            worst[0],
            time[1] / 50,
            worst[1],
            time[2] / 100,
            worst[2],
            start.elapsed(),
        );
        network.close().await.unwrap();
    });
}
