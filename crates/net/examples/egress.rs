//! Times what a policy with a thousand entries adds: to the allocation of a slot, to a request and to a transfer. Everything
//! happens in network namespaces of its own. Needs root: `cargo run --release -p cabana-net --example egress`.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code, unused_imports)]

#[path = "../tests/it/machine.rs"]
mod machine;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_net::{Network, Slot};
use cabana_types::EgressPolicy;
use machine::{PUBLIC, inside, on_machine, owner};

const REQUESTS: usize = 2000;
const ROUNDS: usize = 8;
const TRANSFERRED: usize = 256 << 20;

/// Answers each request of 100 bytes with 1 KB; a longer one is a transfer.
fn serve(listener: TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        std::thread::spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            let mut request = [0; 100];
            if stream.read_exact(&mut request).is_ok() && stream.write_all(&[7; 1024]).is_ok() {
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
                let _ = stream.write_all(&[1]);
            }
        });
    }
}

fn request(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect((PUBLIC, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&[1; 100]).unwrap();
    stream.read_exact(&mut [0; 1024]).unwrap();
    stream
}

fn transfer(port: u16) {
    let mut stream = request(port);
    let chunk = vec![3; 256 * 1024];
    for _ in 0..TRANSFERRED / chunk.len() {
        stream.write_all(&chunk).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

fn policies() -> Vec<(&'static str, Arc<EgressPolicy>)> {
    let policy = |allow: Vec<String>, deny: Vec<String>| {
        Arc::new(EgressPolicy {
            allow_out: allow.iter().map(|text| text.parse().unwrap()).collect(),
            deny_out: deny.iter().map(|text| text.parse().unwrap()).collect(),
            ..EgressPolicy::default()
        })
    };
    let network = |n: u32| format!("{}/25", Ipv4Addr::from_bits(0x0800_0000 + (n << 8)));
    let address = |n: u32| Ipv4Addr::from_bits(0x0800_0000 + (n << 8)).to_string();
    let all = || vec!["0.0.0.0/0".to_owned()];
    let with = |first: String, rest: Vec<String>| std::iter::once(first).chain(rest).collect::<Vec<_>>();
    vec![
        ("open", policy(vec![], vec![])),
        ("1000 addresses allowed", policy(with(PUBLIC.to_string(), (0..999).map(address).collect()), all())),
        ("1000 networks allowed", policy(with(format!("{PUBLIC}/24"), (0..999).map(network).collect()), all())),
        ("1000 networks denied", policy(vec![], (0..1000).map(network).collect())),
    ]
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    on_machine(async |machine| {
        let network = Network::open(machine.config(), vec![], &cabana_supervisor::Supervisor::new()).await.unwrap();
        let port = inside(&machine.outside, || {
            let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            std::thread::spawn(move || serve(listener));
            port
        })
        .await;
        let policies = policies();
        let mut slots: Vec<Slot> = Vec::new();
        let (mut acquired, mut requests) = (vec![vec![]; policies.len()], vec![vec![]; policies.len()]);
        let mut ready = vec![vec![]; policies.len()];
        for round in 0..20 {
            for (n, (_, policy)) in policies.iter().enumerate() {
                network.settled().await;
                let start = Instant::now();
                let slot = network.acquire(&owner(), Arc::clone(policy)).await.unwrap();
                acquired[n].push(start.elapsed());
                network.ready(slot.index).await.unwrap();
                ready[n].push(start.elapsed());
                match round {
                    0 => slots.push(slot),
                    _ => network.release(slot.index).await.unwrap(),
                }
            }
        }
        network.settled().await;
        // Side by side, so that other load of the machine meets all alike.
        for _ in 0..ROUNDS {
            for (n, slot) in slots.iter().enumerate() {
                requests[n].extend(
                    inside(&slot.netns, move || {
                        let timed = |_| {
                            let start = Instant::now();
                            drop(request(port));
                            start.elapsed()
                        };
                        (0..REQUESTS / ROUNDS).map(timed).collect::<Vec<_>>()
                    })
                    .await,
                );
            }
        }
        let mut transfers = vec![vec![]; policies.len()];
        for _ in 0..ROUNDS {
            for (n, slot) in slots.iter().enumerate() {
                let start = Instant::now();
                inside(&slot.netns, move || transfer(port)).await;
                transfers[n].push(start.elapsed());
            }
        }
        println!("{:26}{:>14}{:>14}{:>20}{:>22}", "p50", "allocation", "applied", "request", "256 MB");
        let base = (median(&mut requests[0]), median(&mut transfers[0]));
        for (n, (name, _)) in policies.iter().enumerate() {
            let (request, transfer) = (median(&mut requests[n]), median(&mut transfers[n]));
            let ratio = |time: Duration, base: Duration| time.as_secs_f64() / base.as_secs_f64();
            println!(
                "{name:26}{:>11} us{:>11} us{:>11} us {:.2} ×{:>13} ms {:.2} ×",
                median(&mut acquired[n]).as_micros(),
                median(&mut ready[n]).as_micros(),
                request.as_micros(),
                ratio(request, base.0),
                transfer.as_millis(),
                ratio(transfer, base.1),
            );
        }
        for slot in slots {
            network.release(slot.index).await.unwrap();
        }
        network.close().await.unwrap();
    });
}
