//! The body of a delivery: the event as `GET /events/sandboxes` returns it, the additional fields of E2B's deliveries, and its signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_store::{PendingDelivery, event};
use cabana_types::wire::Event;
use cabana_types::{BuildId, SandboxId, Secret, WebhookId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::api::wire_event;

/// How many ids are tried to find one whose signature is the same in both alphabets of base64; one in four is.
const MAX_DRAWS: usize = 64;

/// The body of one delivery attempt and the values of its headers.
#[derive(Debug)]
pub(super) struct SignedEvent {
    /// Id of this attempt.
    pub(super) id: String,
    pub(super) webhook: WebhookId,
    pub(super) body: Vec<u8>,
    pub(super) signature: String,
}

/// The event with both spellings of its fields: E2B's deliveries began with snake case and use camel case now.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    event: &'a Event,
    #[serde(rename = "deliveryId")]
    delivery_id: &'a str,
    event_category: &'static str,
    event_label: &'a str,
    event_data: &'a Option<Value>,
    sandbox_id: &'a SandboxId,
    sandbox_template_id: &'a str,
    sandbox_build_id: &'a BuildId,
    sandbox_execution_id: &'a str,
    sandbox_team_id: &'a str,
}

/// Builds and signs the body. Every attempt has an id of its own, which is part of the signed body.
pub(super) fn build(delivery: &PendingDelivery) -> SignedEvent {
    let mut event = wire_event(delivery.event.clone());
    event.event_data = Some(details(delivery));
    let mut signed = sign(delivery, &event);
    // E2B's documentation has shown both alphabets of base64. A signature without the two characters in which they differ satisfies
    // receivers written for either.
    for _ in 1..MAX_DRAWS {
        if !signed.signature.contains(['-', '_']) {
            break;
        }
        signed = sign(delivery, &event);
    }
    signed
}

fn sign(delivery: &PendingDelivery, event: &Event) -> SignedEvent {
    let id = uuid::Uuid::new_v4().to_string();
    let body = Body {
        event,
        delivery_id: &id,
        event_category: "lifecycle",
        event_label: label(&event.kind),
        event_data: &event.event_data,
        sandbox_id: &event.sandbox_id,
        sandbox_template_id: &event.sandbox_template_id,
        sandbox_build_id: &event.sandbox_build_id,
        sandbox_execution_id: &event.sandbox_execution_id,
        sandbox_team_id: &event.sandbox_team_id,
    };
    // Only strings and maps with string keys: this cannot fail.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let signature = signature(&delivery.secret, &body);
    SignedEvent { id, webhook: delivery.webhook.clone(), body, signature }
}

/// The signature of a body, version 1.
fn signature(secret: &Secret, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(secret.expose()).chain_update(body).finalize();
    URL_SAFE_NO_PAD.encode(digest)
}

/// The event's own details, the sandbox's metadata, and for the end of a run its length and resources.
fn details(delivery: &PendingDelivery) -> Value {
    let mut details = match &delivery.event.data {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    if let Some(metadata) = &delivery.metadata {
        details.insert("sandbox_metadata".into(), metadata.clone());
    }
    if let (Some(started_at), event::KILLED | event::PAUSED) = (delivery.started_at, delivery.event.kind.as_str()) {
        let run = json!({
            "started_at": started_at.to_string(),
            "vcpu_count": delivery.cpu_count,
            "memory_mb": delivery.memory_mb,
            "execution_time": u64::try_from(delivery.event.at.duration_since(started_at).as_millis()).unwrap_or_default(),
        });
        details.insert("execution".into(), run);
    }
    Value::Object(details)
}

/// The kind in E2B's short form.
fn label(kind: &str) -> &str {
    match kind {
        event::CREATED => "create",
        event::UPDATED => "update",
        event::PAUSED => "pause",
        event::RESUMED => "resume",
        event::SNAPSHOTTED => "snapshot",
        event::KILLED => "kill",
        _ => kind.rsplit('.').next().unwrap_or(kind),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use cabana_store::Event as Row;
    use jiff::Timestamp;

    use super::*;

    fn delivery(kind: &str, data: Value) -> PendingDelivery {
        PendingDelivery {
            seq: 1,
            webhook: WebhookId::from_random([1; 16]),
            url: "https://example.com/".into(),
            secret: Secret::new("sécret"),
            event: Row {
                id: "e1".into(),
                kind: kind.into(),
                data,
                at: Timestamp::from_second(1_700_000_060).expect("time"),
                sandbox: SandboxId::from_random([2; 20]),
                team: "default".parse().expect("id"),
                template: "base".into(),
                build: BuildId::from_random([3; 16]),
            },
            metadata: Some(json!({"project": "x"})),
            cpu_count: 2,
            memory_mb: 512,
            started_at: Some(Timestamp::from_second(1_700_000_000).expect("time")),
            tries: 0,
            failures: 0,
            due_at: None,
        }
    }

    #[test]
    fn the_body_has_both_spellings() {
        let delivery = delivery(event::KILLED, json!({"reason": "was killed"}));
        let signed = build(&delivery);
        let body: Value = serde_json::from_slice(&signed.body).expect("JSON");
        assert_eq!((&body["version"], &body["id"], &body["type"]), (&json!("v1"), &json!("e1"), &json!(event::KILLED)));
        assert_eq!(
            (&body["sandboxId"], &body["sandbox_id"]),
            (&json!(delivery.event.sandbox), &json!(delivery.event.sandbox))
        );
        for (camel, snake) in [
            ("eventData", "event_data"),
            ("sandboxTemplateId", "sandbox_template_id"),
            ("sandboxBuildId", "sandbox_build_id"),
            ("sandboxExecutionId", "sandbox_execution_id"),
            ("sandboxTeamId", "sandbox_team_id"),
        ] {
            assert!(!body[camel].is_null() && body[camel] == body[snake], "{camel}: {body}");
        }
        assert_eq!((&body["event_category"], &body["event_label"]), (&json!("lifecycle"), &json!("kill")));
        let run =
            json!({"started_at": "2023-11-14T22:13:20Z", "vcpu_count": 2, "memory_mb": 512, "execution_time": 60_000});
        let wanted = json!({"reason": "was killed", "sandbox_metadata": {"project": "x"}, "execution": run});
        assert_eq!(body["eventData"], wanted);
        assert_eq!((&body["deliveryId"], &body["timestamp"]), (&json!(signed.id), &json!("2023-11-14T22:14:20Z")));
    }

    #[test]
    fn the_signature_is_that_of_either_alphabet() {
        let delivery = delivery(event::CREATED, Value::Null);
        for _ in 0..100 {
            let signed = build(&delivery);
            let digest = Sha256::digest([delivery.secret.expose().as_bytes(), &signed.body].concat());
            assert_eq!(signed.signature, URL_SAFE_NO_PAD.encode(digest));
            assert_eq!(signed.signature, STANDARD_NO_PAD.encode(digest));
        }
        assert_ne!(build(&delivery).id, build(&delivery).id, "every attempt has its own");
    }

    #[test]
    fn every_kind_has_a_label() {
        for kind in event::KINDS {
            assert!(!label(kind).is_empty() && !label(kind).contains('.'), "{kind}");
        }
    }
}
