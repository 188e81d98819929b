//! The guest link: which path is on which port.

use cabana_guest_link::Port;
use http::{Method, StatusCode};

use crate::fixture::{Fixture, ask};

crate::cases![
    Nothing: both_ports_answer_health,
    Nothing: control_paths_are_not_on_the_traffic_port,
    Nothing: traffic_paths_are_not_on_the_control_port,
    Nothing: links_of_two_sandboxes_lead_to_different_guests,
];

async fn both_ports_answer_health(f: &mut Fixture) {
    let live = f.launch().await;
    for port in [Port::Control, Port::Traffic] {
        assert_eq!(ask(&live, port, Method::GET, "/health", b"").await.0, StatusCode::NO_CONTENT, "{port:?}");
    }
    f.destroy(&live.id).await;
}

async fn control_paths_are_not_on_the_traffic_port(f: &mut Fixture) {
    let live = f.launch().await;
    for (method, path) in [
        (Method::GET, "/journal"),
        (Method::GET, "/activity"),
        (Method::GET, "/ready"),
        (Method::GET, "/bridge?port=22"),
        (Method::POST, "/init"),
        (Method::POST, "/stop"),
        (Method::POST, "/%69nit"),
        (Method::POST, "//init"),
    ] {
        let (status, _) = ask(&live, Port::Traffic, method, path, b"").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(ask(&live, Port::Control, Method::GET, "/journal", b"").await.0, StatusCode::OK);
    assert_eq!(live.link.activity().await.unwrap().commands, 0);
    f.destroy(&live.id).await;
}

async fn traffic_paths_are_not_on_the_control_port(f: &mut Fixture) {
    let live = f.launch().await;
    for path in ["/files?path=/etc/passwd", "/envs", "/metrics"] {
        assert_eq!(ask(&live, Port::Control, Method::GET, path, b"").await.0, StatusCode::NOT_FOUND, "{path}");
    }
    f.destroy(&live.id).await;
}

async fn links_of_two_sandboxes_lead_to_different_guests(f: &mut Fixture) {
    let (one, two) = (f.launch().await, f.launch().await);
    f.destroy(&one.id).await;
    assert!(one.link.connect(Port::Control).await.is_err());
    assert!(one.link.connect(Port::Traffic).await.is_err());
    assert!(two.link.connect(Port::Control).await.is_ok());
    f.destroy(&two.id).await;
}
