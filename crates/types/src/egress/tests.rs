//! Tests of the policy's evaluation.

use proptest::prelude::*;

use super::*;

fn name(text: &str) -> HostName {
    text.parse().expect("name")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
    EgressPolicy {
        allow_out: allow.iter().map(|text| text.parse().expect("target")).collect(),
        deny_out: deny.iter().map(|text| text.parse().expect("prefix")).collect(),
        ..EgressPolicy::default()
    }
}

#[test]
fn allow_wins_over_deny() {
    let none = Bounds::default();
    let policy = policy(&["8.8.8.8", "1.2.0.0/16"], &["0.0.0.0/0"]);
    assert!(policy.by_address(ip("8.8.8.8"), &none).allowed);
    assert!(policy.by_address(ip("1.2.3.4"), &none).allowed);
    let denied = policy.by_address(ip("9.9.9.9"), &none);
    assert_eq!((denied.allowed, denied.rule.to_string().as_str()), (false, "denyOut 0.0.0.0/0"));
    assert!(!policy.by_address(ip("2606:4700::1"), &none).allowed);
    assert!(EgressPolicy::default().by_address(ip("9.9.9.9"), &none).allowed);
}

#[test]
fn private_addresses_need_the_operator() {
    let policy = policy(&["10.0.0.0/8", "169.254.169.254"], &[]);
    let mut bounds = Bounds::default();
    assert!(!policy.by_address(ip("10.1.2.3"), &bounds).allowed);
    bounds.internal = vec!["10.1.0.0/16".parse().expect("prefix"), "169.254.0.0/16".parse().expect("prefix")];
    assert!(policy.by_address(ip("10.1.2.3"), &bounds).allowed);
    assert!(!policy.by_address(ip("10.2.2.3"), &bounds).allowed);
    assert!(!policy.by_address(ip("169.254.169.254"), &bounds).allowed);
    assert!(!policy.by_address(ip("::ffff:169.254.169.254"), &bounds).allowed);
    bounds.on_link = vec!["5.6.7.0/24".parse().expect("prefix")];
    assert!(matches!(policy.by_address(ip("5.6.7.8"), &bounds).rule, Rule::OnLink(_)));
}

#[test]
fn names_match_at_any_depth() {
    let none = Bounds::default();
    let policy = policy(&["api.example.com", "*.github.com"], &["0.0.0.0/0"]);
    for (host, expected) in [
        ("api.example.com", true),
        ("API.example.COM.", true),
        ("x.api.example.com", false),
        ("github.com", false),
        ("a.b.github.com", true),
        ("evilgithub.com", false),
        ("github.com.evil.org", false),
    ] {
        assert_eq!(policy.by_name(&name(host), &none).is_some_and(|v| v.allowed), expected, "{host}");
        assert_eq!(policy.resolves(&name(host), &none).allowed, expected, "{host}");
    }
    assert!(EgressPolicy::default().resolves(&name("any.org"), &none).allowed);
    let any = self::policy(&["*"], &["0.0.0.0/0"]);
    assert!(any.by_name(&name("x.org"), &none).is_some_and(|v| v.allowed));
}

#[test]
fn the_operator_cannot_be_overruled() {
    let bounds = Bounds {
        deny: vec!["*.evil.org".parse().expect("target"), "9.9.9.9".parse().expect("target")],
        only: vec!["*.org".parse().expect("target"), "9.0.0.0/8".parse().expect("target")],
        ..Bounds::default()
    };
    let policy = policy(&["*", "0.0.0.0/0"], &["0.0.0.0/0"]);
    assert_eq!(policy.proxied(&Bounds::default()), Proxied::Named);
    assert_eq!(EgressPolicy::default().proxied(&bounds), Proxied::Named);
    assert!(policy.by_name(&name("a.org"), &bounds).is_some_and(|v| v.allowed));
    assert!(!policy.by_name(&name("a.evil.org"), &bounds).is_some_and(|v| v.allowed));
    assert!(!policy.by_name(&name("a.com"), &bounds).is_some_and(|v| v.allowed));
    assert!(EgressPolicy::default().by_name(&name("a.org"), &bounds).is_some_and(|v| v.allowed));
    assert!(EgressPolicy::default().by_name(&name("a.com"), &bounds).is_none_or(|v| !v.allowed));
    assert!(policy.by_address(ip("9.1.1.1"), &bounds).allowed);
    assert!(!policy.by_address(ip("9.9.9.9"), &bounds).allowed);
    assert!(!policy.by_address(ip("8.8.8.8"), &bounds).allowed);
    assert!(!EgressPolicy::offline().by_name(&name("a.org"), &bounds).is_some_and(|v| v.allowed));
}

#[test]
fn targets_that_are_not_ones() {
    for text in [
        "",
        ".",
        "*x.com",
        "*.",
        "a..b",
        "-a.com",
        "a b",
        "1.2.3",
        "1.2.3.4/33",
        "0.0.0.0",
        "0.0.0.0/8",
        "a.0x7f",
        "0x7f000001",
        "http://a.com",
        "a.com:80",
        "a.com/x",
        "ü.de",
        "1.2.3.4/+8",
        "::/129",
        "::",
    ] {
        assert!(text.parse::<Target>().is_err(), "{text}");
    }
    for (text, shown) in [
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4/8", "1.0.0.0/8"),
        ("A.com.", "a.com"),
        ("*.A.com", "*.a.com"),
        ("*", "*"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::/0", "::/0"),
        ("2001:db8::1/32", "2001:db8::/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("xn--tda.de", "xn--tda.de"),
    ] {
        assert_eq!(text.parse::<Target>().map(|t| t.to_string()), Ok(shown.to_owned()), "{text}");
    }
}

#[test]
fn placeholders_are_parsed() {
    let template: Template =
        "Bearer ${e2b.secrets.My_Key} ${HOME} ${e2b.identity.tokens.gcp}!".parse().expect("template");
    use template::Part::{Secret, Text, Token};
    let expected = [
        Text("Bearer ".into()),
        Secret("my_key".into()),
        Text(" ${HOME} ".into()),
        Token("gcp".into()),
        Text("!".into()),
    ];
    assert_eq!(template.parts(), expected);
    for text in [
        "${e2b.secrets.",
        "${e2b.secrets.}",
        "${e2b.secrets.a b}",
        "${e2b.secrets.${e2b.secrets.a}}",
        "${e2b.identity.tokens.}",
    ] {
        assert!(text.parse::<Template>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_policy_survives_its_row(allow in proptest::collection::vec("[a-z*.0-9/:]{1,20}", 0..8), length in 0_u8..=32, bits: u32) {
        let policy = EgressPolicy {
            allow_out: allow.iter().filter_map(|text| text.parse().ok()).collect(),
            deny_out: Prefix::new(Ipv4Addr::from_bits(bits).into(), length).into_iter().collect(),
            ..EgressPolicy::default()
        };
        let text = serde_json::to_string(&policy).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<EgressPolicy>(&text).expect("policy"), policy);
    }

    #[test]
    fn a_template_survives_its_text(text in "[a-z ]{0,5}(\\$\\{e2b.secrets.[a-z]{1,4}\\})?.{0,5}") {
        if let Ok(template) = text.parse::<Template>() {
            prop_assert_eq!(template.to_string().parse::<Template>(), Ok(template));
        }
    }

    #[test]
    fn any_text_is_a_target_or_refused(text in "\\PC{0,40}") {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }
    }
}
