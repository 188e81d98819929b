//! Tests of the validation.

use cabana_types::egress::Bounds;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn settings() -> Egress {
    Egress {
        bounds: Bounds { internal: vec!["10.1.0.0/16".parse().expect("prefix")], ..Bounds::default() },
        default: Preset::Internet,
        registries: vec!["packages.example.org".parse().expect("target")],
    }
}

fn read(value: &Value) -> Result<Option<EgressPolicy>, String> {
    let request = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    requested(&request, None, &settings()).map_err(|e| e.message().to_owned())
}

fn policy(value: Value) -> EgressPolicy {
    read(&value).expect("valid").expect("a policy")
}

fn refused(value: Value) -> String {
    read(&value).expect_err("refused")
}

#[test]
fn silence_is_not_a_policy() {
    for value in
        [json!({}), json!({"allowOut": null, "allowPublicTraffic": false}), json!({"allow_internet_access": true})]
    {
        assert_eq!(read(&value), Ok(None), "{value}");
    }
    assert_eq!(read(&json!({"allowOut": [], "denyOut": [], "dnsServers": [], "rules": {}})), Ok(None));
    assert!(policy(json!({"allow_internet_access": false})).is_offline());
    let cut = requested(&NetworkRequest::default(), Some(false), &settings()).expect("valid").expect("a policy");
    assert!(cut.is_offline());
}

#[test]
fn lists_are_parsed_and_deduplicated() {
    let policy = policy(json!({
        "allowOut": ["A.example.com", "a.example.com.", "*.b.example.com", "8.8.8.8", "8.8.8.8/32", "2001:db8::/32"],
        "denyOut": ["0.0.0.0/0", "::/0", "0.0.0.0/0"],
    }));
    let shown: Vec<_> = policy.allow_out.iter().map(Target::to_string).collect();
    assert_eq!(shown, ["a.example.com", "*.b.example.com", "8.8.8.8", "2001:db8::/32"]);
    assert_eq!(policy.deny_out, [Prefix::ALL_V4, Prefix::ALL_V6]);
}

#[test]
fn errors_have_the_text_that_clients_know() {
    for (value, text) in [
        (json!({"denyOut": ["example.com"]}), "invalid denied CIDR example.com"),
        (json!({"denyOut": ["0.0.0.0"]}), "invalid denied CIDR 0.0.0.0"),
        (json!({"denyOut": ["1.2.3.4/33"]}), "invalid denied CIDR 1.2.3.4/33"),
        (
            json!({"allowOut": ["example.com"]}),
            "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
        ),
        (json!({"rules": {"*.a.test": [{}]}}), "Rule domain \"*.a.test\" is not a valid domain name."),
        (json!({"rules": {"1.2.3.4": [{}]}}), "Rule domain \"1.2.3.4\" is not a valid domain name."),
        (json!({"rules": {"a.test:80": [{}]}}), "Rule domain \"a.test:80\" is not a valid domain name."),
        (
            json!({"rules": {"a.test": [{"transform": {"headers": {"x": "${e2b.secrets.}"}}}]}}),
            "Network transform header contains a malformed E2B placeholder.",
        ),
    ] {
        assert_eq!(refused(value), text);
    }
    let rules: BTreeMap<String, Value> = (0..11).map(|n| (format!("h{n}.test"), json!([]))).collect();
    assert_eq!(refused(json!({"rules": rules})), "Network rules can have at most 10 domains.");
}

#[test]
fn huge_lists_are_refused() {
    let many: Vec<String> = (0..10_000).map(|n| format!("1.2.{}.{}", n / 256, n % 256)).collect();
    for (field, most) in [("allowOut", "2048"), ("denyOut", "2048"), ("dnsServers", "10")] {
        let text = refused(json!({field: many.clone()}));
        assert_eq!(text, format!("network.{field} has 10000 entries; at most {most} are taken"));
    }
    assert_eq!(policy(json!({"denyOut": many[..2048]})).deny_out.len(), 2048);
}

#[test]
fn presets_are_added_to() {
    assert!(policy(json!({"preset": "none"})).is_offline());
    assert!(policy(json!({"preset": "internet"})).is_open());
    let more = policy(json!({"preset": "registries", "allowOut": ["9.9.9.9"]}));
    assert_eq!(more.allow_out.len(), 2);
    assert!(more.denies_all());
    assert!(!policy(json!({"preset": "none", "allowOut": ["a.test"]})).is_offline());
    assert!(refused(json!({"preset": "all"})).starts_with("network preset must be none, registries or internet"));
    let none = Egress { registries: vec![], ..settings() };
    let request = NetworkRequest { preset: Some("registries".into()), ..NetworkRequest::default() };
    let error = requested(&request, None, &none).expect_err("no registries");
    assert!(error.message().contains("egress.registries"), "{error:?}");
}

#[test]
fn name_servers_must_be_open_to_sandboxes() {
    let servers = policy(json!({"dnsServers": ["9.9.9.9", "10.1.2.3", "9.9.9.9"]})).dns_servers;
    assert_eq!(servers, [Ipv4Addr::new(9, 9, 9, 9), Ipv4Addr::new(10, 1, 2, 3)]);
    for wrong in ["10.2.0.1", "127.0.0.1", "169.254.169.254", "2001:db8::1", "dns.example.com", "", "9.9.9.9:53"] {
        refused(json!({"dnsServers": [wrong]}));
    }
}

#[test]
fn proxies_are_checked() {
    let proxy = |value: Value| read(&json!({"egressProxy": value}));
    let taken = proxy(json!({"address": "proxy.example.com:1080", "username": "u", "password": "p"}));
    assert_eq!(taken.expect("valid").expect("policy").egress_proxy.expect("proxy").address, "proxy.example.com:1080");
    assert!(proxy(json!({"address": "[2606:4700::1]:1080", "tls": {"enabled": true, "serverName": "a.test"}})).is_ok());
    for wrong in [
        json!({"address": "proxy.example.com"}),
        json!({"address": "proxy.example.com:0"}),
        json!({"address": "proxy.example.com:+1"}),
        json!({"address": "socks5://proxy.example.com:1"}),
        json!({"address": ":1080"}),
        json!({"address": "localhost:1080"}),
        json!({"address": "127.0.0.1:1080"}),
        json!({"address": "[::1]:1080"}),
        json!({"address": "169.254.169.254:80"}),
        json!({"address": "a.test:1", "password": "p"}),
        json!({"address": "a.test:1", "username": "x".repeat(256)}),
        json!({"address": "a.test:1", "username": ""}),
        json!({"address": "a.test:1", "tls": {"enabled": true, "caCert": "x"}}),
        json!({"address": "a.test:1", "tls": {"enabled": true, "caCert": "x".repeat(9000)}}),
        json!({"address": "a.test:1", "tls": {"enabled": true, "serverName": "a b"}}),
        json!({"address": "a.test:1", "tls": true}),
        json!("a.test:1"),
    ] {
        assert!(proxy(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn headers_are_checked() {
    let rule = |headers: Value| read(&json!({"rules": {"a.test": [{"transform": {"headers": headers}}]}}));
    let taken = rule(json!({"Authorization": "Bearer ${e2b.secrets.Key} ${HOME}"})).expect("valid").expect("policy");
    let host: HostName = "a.test".parse().expect("name");
    assert_eq!(taken.rules[&host]["Authorization"].to_string(), "Bearer ${e2b.secrets.key} ${HOME}");
    assert!(rule(json!({})).expect("valid").expect("policy").rules.is_empty());
    let many: BTreeMap<String, &str> = (0..21).map(|n| (format!("x-{n}"), "v")).collect();
    let secrets: String = (0..33).map(|n| format!("${{e2b.secrets.s{n}}}")).collect();
    for wrong in [
        json!({"a b": "v"}),
        json!({"": "v"}),
        json!({"x".repeat(65): "v"}),
        json!({"x": "a\r\nb: c"}),
        json!({"x": "v".repeat(2049)}),
        json!({"X": "1", "x": "2"}),
        json!({"Host": "b.test"}),
        json!({"transfer-encoding": "chunked"}),
        json!({"x": secrets}),
        json!(many),
    ] {
        assert!(rule(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(read(&json!({"rules": {"a.test": [{"transform": {}}, {"transform": {}}]}})).is_err());
}

proptest! {
    #[test]
    fn any_request_is_a_policy_or_refused(
        allow in proptest::collection::vec("\\PC{0,20}|[a-z*.0-9/:]{1,20}", 0..5),
        deny in proptest::collection::vec("\\PC{0,20}|[0-9./:]{1,20}", 0..5),
        address in "\\PC{0,20}|[a-z0-9.:\\[\\]]{0,20}",
    ) {
        let value = json!({"allowOut": allow, "denyOut": deny, "egressProxy": {"address": address}});
        if let Ok(Some(policy)) = read(&value) {
            prop_assert!(!policy.names_hosts() || policy.denies_all());
            let text = serde_json::to_string(&policy).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<EgressPolicy>(&text).expect("policy"), policy);
        }
    }
}
