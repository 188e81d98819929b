//! A name server for tests: responds to every address query with an address derived from the name.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};

pub(crate) struct Resolver {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<AtomicUsize>,
}

/// Number of records in a response: `long…` names get more than fit into a packet.
fn records(name: &str) -> u8 {
    if name.starts_with("long") { 100 } else { 1 }
}

fn respond(bytes: &[u8], udp: bool, code: ResponseCode) -> Vec<u8> {
    let query = Message::from_vec(bytes).unwrap();
    let limit = usize::from(query.max_payload());
    let name = query.queries[0].name().clone();
    let mut answer = query.into_response();
    answer.metadata.response_code = code;
    if code == ResponseCode::NoError {
        for n in 0..records(&name.to_utf8()) {
            let data = RData::A(A(Ipv4Addr::new(198, 51, 100, n)));
            answer.add_answer(Record::from_rdata(name.clone(), 60, data));
        }
    }
    let whole = answer.to_vec().unwrap();
    if udp && whole.len() > limit { answer.truncate().to_vec().unwrap() } else { whole }
}

impl Resolver {
    /// Starts one on the loopback of the calling thread's namespace.
    pub(crate) fn start(code: ResponseCode) -> Resolver {
        Resolver::start_at("127.0.0.1:0".parse().unwrap(), code)
    }

    /// Starts one in the calling thread's namespace.
    pub(crate) fn start_at(address: SocketAddr, code: ResponseCode) -> Resolver {
        let tcp = TcpListener::bind(address).unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let (length, from) = udp.recv_from(&mut buffer).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                // First a forged packet with a wrong id, which must be ignored.
                let mut forged = respond(&buffer[..length], true, ResponseCode::NXDomain);
                forged[0] ^= 0x55;
                udp.send_to(&forged, from).unwrap();
                udp.send_to(&respond(&buffer[..length], true, code), from).unwrap();
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut query = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut query).unwrap();
                let answer = respond(&query, false, code);
                stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        Resolver { address, asked }
    }
}
