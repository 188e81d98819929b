//! Tests of the ClientHello parser.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// A ClientHello as rustls sends it.
fn hello(host: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("name");
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), name).expect("client").write_tls(&mut bytes).expect("hello");
    bytes
}

/// A ClientHello with these extensions.
fn with(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let long = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let all: Vec<u8> =
        extensions.iter().flat_map(|(kind, content)| [kind.to_be_bytes().to_vec(), long(content)].concat()).collect();
    let body = [&[3, 3][..], &[7; 32], &[0], &long(&[0x13, 0x01]), &[1, 0], &long(&all)].concat();
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    let message = [&[CLIENT_HELLO][..], &length[1..], &body].concat();
    [&[HANDSHAKE, 3, 1][..], &long(&message)].concat()
}

fn sni(names: &[&[u8]]) -> (u16, Vec<u8>) {
    let long = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let list: Vec<u8> = names.iter().flat_map(|name| [&[0][..], &long(name)].concat()).collect();
    (SERVER_NAME, long(&list))
}

fn name_of(bytes: &[u8]) -> Result<Option<String>, Malformed> {
    match parse(bytes)? {
        Step::Complete(hello) => Ok(hello.name.map(|name| name.to_string())),
        Step::Need(needed) => panic!("needs {needed} of {}", bytes.len()),
    }
}

/// What the fuzzers try. A complete hello is the same whatever follows it, and every beginning of it is incomplete.
fn fuzz_one(bytes: &[u8]) -> String {
    let parsed = parse(bytes);
    match &parsed {
        Ok(Step::Need(needed)) => assert!(*needed > bytes.len() && *needed <= bytes.len() + 5 + MAX_RECORD),
        Ok(Step::Complete(_)) => {
            let more = [bytes, b"more"].concat();
            assert_eq!(parse(&more), parsed);
        }
        Err(_) => {}
    }
    for end in 0..bytes.len().min(64) {
        assert!(!matches!((parse(&bytes[..end]), &parsed), (Err(_), Ok(_))), "a beginning is worse than the whole");
    }
    match parsed {
        Ok(Step::Need(_)) => "needs more".to_owned(),
        Ok(Step::Complete(hello)) => format!("{} {}", hello.name.is_some(), hello.hides_name),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_are_found() {
    assert_eq!(name_of(&hello("Api.Example.com")), Ok(Some("api.example.com".to_owned())));
    assert_eq!(name_of(&hello("1.2.3.4")), Ok(None), "rustls sends no address");
    assert_eq!(name_of(&with(&[])), Ok(None));
    assert_eq!(name_of(&with(&[(0x002b, vec![2, 3, 4]), sni(&[b"a.com."])])), Ok(Some("a.com".to_owned())));
    assert_eq!(name_of(&with(&[sni(&[b"127.0.0.1"])])), Ok(None));
    assert_eq!(name_of(&with(&[sni(&[b"::1"])])), Ok(None));
    // An old client has no extensions at all.
    let mut old = with(&[]);
    old.truncate(old.len() - 2);
    old[4] -= 2;
    old[8] -= 2;
    assert_eq!(name_of(&old), Ok(None));
}

#[test]
fn hidden_names_are_noticed() {
    for (kind, hides) in [(0xfe0d, true), (0xffce, true), (0x0a0a, false)] {
        let bytes = with(&[sni(&[b"a.com"]), (kind, vec![0; 40])]);
        let Ok(Step::Complete(hello)) = parse(&bytes) else { panic!("{kind}") };
        assert_eq!(hello.hides_name, hides);
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_malformed() {
    for (what, bytes) in [
        ("two names", with(&[sni(&[b"a.com", b"evil.com"])])),
        ("two extensions", with(&[sni(&[b"a.com"]), sni(&[b"evil.com"])])),
        ("no name", with(&[sni(&[])])),
        ("an empty name", with(&[sni(&[b""])])),
        ("NUL", with(&[sni(&[b"a.com\0.evil.com"])])),
        ("not UTF-8", with(&[sni(&[b"a\xff.com"])])),
        ("a space", with(&[sni(&[b"a.com evil.com"])])),
        ("a number that is an address", with(&[sni(&[b"0x7f.1"])])),
        ("another kind of name", with(&[(SERVER_NAME, vec![0, 4, 1, 0, 1, b'a'])])),
        ("bytes after the list", with(&[(SERVER_NAME, vec![0, 4, 0, 0, 1, b'a', 9])])),
        ("an extension that ends early", with(&[(SERVER_NAME, vec![0, 9, 0, 0, 1, b'a'])])),
        ("too many extensions", with(&(0..200).map(|n| (n + 100, Vec::new())).collect::<Vec<_>>())),
        ("a ServerHello", vec![HANDSHAKE, 3, 3, 0, 4, 2, 0, 0, 0]),
        ("another record", vec![23, 3, 3, 0, 1, 0]),
        ("an empty record", vec![HANDSHAKE, 3, 1, 0, 0]),
        ("a record that is too long", vec![HANDSHAKE, 3, 1, 0x40, 1]),
        ("another protocol", vec![HANDSHAKE, 2, 0, 0, 4]),
    ] {
        assert!(parse(&bytes).is_err(), "{what}");
    }
    let mut followed = hello("a.com");
    let length = u16::from_be_bytes([followed[3], followed[4]]) + 4;
    followed[3..5].copy_from_slice(&length.to_be_bytes());
    followed.extend([1, 0, 0, 0]);
    assert!(parse(&followed).is_err(), "a second message in the record");
}

proptest! {
    #[test]
    fn cutting_does_not_matter(size in 40_usize..400, early in 0_usize..1000) {
        let whole = hello("api.example.com");
        let cut: Vec<u8> = whole[5..].chunks(size).flat_map(|chunk| {
            [&[HANDSHAKE, 3, 3][..], &u16::try_from(chunk.len()).expect("short").to_be_bytes(), chunk].concat()
        }).collect();
        if whole.len() / size < MAX_RECORDS - 1 {
            prop_assert_eq!(parse(&cut), parse(&whole));
        }
        let early = early.min(cut.len() - 1);
        prop_assert!(!matches!(parse(&cut[..early]), Ok(Step::Complete(_))));
    }

    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_one(&bytes);
        fuzz_one(&[&[HANDSHAKE, 3, 1, 0, 100, CLIENT_HELLO, 0, 0, 96][..], &bytes].concat());
    }
}

#[test]
fn fuzz_hello() {
    let seeds = [hello("api.example.com"), with(&[sni(&[b"a.com"]), (0xfe0d, vec![0; 40])]), with(&[])];
    cabana_fuzz_driver::Fuzz::new("hello").seeds(seeds).run(fuzz_one);
}
