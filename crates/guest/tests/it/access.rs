//! Authorisation: tokens, signatures, control-socket paths, CORS.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::client::{Answer, Guest, frame};

const TOKEN: &str = "ea_secret";

fn sign(path: &str, operation: &str, user: &str, expiration: Option<u64>) -> String {
    let expiration = expiration.map(|e| format!(":{e}")).unwrap_or_default();
    let hash = Sha256::digest(format!("{path}:{operation}:{user}:{TOKEN}{expiration}"));
    format!("v1_{}", STANDARD_NO_PAD.encode(hash)).replace('+', "%2B").replace('/', "%2F")
}

#[test]
fn everything_but_health_needs_the_token() {
    for guest in [Guest::with(Some(TOKEN)), Guest::over_tcp(Some(TOKEN))] {
        assert_eq!(guest.get("/health").status, 204);
        let right = [("x-access-token", TOKEN)];
        let wrong = [("x-access-token", "ea_wrong")];
        for path in ["/metrics", "/envs"] {
            assert_eq!(guest.get(path).json()["code"], 401, "{path}");
            assert_eq!(guest.http("GET", path, &wrong, b"").status, 401, "{path}");
            assert_eq!(guest.http("GET", path, &right, b"").status, 200, "{path}");
        }
        assert_eq!(guest.http("POST", "/files/compose", &[], b"{}").status, 401);
        let (status, body) = guest.call("process.Process/List", &json!({}));
        assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")));
        assert_eq!(guest.call_with("process.Process/List", &right, &json!({})).0, 200);
        let mut answer = guest.stream_raw("process.Process/Start", &wrong, &frame(&json!({})));
        let refused = answer.answer.status == 401 || answer.frame().1["error"]["code"] == "unauthenticated";
        assert!(refused);
    }
}

#[test]
fn signatures_replace_the_token() {
    let guest = Guest::with(Some(TOKEN));
    let file = guest.file("signed");
    std::fs::write(&file, "text").unwrap();
    let get = |query: &str| guest.get(&format!("/files?path={file}{query}"));
    let read = sign(&file, "read", "", None);
    assert_eq!(get("").message(), "missing signature query parameter");
    assert_eq!(get("&signature=v1_nonsense").message(), "invalid signature");
    assert_eq!(get(&format!("&signature={read}")).body, b"text");
    assert_eq!(get(&format!("&signature={read}&username=root")).message(), "invalid signature");
    let by_root = sign(&file, "read", "root", None);
    assert_eq!(get(&format!("&signature={by_root}&username=root")).status, 200);
    let past = sign(&file, "read", "", Some(1000));
    let late = get(&format!("&signature={past}&signature_expiration=1000"));
    assert_eq!((late.status, late.message().as_str()), (401, "signature is already expired"));
    let future = sign(&file, "read", "", Some(9_999_999_999));
    assert_eq!(get(&format!("&signature={future}&signature_expiration=9999999999")).status, 200);
    assert_eq!(get(&format!("&signature={future}")).message(), "invalid signature");

    let wrong = guest.http("GET", &format!("/files?path={file}&signature={read}"), &[("x-access-token", "no")], b"");
    assert_eq!(wrong.status, 401);
    assert_eq!(guest.upload(&format!("{file}&signature={read}"), &[], b"new").message(), "invalid signature");
    let write = sign(&file, "write", "", None);
    assert_eq!(guest.upload(&format!("{file}&signature={write}"), &[], b"new").status, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
}

/// Paths of the control socket, and those that E2B's own daemon serves to its host.
const CONTROL_PATHS: [&str; 11] = [
    "/init",
    "/freeze",
    "/unfreeze",
    "/fsfreeze",
    "/fsthaw",
    "/collapse",
    "/bridge",
    "/journal",
    "/activity",
    "/ready",
    "/stop",
];

#[test]
fn control_paths_are_on_the_control_socket_only() {
    for guest in [Guest::over_tcp(None), Guest::start()] {
        for path in CONTROL_PATHS {
            assert_eq!(guest.http("POST", path, &[], b"{}").status, 404, "{path}");
            assert_eq!(guest.http("GET", path, &[], b"").status, 404, "{path}");
        }
        for path in ["/bridge?port=22", "//init", "/%69nit", "/init/", "/./init", "/x/../init", "/INIT"] {
            assert_eq!(guest.http("POST", path, &[], b"{}").status, 404, "{path}");
        }
        assert_eq!(guest.get("/health").status, 204, "it still runs");
    }
}

#[test]
fn the_control_socket_serves_nothing_else() {
    let guest = Guest::with(Some(TOKEN));
    assert_eq!(guest.control_get("/health").status, 204);
    assert_eq!(guest.control_get("/activity").json(), json!({"commands": 0}), "without a token");
    for path in ["/files?path=/etc/hostname", "/envs", "/metrics", "/freeze", "/"] {
        assert_eq!(guest.control("GET", path, &[("x-access-token", TOKEN)], b"").status, 404, "{path}");
    }
    let json = [("content-type", "application/json"), ("x-access-token", TOKEN)];
    assert_eq!(guest.control("POST", "/filesystem.Filesystem/Stat", &json, b"{}").status, 404);
    assert_eq!(guest.control("POST", "/process.Process/List", &json[..1], b"{}").status, 200, "commands of the host");
}

#[test]
fn browsers_get_cors_headers() {
    let guest = Guest::with(Some(TOKEN));
    let asked = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let answer = guest.http("OPTIONS", "/process.Process/Start", &asked, b"");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
    let refused = guest.http("GET", "/envs", &asked[..1], b"");
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some("*")));
    assert_eq!(guest.get("/health").header("access-control-allow-origin"), None);
}

#[test]
fn sizes_are_bounded() {
    let guest = Guest::start();
    let (status, body) = guest.call("filesystem.Filesystem/Stat", &json!({"path": "x".repeat(9 << 20)}));
    assert_eq!((status, &body["code"]), (429, &json!("resource_exhausted")));
    let mut lying = vec![0, 0xff, 0xff, 0xff, 0xff];
    lying.extend_from_slice(b"{}");
    assert_eq!(guest.stream_raw("process.Process/Start", &[], &lying).finish().code(), "resource_exhausted");
    assert_eq!(guest.control("POST", "/init", &[], &vec![b' '; 3 << 20]).status, 413);
    let long = "x".repeat(100_000);
    assert_eq!(guest.http("GET", "/health", &[("x-long", &long)], b"").status, 431);
    assert!(guest.memory() < 64 << 20);
    assert_eq!(guest.get("/health").status, 204);
}

#[test]
fn a_rejection_keeps_the_connection_usable_or_closes_it() {
    for guest in [Guest::with(Some(TOKEN)), Guest::over_tcp(Some(TOKEN))] {
        let chunks =
            |size: usize| [format!("{size:x}\r\n").into_bytes(), vec![b'x'; size], b"\r\n0\r\n\r\n".to_vec()].concat();
        for (framing, body, closes) in [
            ("content-length: 2", b"{}".to_vec(), false),
            ("content-length: 200000", vec![b'x'; 200_000], false),
            ("transfer-encoding: chunked", chunks(200_000), false),
            ("content-length: 5000000", vec![b'x'; 5_000_000], true),
            ("transfer-encoding: chunked", chunks(5_000_000), true),
        ] {
            for path in ["/files?path=x", "/process.Process/List", "/nothing"] {
                let mut connection = guest.connect();
                let head = format!("POST {path} HTTP/1.1\r\nhost: guest\r\n{framing}\r\n\r\n");
                connection.write_all(head.as_bytes()).unwrap();
                // The body arrives in its own packet, as from most clients.
                std::thread::sleep(std::time::Duration::from_millis(20));
                let _ = connection.write_all(&body);
                let mut refused = Answer::read(connection, false);
                let _ = std::io::copy(&mut refused, &mut std::io::sink()).unwrap();
                assert_eq!(refused.status, 401, "{path} {framing}");
                assert_eq!(refused.header("connection") == Some("close"), closes, "{path} {framing}");
                if closes {
                    assert_eq!(refused.reader.read(&mut [0; 16]).unwrap(), 0, "{path} {framing}");
                    continue;
                }
                let mut connection = refused.reader.into_inner();
                connection.write_all(b"GET /health HTTP/1.1\r\nhost: guest\r\n\r\n").unwrap();
                assert_eq!(Answer::read(connection, false).status, 204, "{path} {framing}");
            }
        }
    }
}
