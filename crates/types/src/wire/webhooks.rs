//! Bodies of the API for webhooks.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{SandboxId, Secret, WebhookId};

/// Body of `POST /events/webhooks`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewWebhook {
    /// What to call it.
    pub name: String,
    /// Where events are sent: an http:// or https:// URL.
    pub url: String,
    /// Whether anything is sent; true unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The types of events that are sent.
    pub events: Vec<String>,
    /// What deliveries are signed with. It is never shown again.
    pub signature_secret: Secret,
}

/// Body of `PATCH /events/webhooks/{id}`: what is to be different.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookUpdate {
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether anything is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The types of events that are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// What deliveries are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_secret: Option<Secret>,
}

/// A webhook, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose events it is sent.
    pub team_id: String,
    /// What its owner calls it.
    pub name: String,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Where to.
    pub url: String,
    /// The types of events that are sent.
    pub events: Vec<String>,
    /// Events that wait to be sent (Cabana).
    #[serde(default)]
    pub pending: u64,
    /// Events that were never sent because too many waited (Cabana).
    #[serde(default)]
    pub dropped: u64,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeliveryStatus {
    /// It waits for its first or next try.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Failed,
}

/// One event on its way to a webhook (Cabana).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookDelivery {
    /// The event's id.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// When it happened.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// To which sandbox.
    pub sandbox_id: SandboxId,
    /// What became of it.
    pub status: DeliveryStatus,
    /// How often it was tried.
    pub tries: u32,
    /// What the last try had as `e2b-delivery-id`.
    #[serde(default)]
    pub delivery_id: Option<String>,
    /// The HTTP status that answered the last try.
    #[serde(default)]
    pub last_status: Option<u16>,
    /// What went wrong with the last try.
    #[serde(default)]
    pub last_error: Option<String>,
    /// When it is tried again, where the webhook is failing.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_try_at: Option<Timestamp>,
    /// When it was taken or given up.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
}
