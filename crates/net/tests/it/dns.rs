//! DNS queries from inside a sandbox.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cabana_net::{Network, Slot};
use cabana_supervisor::Supervisor;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use crate::machine::{BLOCK, Machine, acquire, inside, on_machine, sh};
use crate::resolver::Resolver;

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::from_bits(BLOCK.to_bits() + 1);

pub(crate) fn query(name: &str, limit: Option<u16>) -> Message {
    let mut message = Message::new(4242, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_str(name).unwrap(), RecordType::A));
    if let Some(limit) = limit {
        let mut edns = Edns::new();
        edns.set_max_payload(limit);
        message.set_edns(edns);
    }
    message
}

/// Retries after a loss, as resolvers do. The forwarder responds within 5 s of a query.
pub(crate) fn ask_udp(message: &Message) -> Option<Message> {
    ask_server(SERVER, message)
}

/// The same of a server, from which the response has to come.
pub(crate) fn ask_server(server: Ipv4Addr, message: &Message) -> Option<Message> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
    let mut buffer = vec![0; 65_535];
    for _ in 0..3 {
        socket.send_to(&message.to_vec().unwrap(), (server, 53)).unwrap();
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            assert_eq!(from, SocketAddr::from((server, 53)));
            return Some(Message::from_vec(&buffer[..length]).unwrap());
        }
    }
    None
}

/// Packets that did not fit into the forwarder's buffer.
fn lost() -> u64 {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let of_server = |line: &&str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(":0035"));
    let line = sockets.lines().find(of_server).expect("the forwarder's socket");
    line.split_whitespace().last().and_then(|drops| drops.parse().ok()).expect("drops")
}

fn ask_tcp(stream: &mut TcpStream, message: &Message) -> Message {
    let bytes = message.to_vec().unwrap();
    stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).unwrap();
    Message::from_vec(&answer).unwrap()
}

pub(crate) async fn udp(slot: &Slot, name: &'static str, limit: Option<u16>) -> Message {
    inside(&slot.netns, move || ask_udp(&query(name, limit)).expect("an answer")).await
}

pub(crate) async fn ask_over_tcp(slot: &Slot, name: &'static str) -> Message {
    inside(&slot.netns, move || ask_tcp(&mut TcpStream::connect((SERVER, 53)).unwrap(), &query(name, None))).await
}

pub(crate) async fn open(machine: &Arc<Machine>, resolvers: Vec<SocketAddr>) -> Network {
    let mut config = machine.config();
    config.resolvers = resolvers;
    Network::open(config, vec![], &Supervisor::new()).await.unwrap()
}

#[test]
fn names_are_resolved_over_both_transports() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = acquire(&network, true).await.unwrap();
        let answer = udp(&slot, "example.com.", None).await;
        assert_eq!((answer.metadata.id, answer.answers.len()), (4242, 1));
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError);

        inside(&slot.netns, || {
            let mut stream = TcpStream::connect((SERVER, 53)).unwrap();
            assert_eq!(ask_tcp(&mut stream, &query("example.com.", None)).answers.len(), 1);
            // A response that does not fit into a packet is fetched over TCP from the resolver, too.
            assert_eq!(ask_tcp(&mut stream, &query("long.example.com.", None)).answers.len(), 100);
        })
        .await;
        network.close().await.unwrap();
    });
}

#[test]
fn long_responses_are_truncated_only_over_udp() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = acquire(&network, true).await.unwrap();
        let cut = udp(&slot, "long.example.com.", None).await;
        assert!(cut.metadata.truncation && cut.answers.is_empty());
        let cut = udp(&slot, "long.example.com.", Some(1232)).await;
        assert!(cut.metadata.truncation);
        let whole = udp(&slot, "long.example.com.", Some(4096)).await;
        assert_eq!((whole.metadata.truncation, whole.answers.len()), (false, 100));
        network.close().await.unwrap();
    });
}

#[test]
fn dead_resolvers_are_skipped() {
    on_machine(async |machine| {
        let (failing, working) = (Resolver::start(ResponseCode::ServFail), Resolver::start(ResponseCode::NoError));
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let resolvers =
            vec!["127.0.0.1:1".parse().unwrap(), failing.address, silent.local_addr().unwrap(), working.address];
        let network = open(&machine, resolvers).await;
        let slot = acquire(&network, true).await.unwrap();
        assert_eq!(udp(&slot, "example.com.", None).await.answers.len(), 1);
        // The one that responded is tried first from now on.
        let start = Instant::now();
        assert_eq!(udp(&slot, "example.com.", None).await.answers.len(), 1);
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        assert_eq!(failing.asked.load(Ordering::SeqCst), 1);
        network.close().await.unwrap();
    });
}

#[test]
fn without_resolvers_queries_fail() {
    on_machine(async |machine| {
        let network = open(&machine, vec!["127.0.0.1:1".parse().unwrap()]).await;
        let slot = acquire(&network, true).await.unwrap();
        assert_eq!(udp(&slot, "example.com.", None).await.metadata.response_code, ResponseCode::ServFail);
        network.close().await.unwrap();
    });
}

#[test]
fn offline_sandboxes_are_refused() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = acquire(&network, false).await.unwrap();
        assert_eq!(udp(&slot, "example.com.", None).await.metadata.response_code, ResponseCode::Refused);
        inside(&slot.netns, || {
            let mut stream = TcpStream::connect((SERVER, 53)).unwrap();
            let answer = ask_tcp(&mut stream, &query("example.com.", None));
            assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        })
        .await;
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
        network.close().await.unwrap();
    });
}

#[test]
fn other_clients_are_ignored() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = acquire(&network, true).await.unwrap();
        let from_host = tokio::task::spawn_blocking(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
            socket.send_to(&query("example.com.", None).to_vec().unwrap(), (SERVER, 53)).unwrap();
            socket.recv(&mut [0; 512]).is_ok()
        });
        assert!(!from_host.await.unwrap());
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
        assert_eq!(udp(&slot, "example.com.", None).await.answers.len(), 1, "still serving");
        network.close().await.unwrap();
    });
}

/// Twenty times the usual capacity of a socket.
const FLOOD: u64 = 5_000;

#[test]
fn a_flood_does_not_affect_other_sandboxes() {
    on_machine(async |machine| {
        // A resolver that never answers keeps the flooder's queries open.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let network = open(&machine, vec![silent.local_addr().unwrap()]).await;
        let (loud, quiet) = (acquire(&network, true).await.unwrap(), acquire(&network, true).await.unwrap());
        inside(&loud.netns, || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let bytes = query("example.com.", None).to_vec().unwrap();
            for _ in 0..FLOOD {
                socket.send_to(&bytes, (SERVER, 53)).unwrap();
            }
        })
        .await;
        assert_eq!(udp(&quiet, "example.com.", None).await.metadata.response_code, ResponseCode::ServFail);
        silent.set_nonblocking(true).unwrap();
        let mut passed = 0;
        while silent.recv(&mut [0; 512]).is_ok() {
            passed += 1;
        }
        assert!(passed <= 2 * (64 + 3), "{passed} of {FLOOD} were passed on");
        let rules = sh("nft list chain inet cabana_t1 asking_host");
        let counted = rules.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next());
        let dropped: u64 = counted.and_then(|number| number.parse().ok()).expect("a counter");
        assert!((1..FLOOD).contains(&dropped), "{dropped} of {FLOOD} never reached the forwarder");
        assert_eq!(lost(), 0, "all packets that passed the filter fit into the buffer");
        network.close().await.unwrap();
    });
}
