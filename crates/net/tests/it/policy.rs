//! Policies in the packet filter: what is refused, redirected, cut and counted.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_net::{Network, Slot};
use cabana_supervisor::Supervisor;
use cabana_types::EgressPolicy;
use cabana_types::address::Prefix;
use cabana_types::egress::{Denials, Target};

use crate::machine::{
    FORBIDDEN, Machine, PUBLIC, acquire, alive, cut, inside, listen, no_reach, on_machine, owner, policy, reach, sh,
};

/// Another public address on the outside.
const OTHER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

/// A policy of address ranges and names.
pub(crate) fn rules(allow: &[&str], deny: &[&str]) -> Arc<EgressPolicy> {
    Arc::new(EgressPolicy {
        allow_out: allow.iter().map(|text| text.parse().unwrap()).collect(),
        deny_out: deny.iter().map(|text| text.parse().unwrap()).collect(),
        ..EgressPolicy::default()
    })
}

/// Opens a network on a machine with a second public address.
async fn open(machine: &Machine) -> Network {
    inside(&machine.outside, || sh(&format!("ip addr add {OTHER}/32 dev lo"))).await;
    machine.open().await
}

async fn connect(slot: &Slot, address: Ipv4Addr, port: u16) -> TcpStream {
    let mut stream = inside(&slot.netns, move || TcpStream::connect((address, port)).unwrap()).await;
    stream.read_exact(&mut [0; 8]).unwrap();
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let _ = stream.read(&mut [0; 64]);
    stream
}

#[test]
fn allowed_addresses_win_over_denied_ones() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let policies = [
            (rules(&["203.0.113.9"], &["0.0.0.0/0"]), true, false),
            (rules(&["203.0.113.0/24"], &["203.0.113.77", "203.0.113.9"]), true, true),
            (rules(&[], &["203.0.113.0/25", "203.0.113.9"]), false, false),
            (rules(&["203.0.113.64/26"], &["203.0.113.0/24", "203.0.113.77/32"]), false, true),
            (rules(&["example.com"], &["0.0.0.0/0"]), false, false),
            (rules(&["2001:db8::/32"], &["::/0"]), true, true),
        ];
        let (first, second) = (listen(&machine.outside, PUBLIC).await, listen(&machine.outside, OTHER).await);
        let open = acquire(&network, true).await.unwrap();
        for (policy, at_public, at_other) in policies {
            let slot = network.acquire(&owner(), Arc::clone(&policy)).await.unwrap();
            for (address, port, expected) in [(PUBLIC, first, at_public), (OTHER, second, at_other)] {
                match expected {
                    true => assert!(reach(&slot, address, port).await.is_some(), "{address} {policy:?}"),
                    false => assert!(no_reach(&slot, address, port).await, "{address} {policy:?}"),
                }
            }
            network.release(slot.index).await.unwrap();
        }
        // Allowing a private address does not open it, and others are not affected.
        let slot = network.acquire(&owner(), rules(&["10.0.0.0/8", "169.254.169.254"], &[])).await.unwrap();
        for address in [FORBIDDEN[0], FORBIDDEN[3]] {
            let port = listen(&machine.outside, address).await;
            assert!(no_reach(&slot, address, port).await, "{address}");
        }
        assert!(reach(&open, OTHER, second).await.is_some());
        network.release(slot.index).await.unwrap();
        network.settled().await;
        let left = sh("nft list table inet cabana_t1");
        for name in ["policy_", "allowed_", "ranges_", " : jump", " : goto"] {
            assert!(!left.contains(name), "{left}");
        }
        network.close().await.unwrap();
    });
}

#[test]
fn a_change_cuts_only_what_is_no_longer_allowed() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let slot = acquire(&network, true).await.unwrap();
        let (first, second) = (listen(&machine.outside, PUBLIC).await, listen(&machine.outside, OTHER).await);
        let (mut kept, mut ended) = (connect(&slot, PUBLIC, first).await, connect(&slot, OTHER, second).await);
        let flows = || sh("cat /proc/sys/net/netfilter/nf_conntrack_count").trim().parse::<u32>().unwrap();
        assert_eq!(flows(), 2);

        assert!(network.set_policy(slot.index, rules(&["203.0.113.9"], &["0.0.0.0/0"])).await.unwrap());
        assert_eq!(flows(), 1, "responses of the other are refused, too");
        assert!(alive(&mut kept));
        assert!(cut(&mut ended));
        // From one set of rules to another.
        assert!(network.set_policy(slot.index, rules(&["203.0.113.77"], &["203.0.113.0/24"])).await.unwrap());
        assert!(cut(&mut kept));
        let mut again = connect(&slot, OTHER, second).await;
        assert!(alive(&mut again));
        assert!(network.set_policy(slot.index, policy(false)).await.unwrap());
        assert!(cut(&mut again));
        assert!(network.set_policy(slot.index, policy(true)).await.unwrap());
        assert!(reach(&slot, PUBLIC, first).await.is_some());
        let left = sh("nft list table inet cabana_t1");
        assert!(!left.contains("policy_") && !left.contains("ranges_"), "{left}");
        network.close().await.unwrap();
    });
}

#[test]
fn denials_are_counted_by_rule() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let slot = network.acquire(&owner(), rules(&["203.0.113.9"], &["203.0.113.0/24", "198.51.100.0/24"])).await;
        let slot = slot.unwrap();
        let neighbour = acquire(&network, true).await.unwrap();
        assert_eq!(network.denials(slot.index), Denials::default());
        let send = |address: Ipv4Addr, count: usize| {
            inside(&slot.netns, move || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                for _ in 0..count {
                    // The refusal of an earlier one may be reported here.
                    let _ = socket.send_to(b"x", (address, 9999));
                }
            })
        };
        send(OTHER, 3).await;
        send(Ipv4Addr::new(198, 51, 100, 1), 2).await;
        send(FORBIDDEN[0], 4).await;
        let denials = network.denials(slot.index);
        let expected = [("address class Private", 4), ("denyOut 198.51.100.0/24", 2), ("denyOut 203.0.113.0/24", 3)];
        let counted: Vec<(&str, u64)> = denials.by_rule.iter().map(|(rule, count)| (rule.as_str(), *count)).collect();
        assert_eq!((counted, denials.total), (expected.to_vec(), 9));
        // Rules are counted by their text, also after a change; nothing is counted twice.
        assert!(network.set_policy(slot.index, rules(&[], &["198.51.100.0/24"])).await.unwrap());
        send(Ipv4Addr::new(198, 51, 100, 1), 1).await;
        let denials = network.denials(slot.index);
        assert_eq!((denials.by_rule["denyOut 198.51.100.0/24"], denials.total), (3, 10));
        assert_eq!(network.denials(neighbour.index), Denials::default());
        network.release(slot.index).await.unwrap();
        network.settled().await;
        assert_eq!(network.denials(slot.index), Denials::default());
        let left = sh("nft list set inet cabana_t1 refused");
        assert!(!left.contains("elements"), "{left}");
        network.close().await.unwrap();
    });
}

#[test]
fn policies_survive_a_restart_and_a_flush() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let policy = rules(&["203.0.113.9"], &["0.0.0.0/0"]);
        let slot = network.acquire(&owner(), Arc::clone(&policy)).await.unwrap();
        let (first, second) = (listen(&machine.outside, PUBLIC).await, listen(&machine.outside, OTHER).await);
        let mut stream = connect(&slot, PUBLIC, first).await;
        drop(network);
        assert!(no_reach(&slot, OTHER, second).await, "while no server runs");
        let again = cabana_net::InUse { index: slot.index, owner: owner(), policy: Arc::clone(&policy) };
        let network = Network::open(machine.config(), vec![again], &Supervisor::new()).await.unwrap();
        assert!(alive(&mut stream));
        assert!(no_reach(&slot, OTHER, second).await);
        sh("nft flush ruleset");
        let restored = async {
            while !sh("nft list ruleset").contains("policy_") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), restored).await.unwrap();
        assert!(no_reach(&slot, OTHER, second).await);
        assert!(reach(&slot, PUBLIC, first).await.is_some());
        // What was loaded with the table can be changed and removed.
        assert!(network.set_policy(slot.index, rules(&["203.0.113.77"], &["0.0.0.0/0"])).await.unwrap());
        assert!(reach(&slot, OTHER, second).await.is_some());
        assert!(no_reach(&slot, PUBLIC, first).await);
        network.release(slot.index).await.unwrap();
        network.settled().await;
        network.close().await.unwrap();
    });
}

#[test]
fn named_ports_are_redirected_to_the_proxy() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let proxy = TcpListener::bind(network.egress().listen()).unwrap();
        let accept = Arc::new(proxy);
        let accepted = || {
            let proxy = Arc::clone(&accept);
            tokio::task::spawn_blocking(move || proxy.accept().unwrap())
        };
        let named = network.acquire(&owner(), rules(&["example.com", "203.0.113.77"], &["0.0.0.0/0"])).await.unwrap();
        for port in [80, 443] {
            let arriving = accepted();
            let stream = inside(&named.netns, move || TcpStream::connect((PUBLIC, port)).unwrap()).await;
            let (arrived, from) = arriving.await.unwrap();
            assert_eq!(from.ip(), named.address);
            let original = nix::sys::socket::getsockopt(&arrived, nix::sys::socket::sockopt::OriginalDst).unwrap();
            assert_eq!(u16::from_be(original.sin_port), port);
            assert_eq!(Ipv4Addr::from_bits(u32::from_be(original.sin_addr.s_addr)), PUBLIC);
            drop(stream);
        }
        let source = network.egress().connected(named.address).unwrap();
        assert_eq!((source.index, source.owner), (named.index, owner()));
        // Other ports are decided by address.
        let port = listen(&machine.outside, OTHER).await;
        assert!(reach(&named, OTHER, port).await.is_some());
        assert!(no_reach(&named, PUBLIC, port).await);
        // The proxy's own port takes only what was redirected, and others are not redirected.
        let listen = network.egress().listen();
        let direct = inside(&named.netns, move || TcpStream::connect_timeout(&listen, Duration::from_secs(5)));
        assert!(direct.await.is_err());
        let open = acquire(&network, true).await.unwrap();
        let refused = inside(&open.netns, || TcpStream::connect((PUBLIC, 80)).unwrap_err().kind()).await;
        assert_eq!(refused, std::io::ErrorKind::ConnectionRefused, "nobody listens there");

        // Everything goes to a SOCKS5 proxy.
        let proxy = serde_json::from_str(r#"{"address": "203.0.113.9:1080"}"#).unwrap();
        let all = EgressPolicy { egress_proxy: Some(proxy), ..EgressPolicy::default() };
        let mut watched = network.egress().connected(named.address).unwrap().policy;
        assert!(network.set_policy(named.index, Arc::new(all)).await.unwrap());
        assert!(watched.has_changed().unwrap());
        let arriving = accepted();
        let mut stream = inside(&named.netns, move || TcpStream::connect((OTHER, 4711)).unwrap()).await;
        let (mut arrived, _) = arriving.await.unwrap();
        std::io::Write::write_all(&mut arrived, b"hi").unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        // Without internet access it is cut.
        assert!(network.set_policy(named.index, policy(false)).await.unwrap());
        std::io::Write::write_all(&mut stream, b"x").unwrap();
        arrived.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(arrived.read(&mut [0; 1]).is_err());
        network.release(named.index).await.unwrap();
        watched.mark_unchanged();
        assert!(watched.changed().await.is_err(), "it is closed");
        network.close().await.unwrap();
    });
}

#[test]
fn large_policies_are_closed_until_they_are_applied() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let mut policy = EgressPolicy::clone(&rules(&["203.0.113.9"], &["0.0.0.0/0"]));
        policy
            .allow_out
            .extend((0..2000).map(|n| Target::Address(format!("8.{}.{}.0/25", n / 256, n % 256).parse().unwrap())));
        let (first, second) = (listen(&machine.outside, PUBLIC).await, listen(&machine.outside, OTHER).await);
        let slot = network.acquire(&owner(), Arc::new(policy)).await.unwrap();
        let held = sh("nft list table inet cabana_t1");
        let is_offline = held.split("set offline {").nth(1).unwrap().split('}').next().unwrap().contains("elements");
        assert!(is_offline || held.contains("policy_"), "{held}");
        network.ready(slot.index).await.unwrap();
        network.ready(slot.index).await.unwrap();
        assert!(reach(&slot, PUBLIC, first).await.is_some());
        assert!(no_reach(&slot, OTHER, second).await);
        network.release(slot.index).await.unwrap();
        network.settled().await;
        let left = sh("nft list table inet cabana_t1");
        assert!(!left.contains(" : jump") && !left.contains(" : goto"), "{left}");
        network.close().await.unwrap();
    });
}

/// The kernel holds equal policies once, and each sandbox leaves and changes for itself.
#[test]
fn equal_policies_share_a_chain() {
    on_machine(async |machine| {
        let network = open(&machine).await;
        let (first, second) = (listen(&machine.outside, PUBLIC).await, listen(&machine.outside, OTHER).await);
        let large = |reached: &str| {
            let more = (0..200).map(|n| Target::Address(format!("8.8.{n}.0/25").parse().unwrap()));
            let mut policy = EgressPolicy::clone(&rules(&[reached], &["0.0.0.0/0"]));
            policy.allow_out.extend(more);
            Arc::new(policy)
        };
        // Not the table by its name: it is missing for a moment after the flush.
        let chains = || sh("nft list ruleset").matches("chain policy_").count();
        let acquire = async |policy| {
            let slot = network.acquire(&owner(), policy).await.unwrap();
            network.ready(slot.index).await.unwrap();
            slot
        };
        let (one, two) = (acquire(large("203.0.113.9")).await, acquire(large("203.0.113.9")).await);
        assert_eq!(chains(), 1);
        for slot in [&one, &two] {
            assert!(reach(slot, PUBLIC, first).await.is_some());
            assert!(no_reach(slot, OTHER, second).await);
        }
        assert!(network.set_policy(one.index, large("203.0.113.77")).await.unwrap());
        assert_eq!(chains(), 2);
        assert!(reach(&one, OTHER, second).await.is_some() && no_reach(&one, PUBLIC, first).await);
        assert!(reach(&two, PUBLIC, first).await.is_some() && no_reach(&two, OTHER, second).await);
        network.release(two.index).await.unwrap();
        network.settled().await;
        assert!(no_reach(&one, PUBLIC, first).await);
        let three = acquire(large("203.0.113.9")).await;
        assert_eq!(chains(), 2, "the chain was kept for the next sandbox");
        assert!(reach(&three, PUBLIC, first).await.is_some() && no_reach(&three, OTHER, second).await);
        // What is kept for nobody is not restored, and what is shared works after it.
        sh("nft flush ruleset");
        while chains() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(network.set_policy(three.index, policy(true)).await.unwrap());
        assert!(reach(&three, OTHER, second).await.is_some());
        assert!(no_reach(&one, PUBLIC, first).await);
        network.close().await.unwrap();
    });
}

#[test]
fn large_policies_are_applied_quickly() {
    on_machine(async |machine| {
        let mut config = machine.config();
        // No slots are made meanwhile.
        config.slots = 30;
        config.spare = 30;
        let network = Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        let many = |count: u32| {
            let allow: Vec<String> = (0..count).map(|n| Ipv4Addr::from_bits(0x0808_0000 + 2 * n).to_string()).collect();
            rules(&allow.iter().map(String::as_str).collect::<Vec<_>>(), &["0.0.0.0/0"])
        };
        let mut largest = EgressPolicy::clone(&many(2048));
        largest
            .deny_out
            .extend((0..2047).map(|n| format!("9.{}.{}.0/25", n / 256, n % 256).parse::<Prefix>().unwrap()));
        network.settled().await;
        for (name, policy) in [
            ("open", policy(true)),
            ("offline", policy(false)),
            ("10 entries", many(10)),
            ("1000 entries", many(1000)),
            ("largest", Arc::new(largest)),
        ] {
            let (mut times, mut ready) = (Vec::new(), Vec::new());
            let mut slots = Vec::new();
            for _ in 0..30 {
                let start = Instant::now();
                let slot = network.acquire(&owner(), Arc::clone(&policy)).await.unwrap();
                times.push(start.elapsed().as_micros());
                network.ready(slot.index).await.unwrap();
                ready.push(start.elapsed().as_micros());
                slots.push(slot);
            }
            times.sort_unstable();
            ready.sort_unstable();
            let start = Instant::now();
            for slot in &slots {
                assert!(network.set_policy(slot.index, Arc::clone(&policy)).await.unwrap());
            }
            let changed = start.elapsed().as_micros() / 30;
            for slot in slots {
                network.release(slot.index).await.unwrap();
            }
            network.settled().await;
            println!(
                "{name}: acquire p50 {} us, worst {} us; ready p50 {} us; change {changed} us",
                times[15], times[29], ready[15]
            );
        }
        network.close().await.unwrap();
    });
}
