//! The part of DNS that a forwarder needs: recognising plain queries and matching responses. Both are untrusted.

use cabana_types::egress::HostName;
use hickory_proto::op::{Header, Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::{DNSClass, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

pub(super) const NOERROR: u8 = 0;
pub(super) const FORMERR: u8 = 1;
pub(super) const SERVFAIL: u8 = 2;
pub(super) const NOTIMP: u8 = 4;
pub(super) const REFUSED: u8 = 5;

const HEADER: usize = 12;

/// Characters of a name that are shown.
const LONGEST_SHOWN: usize = 253;

/// UDP response size that every client accepts; larger ones must be announced.
const SMALLEST_LIMIT: u16 = 512;

/// Why a query is not forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not a query; a response could start a loop.
    Silence,
    /// Respond with this code.
    Code(u8),
}

/// A query that can be forwarded.
#[derive(Debug)]
pub(super) struct Query {
    bytes: Vec<u8>,
    question: Question,
    question_end: usize,
}

/// Evaluation of a resolver's response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The complete response must be fetched over TCP.
    pub(super) truncated: bool,
    /// The resolver failed; another may succeed.
    pub(super) failed: bool,
}

impl Query {
    pub(super) fn read(bytes: &[u8]) -> Result<Query, Refusal> {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).map_err(|_| Refusal::Silence)?;
        if header.metadata.message_type != MessageType::Query {
            return Err(Refusal::Silence);
        }
        if header.metadata.op_code != OpCode::Query {
            return Err(Refusal::Code(NOTIMP));
        }
        if header.counts.queries != 1 {
            return Err(Refusal::Code(FORMERR));
        }
        let question = Question::read(&mut decoder).map_err(|_| Refusal::Code(FORMERR))?;
        Ok(Query { bytes: bytes.to_vec(), question, question_end: decoder.index() })
    }

    /// The name that it asks for, if it can be the name of a host.
    pub(super) fn host(&self) -> Option<HostName> {
        let mut text = String::new();
        for label in self.question.name().iter() {
            // A dot inside a label would look like two labels.
            let label = std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))?;
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(label);
        }
        text.parse().ok()
    }

    /// The name that it asks for, to be shown.
    pub(super) fn name(&self) -> String {
        let name = self.question.name().to_ascii();
        name.trim_end_matches('.').chars().take(LONGEST_SHOWN).collect()
    }

    pub(super) fn is_internet_class(&self) -> bool {
        self.question.query_class() == DNSClass::IN
    }

    /// Whether it asks how to connect to a service: such answers can hide the name from the egress proxy.
    pub(super) fn is_service_binding(&self) -> bool {
        matches!(self.question.query_type(), RecordType::HTTPS | RecordType::SVCB)
    }

    /// The query to forward, with another id.
    pub(super) fn with_id(&self, id: u16) -> Vec<u8> {
        renumbered(self.bytes.clone(), id)
    }

    /// A response with the client's id.
    pub(super) fn own(&self, answer: Vec<u8>) -> Vec<u8> {
        renumbered(answer, u16::from_be_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// The longest UDP response that the client accepts.
    pub(super) fn limit(&self) -> usize {
        let announced = Message::from_vec(&self.bytes).map_or(SMALLEST_LIMIT, |message| message.max_payload());
        announced.max(SMALLEST_LIMIT).into()
    }

    /// A response without records: an error, or none.
    pub(super) fn failure(&self, code: u8) -> Vec<u8> {
        let mut answer = self.bytes[..self.question_end].to_vec();
        answer[2] = 0x80 | (answer[2] & 0x79);
        answer[3] = 0x80 | (answer[3] & 0x10) | code;
        answer[6..HEADER].fill(0);
        answer
    }

    /// Whether a packet is the response to this query with `id`, and its evaluation.
    pub(super) fn judge(&self, answer: &[u8], id: u16) -> Option<Verdict> {
        let mut decoder = BinDecoder::new(answer);
        let header = Header::read(&mut decoder).ok()?;
        let meta = &header.metadata;
        if meta.message_type != MessageType::Response || meta.id != id {
            return None;
        }
        let code = meta.response_code.low();
        let failed = code == SERVFAIL || code == REFUSED || code == NOTIMP;
        // Some servers send only the header when they fail.
        let alone = header.counts.queries == 0 && code != 0;
        let mut same = || header.counts.queries == 1 && Question::read(&mut decoder).is_ok_and(|q| q == self.question);
        (alone || same()).then_some(Verdict { truncated: meta.truncation, failed })
    }
}

/// A response to a query whose question cannot be parsed: only the header.
pub(super) fn bare_answer(query: &[u8], code: u8) -> Option<Vec<u8>> {
    let mut answer = query.get(..HEADER)?.to_vec();
    answer[2] = 0x80 | (answer[2] & 0x79);
    answer[3] = 0x80 | code;
    answer[4..].fill(0);
    Some(answer)
}

fn renumbered(mut packet: Vec<u8>, id: u16) -> Vec<u8> {
    if let Some(place) = packet.first_chunk_mut() {
        *place = id.to_be_bytes();
    }
    packet
}

/// Fuzz target: no packet panics, a response is never parsed as a query, and only responses with the right id match.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz_one(input: &[u8]) -> String {
    let query = match Query::read(input) {
        Ok(query) => query,
        Err(Refusal::Silence) => return "silence".into(),
        Err(Refusal::Code(code)) => {
            let answer = bare_answer(input, code);
            assert!(answer.is_none_or(|answer| Query::read(&answer).is_err()), "an answer starts a loop");
            return format!("code {code}");
        }
    };
    assert!(Query::read(&query.failure(SERVFAIL)).is_err(), "an answer starts a loop");
    assert!(query.limit() >= SMALLEST_LIMIT.into());
    assert!(query.name().chars().count() <= LONGEST_SHOWN);
    if let Some(host) = query.host() {
        assert_eq!(query.question.name().iter().count(), host.as_str().split('.').count(), "{host}");
    }
    let mut answer = query.with_id(4711);
    answer[2] |= 0x80;
    assert!(query.judge(&answer, 4712).is_none(), "an answer under a wrong id");
    format!("{:?} {:?}", query.judge(&answer, 4711), query.question.query_type())
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::op::{Edns, ResponseCode};
    use hickory_proto::rr::{Name, RecordType};
    use proptest::prelude::*;

    use super::*;

    fn query(name: &str) -> Message {
        let mut message = Message::new(77, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Question::query(Name::from_str(name).unwrap(), RecordType::A));
        message
    }

    #[test]
    fn queries_are_parsed_and_match_their_response() {
        let sent = query("example.com.");
        let read = Query::read(&sent.to_vec().unwrap()).unwrap();
        let passed = Message::from_vec(&read.with_id(4711)).unwrap();
        assert_eq!((passed.metadata.id, &passed.queries), (4711, &sent.queries));

        let mut answer = passed.into_response();
        let verdict = read.judge(&answer.to_vec().unwrap(), 4711).unwrap();
        assert_eq!(verdict, Verdict { truncated: false, failed: false });
        assert_eq!(read.judge(&answer.to_vec().unwrap(), 4712), None);
        assert_eq!(Message::from_vec(&read.own(answer.to_vec().unwrap())).unwrap().metadata.id, 77);
        answer.queries = query("example.org.").queries;
        assert_eq!(read.judge(&answer.to_vec().unwrap(), 4711), None);
        assert_eq!(read.judge(&read.with_id(4711), 4711), None, "a query is no answer");
    }

    #[test]
    fn refusals_are_valid_responses() {
        let mut sent = query("example.com.");
        sent.set_edns(Edns::new());
        let read = Query::read(&sent.to_vec().unwrap()).unwrap();
        let answer = Message::from_vec(&read.failure(REFUSED)).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        assert_eq!(answer.metadata.message_type, MessageType::Response);
        assert_eq!((answer.metadata.id, &answer.queries), (77, &sent.queries));
        assert!(answer.metadata.recursion_desired && answer.metadata.recursion_available);
    }

    #[test]
    fn only_plain_queries_are_forwarded() {
        assert_eq!(Query::read(&[]).unwrap_err(), Refusal::Silence);
        let answer = query("a.b.").into_response().to_vec().unwrap();
        assert_eq!(Query::read(&answer).unwrap_err(), Refusal::Silence);
        let mut update = query("a.b.");
        update.metadata.op_code = OpCode::Update;
        assert_eq!(Query::read(&update.to_vec().unwrap()).unwrap_err(), Refusal::Code(NOTIMP));
        let mut two = query("a.b.");
        two.add_query(two.queries[0].clone());
        assert_eq!(Query::read(&two.to_vec().unwrap()).unwrap_err(), Refusal::Code(FORMERR));
    }

    #[test]
    fn names_of_hosts() {
        let host = |bytes: &[u8]| {
            let mut packet = query("a.").to_vec().unwrap();
            packet.truncate(HEADER);
            packet.extend(bytes);
            packet.extend([0, 0, 1, 0, 1]);
            Query::read(&packet).unwrap().host().map(|host| host.to_string())
        };
        assert_eq!(host(b"\x03API\x07example\x03com").as_deref(), Some("api.example.com"));
        assert_eq!(host(b"\x0bapi.example\x03com"), None, "a dot inside a label");
        assert_eq!(host(b"\x03a\x00b\x03com"), None);
        assert_eq!(host(b"\x02\xc3\xbc\x02de"), None);
        assert_eq!(host(b""), None, "the root");
    }

    #[test]
    fn response_size_limits() {
        let mut sent = query("a.b.");
        assert_eq!(Query::read(&sent.to_vec().unwrap()).unwrap().limit(), 512);
        let mut edns = Edns::new();
        edns.set_max_payload(1232);
        sent.set_edns(edns);
        assert_eq!(Query::read(&sent.to_vec().unwrap()).unwrap().limit(), 1232);
    }

    proptest! {
        #[test]
        fn no_packet_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), id: u16) {
            let _ = bare_answer(&bytes, FORMERR);
            let known = Query::read(&query("example.com.").to_vec().unwrap()).unwrap();
            let _ = known.judge(&bytes, id);
            if let Ok(query) = Query::read(&bytes) {
                prop_assert!(query.limit() >= 512);
                prop_assert!(query.failure(SERVFAIL).len() <= bytes.len());
            }
        }
    }

    #[test]
    fn fuzz_packets() {
        let mut large = query("a.very.long.name.of.a.host.example.com.");
        large.edns = Some(Edns::new());
        let seeds = [query("example.com."), large].map(|message| message.to_vec().unwrap());
        cabana_fuzz_driver::Fuzz::new("dns").seeds(seeds).run(fuzz_one);
    }
}
