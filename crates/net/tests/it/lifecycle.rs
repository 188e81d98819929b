//! Restarts, crashes, limits and cleanup.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use cabana_net::{Counts, Error, Network};
use cabana_supervisor::Supervisor;

use crate::machine::{PUBLIC, acquire, alive, cut, in_use, inside, listen, no_reach, on_machine, reach, sh};

#[test]
fn closing_leaves_nothing() {
    on_machine(async |machine| {
        let before = machine.network_state();
        let network = machine.open().await;
        let slot = acquire(&network, false).await.unwrap();
        assert_ne!(machine.network_state(), before);
        network.release(slot.index).await.unwrap();
        network.release(slot.index).await.unwrap();
        network.close().await.unwrap();
        network.close().await.unwrap();
        assert_eq!(machine.network_state(), before);
        assert!(matches!(acquire(&network, true).await, Err(Error::Closed)));
        // It can be opened again.
        let network = machine.open().await;
        network.settled().await;
        network.close().await.unwrap();
        assert_eq!(machine.network_state(), before);
    });
}

#[test]
fn a_failed_start_leaves_nothing() {
    on_machine(async |machine| {
        let before = machine.network_state();
        // Another name server listens on all addresses.
        let other = std::net::TcpListener::bind("0.0.0.0:53").unwrap();
        assert!(matches!(
            Network::open(machine.config(), vec![], &Supervisor::new()).await,
            Err(Error::DnsBind { .. })
        ));
        assert_eq!(machine.network_state(), before);
        drop(other);
        machine.open().await.close().await.unwrap();
        assert_eq!(machine.network_state(), before);
    });
}

#[test]
fn settles_after_many_cycles() {
    on_machine(async |machine| {
        let mut config = machine.config();
        config.slots = 64;
        config.spare = 4;
        let network = Arc::new(Network::open(config, vec![], &Supervisor::new()).await.unwrap());
        network.settled().await;
        let rest = Counts { ready: 4, ..Counts::default() };
        assert_eq!(network.counts(), rest);
        let names = |picture: String| {
            let ours = |line: &&str| line.contains("cbt1-") && !line.contains(" . ") && !line.contains("name \"");
            picture.lines().filter(ours).count()
        };
        let before = names(machine.network_state());
        let start = std::time::Instant::now();
        let cycles = (0..8).map(|task| {
            let network = Arc::clone(&network);
            tokio::spawn(async move {
                for n in 0..40 {
                    let slot = acquire(&network, (n + task) % 4 != 0).await.unwrap();
                    network.release(slot.index).await.unwrap();
                }
            })
        });
        for task in cycles.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let churned = start.elapsed();
        network.settled().await;
        println!("320 cycles in {churned:?}, at rest after {:?}", start.elapsed());
        assert_eq!(network.counts(), rest);
        assert_eq!(names(machine.network_state()), before);
        let rules = sh("nft list set inet cabana_t1 offline; nft list set inet cabana_t1 flows");
        assert!(!rules.contains("elements"), "{rules}");
        assert_eq!(std::fs::read_dir(machine.dir.path().join("run/net")).unwrap().count(), 4);
        network.close().await.unwrap();
    });
}

#[test]
fn the_limit_holds() {
    on_machine(async |machine| {
        for spare in [0, 3] {
            let mut config = machine.config();
            config.slots = 3;
            config.spare = spare;
            let network = Network::open(config, vec![], &Supervisor::new()).await.unwrap();
            let mut slots = Vec::new();
            for _ in 0..3 {
                slots.push(acquire(&network, true).await.unwrap());
            }
            assert!(matches!(acquire(&network, true).await, Err(Error::Full { limit: 3 })));
            network.release(slots[1].index).await.unwrap();
            // Allocation waits for the slot that is being deleted.
            slots[1] = acquire(&network, false).await.unwrap();
            assert!(matches!(acquire(&network, true).await, Err(Error::Full { limit: 3 })));
            for slot in slots {
                network.release(slot.index).await.unwrap();
            }
            network.settled().await;
            assert_eq!(network.counts(), Counts { ready: spare, ..Counts::default() });
            network.close().await.unwrap();
        }
    });
}

#[test]
fn a_cancelled_caller_loses_no_slot() {
    on_machine(async |machine| {
        let mut config = machine.config();
        config.slots = 6;
        config.spare = 1;
        let network = Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        for n in 0..60_u32 {
            let acquire = acquire(&network, n % 2 == 0);
            if let Ok(slot) = tokio::time::timeout(Duration::from_micros(u64::from(n % 12) * 150), acquire).await {
                network.release(slot.unwrap().index).await.unwrap();
            }
        }
        network.settled().await;
        assert_eq!(network.counts(), Counts { ready: 1, ..Counts::default() });
        network.close().await.unwrap();
    });
}

#[test]
fn running_sandboxes_survive_a_restart() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        let offline = acquire(&network, false).await.unwrap();
        let port = listen(&machine.outside, PUBLIC).await;
        let mut stream = inside(&slot.netns, move || TcpStream::connect((PUBLIC, port)).unwrap()).await;
        std::io::Read::read(&mut stream, &mut [0; 64]).unwrap();
        assert!(alive(&mut stream));
        network.settled().await;

        // The server dies; the next one takes over.
        drop(network);
        assert!(alive(&mut stream));
        let in_use_again = vec![in_use(slot.index, true), in_use(offline.index, false), in_use(39, true)];
        let network = Network::open(machine.config(), in_use_again, &Supervisor::new()).await.unwrap();
        assert!(alive(&mut stream));
        let adopted = network.adopted(slot.index).unwrap();
        let inode = |slot: &cabana_net::Slot| rustix::fs::fstat(slot.netns.as_fd()).unwrap().st_ino;
        assert_eq!((inode(&adopted), adopted.address), (inode(&slot), slot.address));
        assert!(no_reach(&network.adopted(offline.index).unwrap(), PUBLIC, port).await);
        assert!(network.adopted(39).is_none(), "it never existed");
        network.settled().await;
        assert_eq!(network.counts(), Counts { ready: 2, used: 2, ..Counts::default() });

        // A graceful stop keeps them, too.
        network.close().await.unwrap();
        assert!(alive(&mut stream));
        let network =
            Network::open(machine.config(), vec![in_use(slot.index, true)], &Supervisor::new()).await.unwrap();
        assert!(alive(&mut stream));
        assert!(network.adopted(offline.index).is_none());
        network.release(slot.index).await.unwrap();
        network.settled().await;
        assert!(cut(&mut stream));
        network.close().await.unwrap();
    });
}

#[test]
fn slots_of_a_crashed_server_are_deleted() {
    on_machine(async |machine| {
        let before = machine.network_state();
        let network = machine.open().await;
        let slot = acquire(&network, false).await.unwrap();
        network.settled().await;
        drop(network);
        assert!(sh("ip -o link").contains(&format!("cbt1-{}@", slot.index)));
        let network = machine.open().await;
        network.settled().await;
        assert_eq!(network.counts(), Counts { ready: 2, ..Counts::default() });
        assert!(!sh("ip -o link").contains(&format!("cbt1-{}@", slot.index)));
        network.close().await.unwrap();
        assert_eq!(machine.network_state(), before);
    });
}

#[test]
fn flows_end_with_their_slot() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let (slot, other) = (acquire(&network, true).await.unwrap(), acquire(&network, true).await.unwrap());
        let port = listen(&machine.outside, PUBLIC).await;
        let flows = || sh("cat /proc/sys/net/netfilter/nf_conntrack_count").trim().parse::<u32>().unwrap();
        assert!(reach(&slot, PUBLIC, port).await.is_some());
        let one = flows();
        assert!(one > 0);
        assert!(reach(&other, PUBLIC, port).await.is_some());
        assert!(flows() > one);
        network.release(slot.index).await.unwrap();
        network.settled().await;
        assert_eq!(flows(), one, "the other's are still there");
        network.release(other.index).await.unwrap();
        network.settled().await;
        assert_eq!(flows(), 0);
        network.close().await.unwrap();
    });
}

#[test]
fn addresses_are_used_round_robin() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let first = acquire(&network, true).await.unwrap();
        network.release(first.index).await.unwrap();
        for _ in 0..5 {
            let next = acquire(&network, true).await.unwrap();
            assert_ne!(next.address, first.address);
            network.release(next.index).await.unwrap();
        }
        // A packet to a released address does not leave by the default route.
        network.settled().await;
        let gone = sh(&format!("ip route get {} 2>&1 || true", first.address));
        assert!(gone.contains("No route to host"), "{gone}");
        network.close().await.unwrap();
    });
}
