//! What listens, and whose it is.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Service, free_port, guest, listener, number_in, tag};
use crate::client::eventually;

#[test]
fn addresses() {
    let guest = guest();
    for (name, address) in [("any", "0.0.0.0"), ("loopback", "127.0.0.1"), ("any6", "::"), ("loopback6", "::1")] {
        if TcpListener::bind((address, 0)).is_err() {
            continue; // no IPv6 here
        }
        let port = free_port();
        let script = format!("sleep 0.2; exec {}", listener(address, port));
        let service = Service::start(&guest, name, &script);
        for query in [String::new(), format!("&port={port}")] {
            let found = service.listening(&query);
            let expected = json!({"boot": found["boot"], "port": port, "pid": service.pid, "process": "python3",
                "own": true, "alive": true});
            assert_eq!(found, expected, "{address} {query}");
        }
    }
}

#[test]
fn a_port_of_another_process() {
    let guest = guest();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let service = Service::start(&guest, "foreign", "sleep 600");
    let found = service.listening(&format!("&port={port}"));
    assert_eq!((&found["port"], &found["own"], &found["alive"]), (&json!(port), &json!(false), &json!(true)));
    assert_eq!(found["pid"], std::process::id());
    let found = guest.control_get(&format!("/listening?port={port}&wait=20")).json();
    assert_eq!((&found["port"], &found["own"], &found["alive"]), (&json!(port), &json!(false), &json!(false)));

    // Without a port, those of others do not count.
    let began = Instant::now();
    let found = guest.control_get(&format!("/listening?tag={}&wait=0.3", service.tag)).json();
    assert_eq!((found.get("port"), &found["alive"]), (None, &json!(true)));
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn the_lowest_of_several_ports() {
    let guest = guest();
    let mut ports = [free_port(), free_port(), free_port()];
    let script: Vec<_> = ports.iter().map(|port| listener("127.0.0.1", *port)).collect();
    let service = Service::start(&guest, "several", &(script.join(" & ") + " & wait"));
    for port in ports {
        assert_eq!(service.listening(&format!("&port={port}"))["own"], true);
    }
    ports.sort_unstable();
    assert_eq!(service.listening("")["port"], ports[0]);
}

#[test]
fn waiting_ends_with_the_service() {
    let guest = guest();
    let service = Service::start(&guest, "gone", "sleep 0.3; exit 1");
    let began = Instant::now();
    let port = free_port();
    let found = service.listening(&format!("&port={port}"));
    assert_eq!((found.get("port"), &found["alive"]), (None, &json!(false)));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let never = guest.control_get(&format!("/listening?tag={}&wait=20", tag("never"))).json();
    assert_eq!((never.get("port"), &never["alive"]), (None, &json!(false)));
}

#[test]
fn what_has_left_is_still_the_services() {
    let guest = guest();
    for (name, leave) in [
        ("setsid", "setsid PROGRAM &"),
        ("double", "(setsid bash -c 'PROGRAM & echo' > /dev/null &) ; exit 0"),
        ("nohup", "nohup PROGRAM > /dev/null 2>&1 &"),
        ("clean", "env -i PATH=$PATH setsid PROGRAM & sleep 600"),
    ] {
        let port = free_port();
        let program = format!("bash -c '{}'", listener("127.0.0.1", port).replace('\'', "'\\''"));
        std::fs::write(guest.dir().join("program"), format!("echo $$ > pid-{name}; {program}")).unwrap();
        let service = Service::start_as(&guest, "nobody", name, &leave.replace("PROGRAM", "bash ./program"));
        let found = service.listening("");
        assert_eq!(
            (&found["port"], &found["own"], &found["alive"]),
            (&json!(port), &json!(true), &json!(true)),
            "{name}"
        );
        let left = number_in(&guest.dir().join(format!("pid-{name}"))).unwrap();
        assert_ne!(left, service.pid);
        if name != "clean" {
            assert_eq!(service.output("&wait=20&end=true")["end"]["code"], 0, "{name}");
            assert_eq!(service.listening("")["port"], port, "{name}: without its first process");
        }
        assert_eq!(service.end(5).status, 204);
        eventually("nothing listens", || TcpListener::bind(("127.0.0.1", port)).is_ok());
        assert_eq!(service.listening("")["alive"], false, "{name}");
    }
}
