//! Live updates by WebSocket: who gets what, and how sockets end.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::server::TestServer;
use crate::tenants::{OTHER_KEY, Owned, as_other, with_another_team};

/// A client's socket.
pub(crate) struct Socket(WebSocket<TcpStream>);

impl Socket {
    /// Opens a socket; the status of the response if it is refused.
    pub(crate) fn open(server: &TestServer, path: &str, key: &str) -> Result<Self, u16> {
        let stream = TcpStream::connect(server.address).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        let mut request = format!("ws://{}{path}", server.address).into_client_request().expect("request");
        request.headers_mut().insert("x-api-key", key.parse().expect("header"));
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => Err(response.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).expect("send");
    }

    fn next(&mut self) -> Value {
        loop {
            match self.0.read().expect("a frame") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn subscribe(&mut self, topic: &str) {
        self.say(&json!({ "subscribe": topic }).to_string());
        assert_eq!(self.next(), json!({ "topic": topic, "type": "subscribed" }));
    }

    /// The kind of the next event, with what it says about the sandbox.
    fn event(&mut self) -> (String, Value, Value) {
        let frame = self.next();
        assert_eq!(frame["type"], "event", "{frame}");
        let kind = frame["event"]["type"].as_str().expect("kind").rsplit('.').next().expect("kind").to_owned();
        (kind, frame["event"]["sandboxId"].clone(), frame["sandbox"].clone())
    }

    /// Reads until the socket is closed, and returns the code.
    fn closed(&mut self) -> Option<CloseCode> {
        loop {
            match self.0.read() {
                Ok(Message::Close(frame)) => return frame.map(|frame| frame.code),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn events_come_in_order_with_the_row() {
    let server = TestServer::start();
    let mut live = Socket::open(&server, "/live", &server.key).expect("open");
    live.subscribe("sandboxes");
    let id = server.create();
    assert_eq!(live.event(), ("requested".into(), json!(id), json!(null)), "not listed yet");
    let (kind, _, row) = live.event();
    assert_eq!((kind.as_str(), &row), ("created", &server.get("/v2/sandboxes").is(200).json()[0]));
    server.post(&format!("/sandboxes/{id}/pause"), json!({})).is(204);
    let events: Vec<_> = (0..2).map(|_| live.event()).collect();
    assert_eq!((events[0].0.as_str(), events[1].0.as_str()), ("pausing", "paused"));
    assert_eq!(events[1].2, server.get("/v2/sandboxes").is(200).json()[0]);
    server.kill(&id).is(204);
    let events: Vec<_> = (0..2).map(|_| live.event()).collect();
    assert_eq!(events[1], ("killed".into(), json!(id), json!(null)));
}

#[test]
fn a_team_gets_what_belongs_to_it_and_nothing_else() {
    let server = with_another_team();
    let owned = Owned::new(&server);
    let mut other = Socket::open(&server, "/live", OTHER_KEY).expect("open");
    let mut own = Socket::open(&server, "/live", &server.key).expect("open");
    for socket in [&mut own, &mut other] {
        socket.subscribe("sandboxes");
        socket.subscribe("templates");
    }
    let build = format!("build:{}/{}", owned.build.template, owned.build.build);
    let refusals: Vec<Value> = [format!("sandbox:{}", owned.running), "sandbox:inone".into(), build.clone()]
        .iter()
        .map(|topic| {
            other.say(&json!({ "subscribe": topic }).to_string());
            let mut answer = other.next();
            assert_eq!((&answer["type"], &answer["topic"]), (&json!("error"), &json!(topic)));
            answer["message"].take()
        })
        .collect();
    let plain = |number: usize, name: &str| refusals[number].as_str().expect("text").replace(name, "NAME");
    assert_eq!(plain(0, &owned.running), plain(1, "inone"), "as if it did not exist");
    own.subscribe(&format!("sandbox:{}", owned.running));
    own.subscribe(&build);
    assert_eq!(own.next()["type"], "status");
    // What happens to the first team's resources …
    server.post(&format!("/sandboxes/{}/timeout", owned.running), json!({"timeout": 77})).is(204);
    server.call("PATCH", &format!("/templates/{}", owned.build.template), Some(json!({"public": false}))).is(200);
    server.post("/templates/tags", json!({"target": "mine", "tags": ["again"]})).is(201);
    let mut topics: Vec<String> = (0..3).map(|_| own.next()["topic"].as_str().expect("topic").to_owned()).collect();
    topics.sort();
    assert_eq!(topics, [format!("sandbox:{}", owned.running), "sandboxes".into(), "templates".into()]);
    // … the other team does not hear of. Its own is the first that it gets.
    let made = as_other(&server, "POST", "/v2/sandboxes", Some(r#"{"templateID":"base"}"#)).is(201);
    assert_eq!(other.event().1, json!(made.member("sandboxID")));
}

#[test]
fn without_a_valid_key_there_is_no_socket() {
    let server = TestServer::start();
    let id = server.create();
    for path in ["/live".to_owned(), format!("/sandboxes/{id}/terminal")] {
        for key in ["", "e2b_ffffffffffffffffffffffffffffffffffffffff"] {
            assert_eq!(Socket::open(&server, &path, key).err(), Some(401), "{path}");
        }
        server.get(&path).error(400, "invalid_request");
    }
    let server = with_another_team();
    let id = server.create();
    assert_eq!(Socket::open(&server, &format!("/sandboxes/{id}/terminal"), OTHER_KEY).err(), Some(404));
}

#[test]
fn malformed_frames_are_answered_and_large_ones_end_the_socket() {
    let server = TestServer::start();
    let mut live = Socket::open(&server, "/live", &server.key).expect("open");
    for wrong in ["", "{", "null", r#"{"subscribe":[]}"#, r#"{"subscribe":"none"}"#, "\u{0}"] {
        live.say(wrong);
        assert_eq!(live.next()["type"], "error", "{wrong}");
    }
    live.0.send(Message::binary(vec![0xff; 100])).expect("send");
    assert_eq!(live.next()["type"], "error");
    for number in 0..64 {
        live.say(&json!({ "subscribe": format!("sandbox:{}", server.create()) }).to_string());
        let answer = live.next();
        assert_eq!(answer["type"], "subscribed", "{number}: {answer}");
    }
    live.say(r#"{"subscribe":"sandboxes"}"#);
    assert!(live.next()["message"].as_str().expect("text").contains("64 topics"));
    live.say(&"x".repeat(4097));
    assert_eq!(live.closed(), Some(CloseCode::Size));
}

#[test]
fn sockets_are_closed_at_shutdown() {
    let mut server = TestServer::start();
    let mut sockets: Vec<_> = (0..5).map(|_| Socket::open(&server, "/live", &server.key).expect("open")).collect();
    sockets[0].subscribe("sandboxes");
    let closing = std::thread::spawn(move || sockets.iter_mut().map(Socket::closed).collect::<Vec<_>>());
    server.stop();
    assert_eq!(closing.join().expect("joined"), [Some(CloseCode::Restart); 5]);
}

#[test]
fn after_a_failure_of_the_updates_clients_know_that_they_missed_something() {
    let server = TestServer::start();
    let mut live = Socket::open(&server, "/live", &server.key).expect("open");
    live.subscribe("sandboxes");
    live.subscribe("server");
    assert_eq!(live.next()["type"], "status");
    server.panic("live updates");
    assert_eq!(live.next(), json!({"topic": "sandboxes", "type": "lagged"}));
    let id = server.create();
    assert_eq!(live.event().1, json!(id));
}
