//! Ping works inside, for every user of a sandbox.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::machine::{FORBIDDEN, PUBLIC, acquire, inside, on_machine, owner};
use crate::policy::rules;

/// The host's id of an ordinary user of the first sandbox.
const USER: u32 = 0x8001_0000 + 1000;

/// Sends an echo request and waits for the response, as `ping` does without privileges.
const PING: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(1.5)
s.sendto(b'\\x08\\0\\0\\0\\0\\0\\0\\x01ping', (sys.argv[1], 0))
assert s.recv(100).endswith(b'ping')
";

fn ping(to: std::net::Ipv4Addr) -> bool {
    let mut command = Command::new("python3");
    let output = command.args(["-c", PING, &to.to_string()]).uid(USER).gid(USER).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || said.contains("timed out") || said.contains("No route to host"), "{said}");
    output.status.success()
}

#[test]
fn every_user_can_ping_what_the_policy_allows() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        assert!(inside(&slot.netns, || ping(PUBLIC)).await);
        assert!(!inside(&slot.netns, || ping(FORBIDDEN[0])).await);
        let denied = network.acquire(&owner(), rules(&[], &["203.0.113.0/24"])).await.unwrap();
        assert!(!inside(&denied.netns, || ping(PUBLIC)).await);
        network.close().await.unwrap();
    });
}
