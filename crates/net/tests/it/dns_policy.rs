//! DNS by policy: which names resolve, by which servers, and what the egress proxy gets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cabana_net::ResolveError;
use cabana_types::EgressPolicy;
use cabana_types::egress::{HostName, Protocol};
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};

use crate::dns::{SERVER, ask_over_tcp, ask_server, open, query, udp};
use crate::machine::{PUBLIC, inside, on_machine, owner};
use crate::policy::rules;
use crate::resolver::Resolver;

fn code(message: &Message) -> ResponseCode {
    message.metadata.response_code
}

#[test]
fn only_allowed_names_resolve() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = network.acquire(&owner(), rules(&["example.com", "*.example.org"], &["0.0.0.0/0"])).await.unwrap();
        assert_eq!(udp(&slot, "EXAMPLE.com.", None).await.answers.len(), 1);
        assert_eq!(udp(&slot, "a.b.example.org.", None).await.answers.len(), 1);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 2);
        for refused in ["example.org.", "secret.evil.com.", "9.113.0.203.in-addr.arpa.", "."] {
            assert_eq!(code(&udp(&slot, refused, None).await), ResponseCode::Refused, "{refused}");
        }
        assert_eq!(code(&ask_over_tcp(&slot, "secret.evil.com.").await), ResponseCode::Refused);
        let other_class = inside(&slot.netns, || {
            let mut message = query("example.com.", None);
            message.queries[0].set_query_class(DNSClass::CH);
            ask_server(SERVER, &message).unwrap()
        });
        assert_eq!(code(&other_class.await), ResponseCode::Refused);
        // Queries to other servers come here, too, and the response seems to come from there.
        let elsewhere = |name| inside(&slot.netns, move || ask_server(PUBLIC, &query(name, None)).unwrap());
        assert_eq!(elsewhere("example.com.").await.answers.len(), 1);
        assert_eq!(code(&elsewhere("secret.evil.com.").await), ResponseCode::Refused);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 3);

        let denials = network.denials(slot.index);
        assert_eq!((denials.total, denials.by_rule["denyOut 0.0.0.0/0"]), (7, 7));
        let last = denials.recent.back().unwrap();
        assert_eq!((last.protocol, last.destination.as_str()), (Protocol::Dns, "secret.evil.com"));
        network.close().await.unwrap();
    });
}

#[test]
fn service_bindings_are_empty_where_names_are_checked() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let named = network.acquire(&owner(), rules(&["example.com"], &["0.0.0.0/0"])).await.unwrap();
        let by_address = network.acquire(&owner(), rules(&[], &["198.51.100.0/24"])).await.unwrap();
        let ask = |netns, kind| {
            inside(netns, move || {
                let mut message = query("example.com.", None);
                message.queries = vec![Query::query(Name::from_ascii("example.com.").unwrap(), kind)];
                ask_server(SERVER, &message).unwrap()
            })
        };
        for kind in [RecordType::HTTPS, RecordType::SVCB] {
            let answer = ask(&named.netns, kind).await;
            assert_eq!((code(&answer), answer.answers.len()), (ResponseCode::NoError, 0));
        }
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
        assert_eq!(ask(&by_address.netns, RecordType::HTTPS).await.answers.len(), 1);
        network.close().await.unwrap();
    });
}

#[test]
fn a_policy_has_its_own_servers() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let own = inside(&machine.outside, || Resolver::start_at((PUBLIC, 53).into(), ResponseCode::NoError)).await;
        let network = open(&machine, vec![resolver.address]).await;
        let policy =
            |servers: &[Ipv4Addr]| Arc::new(EgressPolicy { dns_servers: servers.to_vec(), ..EgressPolicy::default() });
        let slot = network.acquire(&owner(), policy(&[PUBLIC])).await.unwrap();
        assert_eq!(udp(&slot, "example.com.", None).await.answers.len(), 1);
        assert_eq!((own.asked.load(Ordering::SeqCst), resolver.asked.load(Ordering::SeqCst)), (1, 0));
        let name: HostName = "example.com".parse().unwrap();
        assert_eq!(network.egress().resolve(slot.index, &name).await.unwrap().len(), 1);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
        // A policy cannot make the host ask its own servers, or private ones.
        assert!(network.set_policy(slot.index, policy(&[Ipv4Addr::LOCALHOST])).await.unwrap());
        assert_eq!(code(&udp(&slot, "example.com.", None).await), ResponseCode::ServFail);
        assert_eq!(network.egress().resolve(slot.index, &name).await, Err(ResolveError::Unavailable));
        network.close().await.unwrap();
    });
}

#[test]
fn the_proxy_resolves_within_bounds() {
    on_machine(async |machine| {
        let resolver = Resolver::start(ResponseCode::NoError);
        let network = open(&machine, vec![resolver.address]).await;
        let slot = network.acquire(&owner(), rules(&["*"], &["0.0.0.0/0"])).await.unwrap();
        let egress = network.egress();
        let name = |text: &str| text.parse::<HostName>().unwrap();
        let one = egress.resolve(slot.index, &name("example.com")).await.unwrap();
        assert_eq!(one, [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0))]);
        let asked = resolver.asked.load(Ordering::SeqCst);
        assert_eq!(egress.resolve(slot.index, &name("example.com")).await.unwrap(), one);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), asked, "kept");
        assert_eq!(egress.resolve(slot.index, &name("long.example.com")).await.unwrap().len(), 16, "of a hundred");
        assert_eq!(egress.resolve(999, &name("example.com")).await, Err(ResolveError::Gone));
        network.close().await.unwrap();

        let none = Resolver::start(ResponseCode::NXDomain);
        let network = open(&machine, vec![none.address]).await;
        let slot = network.acquire(&owner(), rules(&["*"], &["0.0.0.0/0"])).await.unwrap();
        assert_eq!(network.egress().resolve(slot.index, &name("example.com")).await, Err(ResolveError::NotFound));
        network.close().await.unwrap();

        let network = open(&machine, vec!["127.0.0.1:1".parse().unwrap()]).await;
        let slot = network.acquire(&owner(), rules(&["*"], &["0.0.0.0/0"])).await.unwrap();
        let start = Instant::now();
        assert_eq!(network.egress().resolve(slot.index, &name("example.com")).await, Err(ResolveError::Unavailable));
        assert!(start.elapsed() < Duration::from_secs(8));
        network.close().await.unwrap();
    });
}
