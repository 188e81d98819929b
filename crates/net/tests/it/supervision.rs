//! Each task and thread of the network recovers from a panic.

use std::time::Duration;

use cabana_net::{Counts, Network};
use cabana_supervisor::Supervisor;
use hickory_proto::op::ResponseCode;

use crate::dns::{ask_over_tcp, udp};
use crate::machine::{acquire, on_machine, sh};
use crate::resolver::Resolver;

/// Makes a task panic, and waits until it is restarted.
async fn panic(supervisor: &Supervisor, task: &str) {
    let before = supervisor.restarts(task);
    assert!(supervisor.inject_panic(task));
    let restarted = async {
        while supervisor.restarts(task) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), restarted).await.unwrap_or_else(|_| panic!("{task} stays down"));
}

#[test]
fn every_task_recovers_from_a_panic() {
    on_machine(async |machine| {
        let before = machine.network_state();
        let resolver = Resolver::start(ResponseCode::NoError);
        let mut config = machine.config();
        config.resolvers = vec![resolver.address];
        let supervisor = Supervisor::new();
        let network = Network::open(config, vec![], &supervisor).await.unwrap();
        network.settled().await;

        let slot = acquire(&network, true).await.unwrap();
        panic(&supervisor, "DNS over UDP").await;
        assert_eq!(udp(&slot, "example.com.", None).await.answers.len(), 1);
        panic(&supervisor, "DNS over TCP").await;
        assert_eq!(ask_over_tcp(&slot, "example.com.").await.answers.len(), 1);

        panic(&supervisor, "network slot builder").await;
        panic(&supervisor, "network slot reaper").await;
        panic(&supervisor, "network slot pool").await;
        network.release(slot.index).await.unwrap();
        let slots = [acquire(&network, true).await.unwrap(), acquire(&network, false).await.unwrap()];
        let more = acquire(&network, true).await.unwrap();
        network.settled().await;
        assert_eq!(network.counts(), Counts { ready: 2, used: 3, ..Counts::default() });

        panic(&supervisor, "packet filter watcher").await;
        sh("nft flush ruleset");
        let restored = async {
            while !sh("nft list tables").contains("cabana_t1") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), restored).await.expect("the rules are restored");

        for slot in slots.iter().chain([&more]) {
            network.release(slot.index).await.unwrap();
        }
        network.close().await.unwrap();
        assert_eq!(machine.network_state(), before);
    });
}

#[test]
fn slots_are_created_while_the_builder_keeps_panicking() {
    on_machine(async |machine| {
        let supervisor = Supervisor::new();
        let mut config = machine.config();
        config.spare = 0;
        let network = Network::open(config, vec![], &supervisor).await.unwrap();
        for _ in 0..3 {
            supervisor.inject_panic("network slot builder");
            // The caller gets a slot whether the panic happens before, during or after the work.
            let slot = acquire(&network, true).await.unwrap();
            network.release(slot.index).await.unwrap();
        }
        network.settled().await;
        assert_eq!(network.counts(), Counts::default());
        assert!(supervisor.restarts("network slot builder") > 0);
        network.close().await.unwrap();
    });
}
