//! TLS: which servers the command line trusts, and its errors otherwise.

use std::path::Path;
use std::time::Duration;

use cabana_edge::tls::Tls;

use crate::fake::{Fake, KEY};
use crate::{cabana, report, stderr, stdout};

const LIFE: Duration = Duration::from_secs(3600);

/// A server that issues its own certificates in `data`, for the names.
fn internal(data: &Path, names: &[&str]) -> Fake {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Fake::start_tls(Tls::internal(&data.join("tls"), names, LIFE, LIFE).expect("tls"))
}

#[test]
fn the_local_server_is_found_and_trusted() {
    let data = tempfile::tempdir().expect("directory");
    let fake = internal(data.path(), &["127.0.0.1"]);
    std::fs::write(data.path().join("key"), KEY).expect("write");
    let mut command = cabana(&["ls"]);
    command.env("CABANA_DATA_DIR", data.path()).env("CABANA_TLS_MODE", "internal");
    let output = command.env("CABANA_LISTEN", fake.url.trim_start_matches("https://")).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
}

#[test]
fn the_local_servers_certificate_files_are_trusted() {
    let dir = tempfile::tempdir().expect("directory");
    let fake = internal(dir.path(), &["e2b.test", "*.e2b.test"]);
    let mut command = cabana(&["ls", "--api-key", KEY]);
    command.env("CABANA_TLS_MODE", "files").env("CABANA_DOMAIN", "e2b.test").env("CABANA_TLS_KEY", "/not/asked/for");
    command.env("CABANA_TLS_CERTIFICATE", dir.path().join("tls/ca.pem"));
    let output = command.env("CABANA_LISTEN", fake.url.trim_start_matches("https://")).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
}

#[test]
fn other_servers_need_an_explicit_authority() {
    let data = tempfile::tempdir().expect("directory");
    let fake = internal(data.path(), &["127.0.0.1"]);
    let ask = |ca: Option<&Path>| {
        let mut command = cabana(&["ls", "--api-key", KEY, "--api-url", &fake.url]);
        if let Some(ca) = ca {
            command.env("SSL_CERT_FILE", ca);
        }
        command.output().expect("run")
    };
    let trusted = ask(Some(&data.path().join("tls/ca.pem")));
    assert_eq!(trusted.status.code(), Some(0), "{}", report(&trusted));
    let unknown = ask(None);
    assert_eq!(unknown.status.code(), Some(2), "{}", report(&unknown));
    assert!(
        stderr(&unknown).contains("certificate") && stderr(&unknown).contains("SSL_CERT_FILE"),
        "{}",
        report(&unknown)
    );
}

#[test]
fn the_authority_is_printed() {
    let data = tempfile::tempdir().expect("directory");
    let _fake = internal(data.path(), &["localhost"]);
    let output = cabana(&["tls", "ca"]).env("CABANA_DATA_DIR", data.path()).output().expect("run");
    assert_eq!(stdout(&output), std::fs::read_to_string(data.path().join("tls/ca.pem")).expect("read"));
    assert!(stderr(&output).contains("NODE_EXTRA_CA_CERTS"), "{}", report(&output));
    insta::assert_snapshot!("no-authority", report(&cabana(&["tls", "ca"]).output().expect("run")));
}
