//! The real redirect, in a network namespace of the test. Needs root, `ip` and `nft`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use cabana_egress::Kernel;
use cabana_types::egress::Bounds;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{World, ask, echo, get, limits};

fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().expect("program")).args(words).status();
    assert!(status.is_ok_and(|status| status.success()), "{command}");
}

fn nft(rules: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft");
    nft.stdin.take().expect("stdin").write_all(rules.as_bytes()).expect("write");
    assert!(nft.wait().is_ok_and(|status| status.success()), "{rules}");
}

/// In one namespace are the sandbox (its connections to port 80 of one address are redirected), the proxy, and the server,
/// which has a public address.
#[test]
fn the_kernel_tells_where_a_redirected_connection_was_going() {
    // The whole test is on this thread, and so in the new namespace.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a namespace: this test needs root");
    run("ip link set lo up");
    run("ip addr add 93.184.216.34/32 dev lo");
    run("ip route add 6.6.6.0/24 dev lo src 127.0.0.1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let world = World::new(json!({"allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"]}));
        // The server is on this machine, which is closed otherwise.
        *world.bounds.lock().expect("lock") =
            Arc::new(Bounds { internal: vec!["93.184.216.34".parse().expect("prefix")], ..Bounds::default() });
        world.name("a.com", &["93.184.216.34"]);
        world.start_proxy(Arc::new(Kernel), limits()).await;
        let proxy = *world.address.lock().expect("lock");
        let redirect = format!("ip daddr 6.6.6.6 tcp dport 80 dnat to {proxy}");
        nft(&format!("table ip test {{\nchain out {{\ntype nat hook output priority -100;\n{redirect}\n}}\n}}\n"));
        let listener = TcpListener::bind("93.184.216.34:80").await.expect("listen");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream, "right"));
            }
        });

        let allowed = TcpStream::connect("6.6.6.6:80").await.expect("connect");
        assert!(ask(allowed, &get("a.com")).await.contains("server: right"));
        let denied = TcpStream::connect("6.6.6.6:80").await.expect("connect");
        assert_eq!(ask(denied, &get("evil.com")).await, "");
        assert_eq!(world.denied(), [("evil.com:80".to_owned(), "denyOut 0.0.0.0/0".to_owned())]);
        // Nobody talks to the proxy directly.
        let direct = TcpStream::connect(proxy).await.expect("connect");
        assert_eq!(ask(direct, &get("a.com")).await, "");
        // An address of this machine that the operator did not open.
        *world.bounds.lock().expect("lock") = Arc::default();
        let own = TcpStream::connect("6.6.6.6:80").await.expect("connect");
        assert!(ask(own, &get("a.com")).await.contains("one of this machine's"));
        assert_eq!(world.denied().len(), 1);
    });
}
