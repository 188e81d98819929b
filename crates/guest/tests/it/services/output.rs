//! Output by cursor.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Service, data, guest, tag};
use crate::client::{Guest, eventually};

#[test]
fn cursors_and_waiting() {
    let guest = guest();
    let go = guest.dir().join("go");
    let script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two >&2; exit 3";
    let service = Service::start(&guest, "cursors", script);
    let first = service.output("&after=0&wait=20");
    assert_eq!((data(&first).as_str(), &first["begin"], &first["pid"]), ("one\n", &json!(0), &json!(service.pid)));
    assert_eq!(first.get("end"), None);
    assert_eq!(data(&service.output("&after=1&max=2")), "ne");
    assert_eq!((data(&service.output("&max=2")).as_str(), &service.output("&max=2")["begin"]), ("e\n", &json!(2)));

    // Nothing new: the answer comes when the time is over.
    let began = Instant::now();
    let nothing = service.output("&after=4&wait=0.3");
    assert_eq!((data(&nothing).as_str(), &nothing["begin"]), ("", &json!(4)));
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(service.output("&after=99")["begin"], 4, "a cursor beyond the end");

    let (output, end) = std::thread::scope(|scope| {
        let output = scope.spawn(|| service.output("&after=4&wait=20"));
        let end = scope.spawn(|| service.output("&after=0&wait=20&end=true"));
        std::fs::write(&go, "").unwrap();
        (output.join().unwrap(), end.join().unwrap())
    });
    assert_eq!((data(&output).as_str(), &output["begin"]), ("two\n", &json!(4)));
    assert_eq!(end["end"], json!({"code": 3, "status": "exit status 3"}));
    assert_eq!(data(&end), "one\ntwo\n", "the last output is there with the end");
    let last = service.output("&after=8&wait=20");
    assert_eq!((data(&last).as_str(), &last["end"]["code"]), ("", &json!(3)));
}

#[test]
fn dropped_output_is_a_gap_between_cursors() {
    let guest = guest();
    let service =
        Service::start(&guest, "dropped", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 600");
    // Nobody reads, and it goes on nevertheless.
    eventually("all is printed", || data(&service.output("&max=4")) == "end\n");
    let kept = service.output("&after=7");
    let (begin, size) = (kept["begin"].as_u64().unwrap(), data(&kept).len() as u64);
    assert!(begin > 1_900_000 && begin + size == 3_000_005, "{begin} {size}");
    assert_eq!(service.output("&max=4")["begin"], 3_000_001);
    assert_eq!(service.output("&after=0&max=0")["data"], "");
}

#[test]
fn a_slow_host_holds_nothing_up() {
    let guest = guest();
    let service = Service::start(&guest, "slow", "head -c 20000000 /dev/zero; echo done > finished; sleep 600");
    // A request whose answer is not read.
    let path = format!("/output?tag={}&after=0", service.tag);
    let mut unread = std::os::unix::net::UnixStream::connect(guest.dir().join("control")).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(50);
    std::io::Write::write_all(&mut unread, request.as_bytes()).unwrap();
    eventually("it prints all", || guest.dir().join("finished").exists());
    assert!(guest.memory() < 40 << 20, "{} bytes", guest.memory());
}

#[test]
fn ends_by_signals_and_the_unknown() {
    let guest = guest();
    let service = Service::start(&guest, "signal", "echo last words; kill -9 $$");
    let end = service.output("&wait=20&end=true");
    assert_eq!((end["end"].clone(), data(&end).as_str()), (json!({"status": "signal: killed"}), "last words\n"));

    let boot = |guest: &Guest, tag: &str| -> (String, Value) {
        let answer = guest.control_get(&format!("/output?tag={tag}&wait=20")).json();
        (answer["boot"].as_str().unwrap().to_owned(), answer["command"].clone())
    };
    let (first, unknown) = boot(&guest, &tag("nobody"));
    assert_eq!((first.len(), unknown), (32, Value::Null));
    assert_eq!(boot(&guest, &service.tag).0, first);
    assert_ne!(boot(&Guest::start(), &service.tag).0, first, "another start of the daemon");
}

#[test]
fn the_end_does_not_wait_for_a_stalled_reader() {
    let guest = guest();
    let service = Service::start(&guest, "stalled", "sleep 0.3; head -c 9000000 /dev/zero");
    // A client that reads nothing holds the process up, until it is killed.
    let _stalled = guest.stream("process.Process/Connect", &[], &json!({"process": {"tag": service.tag}}));
    eventually("it prints", || !data(&service.output("&max=1")).is_empty());
    let signal = json!({"process": {"pid": service.pid}, "signal": "SIGNAL_SIGKILL"});
    guest.call("process.Process/SendSignal", &signal);
    assert_eq!(service.output("&wait=20&end=true&max=0")["end"]["status"], "signal: killed");
}
