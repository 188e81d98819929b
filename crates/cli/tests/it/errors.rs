//! Error messages and exit codes.

use crate::fake::Fake;
use crate::{against, cabana, client, report, stderr};

#[test]
fn wrong_arguments_are_the_callers_fault() {
    for args in [
        &["nonsense"][..],
        &["exec"],
        &["exec", "ifake0"],
        &["exec", "NOT-AN-ID", "--", "true"],
        &["run"],
        &["run", "--memory", "lots", "--", "true"],
        &["run", "--env", "novalue", "--", "true"],
        &["timeout", "ifake0", "soon"],
        &["kill"],
        &["kill", "ifake0", "--all"],
        &["ls", "--quiet", "--json"],
        &["exec", "ifake0", "-t", "--background", "--", "true"],
        &["shell", "ifake0", "--keep"],
    ] {
        let output = cabana(args).output().expect("run");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", report(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn messages() {
    let fake = Fake::start();
    insta::assert_snapshot!("no-key", report(&cabana(&["ls"]).output().expect("run")));
    let remote = ["ls", "--api-url", "http://192.0.2.1:3000"];
    insta::assert_snapshot!("no-key-for-another-machine", report(&cabana(&remote).output().expect("run")));
    let nobody = ["ls", "--api-key", "k", "--api-url", "http://127.0.0.1:1"];
    insta::assert_snapshot!("no-server", report(&cabana(&nobody).output().expect("run")));
    let scheme = ["ls", "--api-key", "k", "--api-url", "ftp://host"];
    insta::assert_snapshot!("scheme", report(&cabana(&scheme).output().expect("run")));
    insta::assert_snapshot!("wrong-key", report(&against(&fake, &["ls", "--api-key", "wrong"])));
    insta::assert_snapshot!("unknown-sandbox", report(&against(&fake, &["exec", "inope", "--", "true"])));
    insta::assert_snapshot!("unknown-template", report(&against(&fake, &["create", "--template", "nope"])));
    let id = fake.sandbox();
    insta::assert_snapshot!("refused-timeout", report(&against(&fake, &["timeout", &id, "1000d"])));
    insta::assert_snapshot!("kill-all-without-yes", report(&against(&fake, &["kill", "--all"])));
    insta::assert_snapshot!("shell-without-terminal", report(&against(&fake, &["shell", &id])));
    insta::assert_snapshot!("cp-without-sandbox", report(&against(&fake, &["cp", "a", "b"])));
    insta::assert_snapshot!("kill-continues", report(&against(&fake, &["kill", "inope", &id, "inada"])));
    assert!(fake.live().is_empty());
}

#[test]
fn the_local_servers_key_is_used() {
    let fake = Fake::start();
    let data = tempfile::tempdir().expect("directory");
    std::fs::write(data.path().join("key"), format!("{}\n", crate::fake::KEY)).expect("write");
    let mut command = cabana(&["ls"]);
    command.env("CABANA_DATA_DIR", data.path());
    let listen = fake.url.trim_start_matches("http://");
    let output = command.env("CABANA_LISTEN", listen).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
}

#[test]
fn e2b_variables_are_used() {
    let fake = Fake::start();
    let output =
        cabana(&["ls"]).env("E2B_API_URL", &fake.url).env("E2B_API_KEY", crate::fake::KEY).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    // Cabana's variables have priority.
    let output =
        client(&fake, &["ls"]).env("E2B_API_URL", "http://127.0.0.1:1").env("E2B_API_KEY", "x").output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
}

#[test]
fn the_key_is_never_shown() {
    let fake = Fake::start();
    for args in [
        &["ls", "--api-key", "hunter2-secret"][..],
        &["create", "--api-key", "hunter2-secret", "--api-url", "http://127.0.0.1:1"],
    ] {
        let output = against(&fake, args);
        assert!(!output.status.success() && !stderr(&output).contains("hunter2"), "{}", report(&output));
    }
}
