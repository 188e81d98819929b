//! Reachability between sandboxes, the host and the outside.

use cabana_supervisor::Supervisor;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::machine::{
    FORBIDDEN, HOST, OUTSIDE, PUBLIC, acquire, alive, cut, greeting, inside, listen, no_greeting, no_reach, on_machine,
    policy, reach, sh, start_echo,
};

#[test]
fn sandboxes_reach_the_internet_under_the_hosts_address() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        let port = listen(&machine.outside, PUBLIC).await;
        assert_eq!(reach(&slot, PUBLIC, port).await, Some(HOST.to_string()));
        network.close().await.unwrap();
    });
}

#[test]
fn networks_of_the_host_are_unreachable() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        // The gateway does not have a private address here.
        let port = listen(&machine.outside, OUTSIDE).await;
        assert!(no_reach(&slot, OUTSIDE, port).await);
        let denials = network.denials(slot.index);
        assert!(denials.by_rule.contains_key("host network 192.0.2.0/24"), "{denials:?}");

        // A network that the host joins is closed while it is connected.
        let near = Ipv4Addr::new(198, 51, 100, 7);
        inside(&machine.outside, move || sh(&format!("ip addr add {near}/32 dev lo"))).await;
        let port = listen(&machine.outside, near).await;
        assert!(reach(&slot, near, port).await.is_some());
        let closed = async |wanted: bool| {
            while sh("nft list map inet cabana_t1 closed").contains("198.51.100.0") != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        sh("ip addr add 198.51.100.1/24 dev up0");
        tokio::time::timeout(Duration::from_secs(10), closed(true)).await.expect("it is closed");
        assert!(no_reach(&slot, near, port).await);
        let on_link = network.egress().bounds().on_link.clone();
        assert!(on_link.contains(&"198.51.100.0/24".parse().unwrap()), "{on_link:?}");
        sh("ip addr del 198.51.100.1/24 dev up0");
        tokio::time::timeout(Duration::from_secs(10), closed(false)).await.expect("it is open");
        assert!(reach(&slot, near, port).await.is_some());
        network.close().await.unwrap();
    });
}

#[test]
fn the_operator_decides_beyond_policies() {
    on_machine(async |machine| {
        let mut config = machine.config();
        config.bounds.internal = vec!["192.0.2.0/24".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        config.bounds.deny = vec!["10.1.0.0/16".parse().unwrap()];
        let network = cabana_net::Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        let slot = acquire(&network, true).await.unwrap();
        let port = listen(&machine.outside, OUTSIDE).await;
        assert!(reach(&slot, OUTSIDE, port).await.is_some());
        let port = listen(&machine.outside, FORBIDDEN[0]).await;
        assert!(no_reach(&slot, FORBIDDEN[0], port).await);
        network.release(slot.index).await.unwrap();
        network.close().await.unwrap();

        let mut config = machine.config();
        config.bounds.only = vec!["203.0.113.8/30".parse().unwrap()];
        let network = cabana_net::Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        let slot = acquire(&network, true).await.unwrap();
        inside(&machine.outside, || sh("ip addr add 203.0.113.77/32 dev lo")).await;
        let port = listen(&machine.outside, PUBLIC).await;
        assert!(reach(&slot, PUBLIC, port).await.is_some());
        let other = Ipv4Addr::new(203, 0, 113, 77);
        let port = listen(&machine.outside, other).await;
        assert!(no_reach(&slot, other, port).await);
        assert!(network.denials(slot.index).by_rule.contains_key("operator only"));
        network.close().await.unwrap();
    });
}

#[test]
fn sandboxes_do_not_reach_each_other() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let (a, b) = (acquire(&network, true).await.unwrap(), acquire(&network, true).await.unwrap());
        let port = listen(&b.netns, Ipv4Addr::UNSPECIFIED).await;
        assert_eq!(reach(&b, b.address, port).await, Some(b.address.to_string()), "it does listen");
        assert!(no_reach(&a, b.address, port).await);
        assert!(no_reach(&a, b.gateway, port).await);
        network.close().await.unwrap();
    });
}

#[test]
fn the_host_is_unreachable() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let (slot, other) = (acquire(&network, true).await.unwrap(), acquire(&network, true).await.unwrap());
        let port = start_echo(Ipv4Addr::UNSPECIFIED);
        assert!(greeting((HOST, port).into()).is_some(), "it does listen");
        for address in [slot.gateway, other.gateway, slot.dns, HOST, Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            assert!(no_reach(&slot, address, port).await, "{address}");
        }
        let udp = UdpSocket::bind((HOST, 0)).unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let to = udp.local_addr().unwrap();
        inside(&slot.netns, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let _ = socket.send_to(b"x", to);
        })
        .await;
        assert!(udp.recv(&mut [0; 8]).is_err());
        network.close().await.unwrap();
    });
}

#[test]
fn private_ranges_are_unreachable() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        for address in FORBIDDEN {
            let port = listen(&machine.outside, address).await;
            let host = tokio::task::spawn_blocking(move || greeting((address, port).into())).await.unwrap();
            assert!(host.is_some(), "the host itself reaches {address}");
            assert!(no_reach(&slot, address, port).await, "{address}");
        }
        // No IPv6 leaves, not even mapped addresses.
        let mapped: std::net::SocketAddr = "[::ffff:169.254.169.254]:80".parse().unwrap();
        assert!(inside(&slot.netns, move || no_greeting(mapped)).await);
        network.close().await.unwrap();
    });
}

#[test]
fn rejections_are_immediate() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        for address in [FORBIDDEN[3], HOST] {
            let refused = inside(&slot.netns, move || {
                TcpStream::connect_timeout(&(address, 80).into(), Duration::from_secs(5)).unwrap_err().kind()
            });
            assert_eq!(refused.await, std::io::ErrorKind::HostUnreachable);
        }
        network.close().await.unwrap();
    });
}

#[test]
fn sandboxes_are_unreachable_from_outside() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        let port = listen(&slot.netns, Ipv4Addr::UNSPECIFIED).await;
        let to = (slot.address, port).into();
        let from_outside = inside(&machine.outside, move || {
            sh(&format!("ip route add 100.96.0.0/16 via {HOST}"));
            no_greeting(to)
        });
        assert!(from_outside.await);
        network.close().await.unwrap();
    });
}

/// The edge asks for the token of a sandbox's ports; another user's program must not go around it.
#[test]
fn other_users_of_the_host_do_not_reach_sandboxes() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, true).await.unwrap();
        let port = listen(&slot.netns, Ipv4Addr::UNSPECIFIED).await;
        let (address, host) = (slot.address, slot.dns);
        let connect = |user: &str| {
            sh(&format!("setpriv {user} bash -c 'read -r l </dev/tcp/{address}/{port}; echo $l' 2>&1 || true"))
        };
        assert_eq!(connect("--reuid=0").trim(), host.to_string());
        let nobody = connect("--reuid=65534 --clear-groups");
        assert!(nobody.contains("No route to host") || nobody.contains("Permission denied"), "{nobody}");
        // Root in a user namespace of its own is still that user.
        let mapped = connect("--reuid=65534 --clear-groups unshare --user --map-root-user");
        assert!(mapped.lines().all(|line| line != host.to_string()), "{mapped}");
        network.close().await.unwrap();
    });
}

#[test]
fn forged_sources_are_dropped() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let (slot, other) = (acquire(&network, true).await.unwrap(), acquire(&network, true).await.unwrap());
        let socket = inside(&machine.outside, || UdpSocket::bind((PUBLIC, 0)).unwrap()).await;
        socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let send = |source: Ipv4Addr| {
            inside(&slot.netns, move || {
                sh(&format!("ip addr replace {source}/32 dev eth0"));
                let socket = UdpSocket::bind((source, 0)).unwrap();
                // The kernel may report the drop or rejection here.
                let _ = socket.send_to(b"x", (PUBLIC, port));
            })
        };
        for source in [other.address, HOST, Ipv4Addr::new(100, 96, 200, 2), Ipv4Addr::new(198, 51, 100, 1)] {
            send(source).await;
            assert!(socket.recv(&mut [0; 8]).is_err(), "{source}");
        }
        let own = slot.address;
        inside(&slot.netns, move || UdpSocket::bind((own, 0)).unwrap().send_to(b"x", (PUBLIC, port)).unwrap()).await;
        assert!(socket.recv(&mut [0; 8]).is_ok(), "its own address works");
        network.close().await.unwrap();
    });
}

#[test]
fn internet_access_can_be_toggled() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, false).await.unwrap();
        let neighbour = acquire(&network, true).await.unwrap();
        let port = listen(&machine.outside, PUBLIC).await;
        assert!(no_reach(&slot, PUBLIC, port).await);
        assert!(reach(&neighbour, PUBLIC, port).await.is_some());

        // Enabling it works; disabling it cuts a live connection.
        assert!(network.set_policy(slot.index, policy(true)).await.unwrap());
        let mut stream = inside(&slot.netns, move || TcpStream::connect((PUBLIC, port)).unwrap()).await;
        let mut said = [0; 64];
        std::io::Read::read(&mut stream, &mut said).unwrap();
        assert!(alive(&mut stream));
        assert!(network.set_policy(slot.index, policy(false)).await.unwrap());
        assert!(cut(&mut stream));
        assert!(!network.set_policy(999, policy(false)).await.unwrap());

        // The next owner of the address starts with a clean state.
        network.release(slot.index).await.unwrap();
        network.settled().await;
        assert!(!sh("nft list set inet cabana_t1 offline").contains("elements"));
        network.close().await.unwrap();
    });
}

#[test]
fn flushed_rules_are_restored() {
    on_machine(async |machine| {
        let network = machine.open().await;
        let slot = acquire(&network, false).await.unwrap();
        sh("nft flush ruleset");
        let restored = async {
            while !sh("nft list ruleset").contains(&slot.address.to_string()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), restored).await.unwrap();
        let port = start_echo(Ipv4Addr::UNSPECIFIED);
        assert!(no_reach(&slot, HOST, port).await);
        network.close().await.unwrap();
    });
}

#[test]
fn two_servers_are_independent() {
    on_machine(async |machine| {
        let first = machine.open().await;
        let mut config = machine.config();
        config.instance = "t".into();
        config.run_dir = machine.dir.path().join("second");
        config.block = Ipv4Addr::new(100, 97, 0, 0);
        let second = cabana_net::Network::open(config, vec![], &Supervisor::new()).await.unwrap();
        let (a, b) = (acquire(&first, true).await.unwrap(), acquire(&second, true).await.unwrap());
        let port = listen(&machine.outside, PUBLIC).await;
        assert!(reach(&a, PUBLIC, port).await.is_some());
        assert!(reach(&b, PUBLIC, port).await.is_some());
        let port = listen(&b.netns, Ipv4Addr::UNSPECIFIED).await;
        assert!(no_reach(&a, b.address, port).await);
        first.release(a.index).await.unwrap();
        first.close().await.unwrap();
        let port = listen(&machine.outside, PUBLIC).await;
        assert!(reach(&b, PUBLIC, port).await.is_some(), "the other's end does not matter");
        second.close().await.unwrap();
    });
}
