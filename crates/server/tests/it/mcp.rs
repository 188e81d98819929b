//! MCP over HTTP: revisions, what is refused, and tools that need no guest.

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

const CURRENT: &str = "2026-07-28";
const OLDER: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

fn call(tool: &str, arguments: Value) -> Value {
    request("tools/call", json!({"name": tool, "arguments": arguments}))
}

fn post(server: &TestServer, message: Value) -> Answer {
    server.call_with("POST", "/mcp", &[BOTH], Some(message))
}

/// The result of a request in an older revision.
#[track_caller]
fn result(server: &TestServer, message: Value) -> Value {
    let answer = post(server, message).is(200).json();
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].clone()
}

/// A request in the current revision, with the headers that it wants.
fn current(server: &TestServer, mut message: Value) -> Answer {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": CURRENT,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let method = message["method"].as_str().expect("method").to_owned();
    let name = message["params"]["name"].as_str().map(str::to_owned);
    let mut headers = vec![BOTH, ("mcp-protocol-version", CURRENT), ("mcp-method", &method)];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    server.call_with("POST", "/mcp", &headers, Some(message))
}

#[test]
fn every_revision_is_served_without_sessions() {
    let server = TestServer::start();
    for version in OLDER {
        let answer = post(&server, initialize(version)).is(200);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{version}");
        let session = answer.header("mcp-session-id").expect("an id to repeat").to_owned();
        let first = answer.json()["result"].clone();
        assert_eq!(first["protocolVersion"], version, "{first}");
        assert_eq!(first["serverInfo"]["name"], "cabana", "{first}");
        assert_eq!(first["capabilities"], json!({"tools": {}}), "{first}");
        assert!(first["instructions"].as_str().is_some_and(|text| text.contains("sandbox")), "{first}");
        let headers = [BOTH, ("mcp-protocol-version", version), ("mcp-session-id", &session)];
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = server.call_with("POST", "/mcp", &headers, Some(done)).is(202);
        assert_eq!(told.text, "");
        let listed = server.call_with("POST", "/mcp", &headers, Some(request("tools/list", json!({})))).is(200).json();
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(18), "{version}");
        assert!(listed["result"].get("resultType").is_none(), "a field of the current revision: {version}");
        let pong = server.call_with("POST", "/mcp", &headers, Some(request("ping", json!({})))).is(200).json();
        assert_eq!((&pong["result"], &pong["id"]), (&json!({}), &json!(7)));
    }
    // A client of the current revision that begins as older ones do.
    let negotiated = result(&server, initialize(CURRENT));
    assert!(OLDER.contains(&negotiated["protocolVersion"].as_str().expect("version")), "{negotiated}");
    let found = current(&server, request("server/discover", json!({}))).is(200).json();
    let versions = found["result"]["supportedVersions"].as_array().expect("versions").clone();
    assert!(versions.contains(&json!(CURRENT)) && versions.contains(&json!(OLDER[3])), "{found}");
    let listed = current(&server, request("tools/list", json!({}))).is(200).json();
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(18));
    assert_eq!(listed["result"]["resultType"], "complete");
    let unknown = server.call_with(
        "POST",
        "/mcp",
        &[BOTH, ("mcp-protocol-version", "1999-01-01")],
        Some(request("ping", json!({}))),
    );
    assert_eq!(unknown.status, 400, "{}", unknown.text);
    for method in ["GET", "DELETE", "PUT"] {
        server.call_with(method, "/mcp", &[BOTH], None).error(405, "method_not_allowed");
    }
}

#[test]
fn the_list_of_tools_is_that_of_rest() {
    let server = TestServer::start();
    let rest = server.get("/tools?format=mcp&tools=all,lifecycle").is(200).json();
    let listed = result(&server, request("tools/list", json!({})))["tools"].clone();
    assert_eq!(listed, rest);
    let find =
        |name: &str| rest.as_array().expect("list").iter().find(|tool| tool["name"] == name).expect(name).clone();
    let hints = |name: &str| {
        let hints = find(name)["annotations"].clone();
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .map(|hint| hints[hint].as_bool().expect(hint))
    };
    assert_eq!(hints("sandbox_read_file"), [true, false, true, false]);
    assert_eq!(hints("sandbox_run_command"), [false, true, false, true]);
    assert!(hints("sandbox_kill")[1]);
    let tool = find("sandbox_read_file");
    assert!(
        tool["title"].is_string()
            && tool["inputSchema"]["type"] == "object"
            && tool["outputSchema"]["type"] == "object"
    );
}

#[test]
fn queries_choose_tools_and_bind_a_sandbox() {
    let server = TestServer::start();
    let names = |query: &str| {
        let answer =
            server.call_with("POST", &format!("/mcp?{query}"), &[BOTH], Some(request("tools/list", json!({}))));
        let tools = answer.is(200).json()["result"]["tools"].as_array().expect("tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("tools=sandbox_list,sandbox_read_file"), ["sandbox_read_file", "sandbox_list"]);
    assert_eq!(names("tools=read").len(), 5);
    assert_eq!(names("tools=all&tools=sandbox_command").len(), 11);
    let ask = |query: &str, message: Value| server.call_with("POST", &format!("/mcp?{query}"), &[BOTH], Some(message));
    let message = ask("tools=read,rm", request("tools/list", json!({}))).error(400, "invalid_request");
    assert!(message.contains("rm") && message.contains("lifecycle"), "{message}");
    let message = ask("sandbox=no%20id", initialize(OLDER[3])).error(400, "invalid_request");
    assert!(message.contains("no id"), "{message}");
    let id = server.create();
    ask(&format!("sandbox={id}"), initialize(OLDER[3])).is(200);
    server.kill(&id).is(204);
    ask(&format!("sandbox={id}"), initialize(OLDER[3])).error(404, "sandbox_not_found");
    // A tool that was not chosen does not exist.
    let answer = ask("tools=read", call("sandbox_kill", json!({"sandbox": "x"}))).is(200).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn lifecycle_tools_work_and_failures_are_results() {
    let server = TestServer::start();
    let made = result(&server, call("sandbox_create", json!({"name": "work"})));
    assert_eq!(made["isError"], false, "{made}");
    let id = made["structuredContent"]["sandboxId"].as_str().expect("id").to_owned();
    assert_eq!(server.listed(), std::slice::from_ref(&id));
    assert_eq!(made["content"][0]["text"], made["structuredContent"]["output"]);
    let listed = current(&server, call("sandbox_list", json!({}))).is(200).json();
    assert!(listed["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains(&id)), "{listed}");
    let killed = result(&server, call("sandbox_kill", json!({"sandbox": "work"})));
    assert_eq!(killed["isError"], false, "{killed}");
    assert!(server.listed().is_empty());
    for (tool, arguments, code) in [
        ("sandbox_info", json!({"sandbox": id}), "sandbox_unavailable"),
        ("sandbox_info", json!({}), "invalid_arguments"),
        ("sandbox_read_file", json!({"path": 5}), "invalid_arguments"),
        ("sandbox_list", json!({"limit": 0, "colour": "red"}), "invalid_arguments"),
    ] {
        let failed = result(&server, call(tool, arguments));
        assert_eq!(failed["isError"], true, "{failed}");
        let error = &failed["structuredContent"]["error"];
        assert_eq!(error["code"], code, "{failed}");
        let text = failed["content"][0]["text"].as_str().expect("text");
        assert!(text.contains(error["message"].as_str().expect("message")), "{text}");
    }
    assert!(server.listed().is_empty(), "no sandbox is made for arguments that are wrong");
    let unknown = post(&server, call("rm", json!({}))).is(200).json();
    assert_eq!((&unknown["error"]["code"], &unknown["id"]), (&json!(-32602), &json!(7)), "{unknown}");
    let unknown = post(&server, request("no/such", json!({}))).is(200).json();
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[test]
fn pages_of_other_origins_and_other_names_are_refused() {
    // On loopback the edge refuses every other name; here only what must.
    let server = TestServer::with(&[
        ("listen", "0.0.0.0:0"),
        ("allow_insecure_listen", "true"),
        ("connections.hosts", "cabana.lan"),
    ]);
    let address = format!("127.0.0.1:{}", server.address.port());
    let raw = |host: &str, path: &str, extra: &str| {
        use std::io::{Read, Write};
        let body = initialize(OLDER[2]).to_string();
        let mut stream = std::net::TcpStream::connect(&address).expect("connect");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n{extra}\
             authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
            server.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("write");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("read");
        text.split(' ').nth(1).expect("status").to_owned()
    };
    for host in [address.as_str(), "localhost:3000", "cabana.lan", "CABANA.lan:80", "[::1]:1"] {
        assert_eq!(raw(host, "/mcp", ""), "200", "{host}");
    }
    for host in ["evil.test", "evil.test:3000", "localhost.evil.test"] {
        assert_eq!(raw(host, "/mcp", ""), "421", "{host}");
        assert_eq!(raw(host, "/mcp?tools=read", ""), "421", "{host}");
        assert_ne!(raw(host, "/v2/sandboxes", ""), "421", "other routes may be reached by any name: {host}");
    }
    for (host, origin, status) in [
        ("localhost:3000", "http://localhost:3000", "200"),
        ("cabana.lan", "http://cabana.lan", "200"),
        ("localhost:3000", "http://localhost:3001", "403"),
        ("localhost:3000", "https://localhost:3000", "403"),
        ("localhost:3000", "http://5173-iabc.localhost:3000", "403"),
        ("localhost:3000", "http://evil.test", "403"),
        ("localhost:3000", "null", "403"),
        ("localhost:3000", "", "403"),
        ("evil.test", "http://evil.test", "421"),
    ] {
        assert_eq!(raw(host, "/mcp", &format!("origin: {origin}\r\n")), status, "{host} {origin}");
    }
}

#[test]
fn what_is_no_message_gets_a_clear_error() {
    let server = TestServer::start();
    let key = [("x-api-key", server.key.as_str()), BOTH];
    let post = |headers: &[(&str, &str)], body: &[u8]| {
        send(server.address, "POST", "/mcp", headers, Some(body)).expect("answer")
    };
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{\"jsonrpc\"", -32700, Value::Null),
        ("\u{0}", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
        ("17", -32600, Value::Null),
        (r#"{"id":1,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, Value::Null),
    ] {
        let answer = post(&key, body.as_bytes());
        let error = answer.json();
        assert_eq!((answer.status, &error["error"]["code"]), (400, &json!(code)), "{body}: {error}");
        assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        assert_eq!(error["id"], id, "{body}: {error}");
    }
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(post(&key, deep.as_bytes()).status, 400);
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(13 << 20));
    post(&key, huge.as_bytes()).error(413, "body_too_large");
    let ping = request("ping", json!({})).to_string();
    let only_json = [("x-api-key", server.key.as_str()), ("accept", "application/json")];
    post(&only_json, ping.as_bytes()).error(406, "invalid_request");
    let curl = [("x-api-key", server.key.as_str()), ("accept", "*/*")];
    assert_eq!(post(&curl, ping.as_bytes()).status, 200);
    assert_eq!(post(&curl[..1], ping.as_bytes()).status, 200);
    server.call_with("POST", "/mcp", &[BOTH], None).error(415, "invalid_request");
}

#[test]
fn a_key_is_needed_and_reaches_its_own_team_only() {
    let server = with_another_team();
    let id = server.create_with(json!({"metadata": {"name": "mine"}}));
    let ping = request("ping", json!({})).to_string();
    for headers in [&[][..], &[("authorization", "Bearer e2b_ffff")], &[("x-api-key", "")]] {
        let answer = send(server.address, "POST", "/mcp", headers, Some(ping.as_bytes())).expect("answer");
        answer.error(401, "unauthorized");
        assert!(answer.header("www-authenticate").is_some());
    }
    let bearer = format!("Bearer {}", server.key);
    send(server.address, "POST", "/mcp", &[("authorization", &bearer)], Some(ping.as_bytes())).expect("answer").is(200);
    let other = |path: &str, message: Value| as_other(&server, "POST", path, Some(&message.to_string()));
    other(&format!("/mcp?sandbox={id}"), initialize(OLDER[3])).error(404, "sandbox_not_found");
    for (query, message) in [
        (format!("?sandbox={id}"), call("sandbox_read_file", json!({"path": "/etc/hostname"}))),
        (String::new(), call("sandbox_read_file", json!({"path": "/etc/hostname", "sandbox": id}))),
        (String::new(), call("sandbox_read_file", json!({"path": "/etc/hostname", "sandbox": "mine"}))),
        (String::new(), call("sandbox_kill", json!({"sandbox": id}))),
        (String::new(), call("sandbox_info", json!({"sandbox": "mine"}))),
        (String::new(), call("sandbox_fork", json!({"sandbox": id}))),
        (String::new(), call("sandbox_create", json!({"template": id}))),
    ] {
        let answer = other(&format!("/mcp{query}"), message.clone()).is(200).json();
        let code = &answer["result"]["structuredContent"]["error"]["code"];
        assert!(code == "sandbox_unavailable" || code == "invalid_arguments", "{message}: {answer}");
    }
    let listed = other("/mcp", call("sandbox_list", json!({}))).is(200);
    assert!(!listed.text.contains(&id), "{}", listed.text);
    assert_eq!(server.listed(), [id]);
}
