//! Services: starting, listing, logs, links.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::fake_services::{BROKEN, LINK, WEB};
use crate::{against, report, stderr, stdout};

#[test]
fn start_waits_and_tells_why_it_failed() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let sent = || fake.world.created.lock().expect("lock").pop().expect("a request");
    let args = ["service", "start", &id, "--name", "web", "--port", "3000", "--cwd", "/app", "-e", "A=b", "--public"];
    let rest = ["--slug", "my-shop", "--always-on", "--", "npm", "run", "a b"];
    insta::assert_snapshot!("service-start", report(&against(&fake, &[&args[..], &rest].concat())));
    insta::assert_json_snapshot!("service-request", sent());
    insta::assert_snapshot!("service-failed", report(&against(&fake, &["service", "start", &id, "--", "false"])));
    assert_eq!(sent(), json!({"command": "false"}));

    let output = against(&fake, &["service", "start", &id, "--no-wait", "--json", "--", "cd app && npm start"]);
    let service: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!((&service["state"], output.status.code()), (&json!("starting"), Some(0)));
    assert_eq!(sent(), json!({"command": "cd app && npm start"}));
    for wrong in
        [&["--slug", "shop"][..], &["--name", "A"], &["--port", "0"], &["--public", "--slug", "api"], &["-e", "A"]]
    {
        let output = against(&fake, &[&["service", "start", &id], wrong, &["--", "x"]].concat());
        assert_eq!(output.status.code(), Some(1), "{wrong:?} {}", stderr(&output));
    }
}

#[test]
fn listings_and_names() {
    let fake = Fake::start();
    let (id, other) = (fake.sandbox(), fake.sandbox());
    let all = report(&against(&fake, &["service", "ls"]));
    insta::assert_snapshot!("services", all);
    assert_eq!(report(&against(&fake, &["services", "list", &id])), all);
    assert_eq!(stdout(&against(&fake, &["service", "ls", &other])), "");
    let rows: Vec<Value> = serde_json::from_slice(&against(&fake, &["service", "ls", "--json"]).stdout).expect("json");
    assert_eq!(rows.len(), 2);

    for (service, shown) in [(id.clone(), format!("{id}/web")), (WEB.to_owned(), WEB.to_owned())] {
        for command in ["stop", "rm"] {
            assert_eq!(stdout(&against(&fake, &["service", command, &service])), format!("{shown}\n"));
        }
        assert!(stdout(&against(&fake, &["service", "restart", &service])).contains("running"));
    }
    let output = against(&fake, &["service", "restart", BROKEN]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let missing = format!("{id}/api");
    insta::assert_snapshot!("service-missing", report(&against(&fake, &["service", "stop", &missing, WEB])));
    let unknown = against(&fake, &["service", "stop", "svc_00000000000000000000"]);
    assert!(stderr(&unknown).contains("`cabana service ls` lists the services"), "{}", stderr(&unknown));
    assert_eq!(against(&fake, &["service", "stop", "svc_0"]).status.code(), Some(1));
}

#[test]
fn logs() {
    let fake = Fake::start();
    let id = fake.sandbox();
    insta::assert_snapshot!("service-logs", report(&against(&fake, &["service", "logs", &id, "--tail", "5"])));
    insta::assert_snapshot!("service-logs-follow", report(&against(&fake, &["service", "logs", WEB, "-f"])));
    let output = stdout(&against(&fake, &["service", "logs", WEB, "-f", "--json"]));
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    assert_eq!((lines.len(), &lines[1]["lines"][0]), (2, &json!("GET /")));
    let cut = against(&fake, &["service", "logs", BROKEN, "-f"]);
    assert_eq!(cut.status.code(), Some(2), "the connection ended: {}", stderr(&cut));
}

#[test]
fn addresses_and_links() {
    let fake = Fake::start();
    let id = fake.sandbox();
    let open = |args: &[&str]| stdout(&against(&fake, &[&["service", "open", &id], args].concat()));
    assert_eq!(open(&[]), format!("http://3000-{id}.localhost:3000/\n"));
    assert_eq!(open(&["--path", "/docs?a=1"]), format!("http://3000-{id}.localhost:3000/docs?a=1\n"));
    let link = format!("http://p{}.localhost:3000/\n", "a".repeat(26));
    assert_eq!(stdout(&against(&fake, &["service", "link", &id, "--expires", "2h"])), link);
    assert_eq!(fake.world.created.lock().expect("lock").pop(), Some(json!({"expiresInSeconds": 7200})));
    assert_eq!(stdout(&against(&fake, &["service", "link", WEB])), link);
    assert_eq!(fake.world.created.lock().expect("lock").pop(), Some(json!({"expiresInSeconds": 3600})));
    insta::assert_snapshot!("service-links", report(&against(&fake, &["service", "links", &id])));
    let output = against(&fake, &["service", "unlink", &id, "grt_00000000000000000000", LINK]);
    assert_eq!((stdout(&output), output.status.code()), (format!("{LINK}\n"), Some(1)), "goes on after an error");
}
