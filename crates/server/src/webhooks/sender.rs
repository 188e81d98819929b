//! Sends one event to one receiver. Redirects are not followed and connections not kept: the receiver's address is checked for each
//! delivery.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use cabana_http::{AddressPolicy, Client, Config, Kind, Limits, Refusal, Timeouts, Trust};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;

use super::signed_event::SignedEvent;
use super::target::{InvalidTarget, Target};

/// Maximum size of a response's head, bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How much of a response's body is read and discarded, so that the receiver can finish sending it, and for how long.
const MAX_BODY_BYTES: u64 = 4 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of an error message.
const MAX_ERROR_CHARS: usize = 300;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("e2b-webhook-id");
const DELIVERY_ID: HeaderName = HeaderName::from_static("e2b-delivery-id");
const SIGNATURE_VERSION: HeaderName = HeaderName::from_static("e2b-signature-version");
const SIGNATURE: HeaderName = HeaderName::from_static("e2b-signature");

/// Sends events.
#[derive(Debug)]
pub(super) struct Sender {
    client: Client<Full<Bytes>>,
    allow_private: bool,
    timeout: Duration,
}

/// Why an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    #[error("its URL cannot be used")]
    Target(#[source] InvalidTarget),
    #[error("{host} leads to where events are not sent")]
    Refused {
        host: String,
        #[source]
        source: InvalidTarget,
    },
    #[error("{}", .0.host)]
    Http(#[source] cabana_http::Error),
    #[error("build the request")]
    Build(#[source] http::Error),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("answered with status {0}")]
    Status(u16),
}

impl DeliveryError {
    /// The status of the response, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether a retry cannot succeed.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Target(_) | Self::Build(_))
    }

    /// What went wrong, for the webhook's owner.
    pub(super) fn to_text(&self) -> String {
        let text = cabana_types::error::chain(self);
        text.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect()
    }
}

impl From<cabana_http::Error> for DeliveryError {
    fn from(error: cabana_http::Error) -> Self {
        let source = match error.kind {
            Kind::Refused { address, reason: Refusal::Forbidden } => InvalidTarget::Forbidden(address),
            Kind::Refused { address, .. } => InvalidTarget::Private(address.to_string()),
            _ => return Self::Http(error),
        };
        Self::Refused { host: error.host, source }
    }
}

impl Sender {
    pub(super) fn new(allow_private: bool, timeout: Duration) -> Self {
        Self::with_trust(Trust::default(), allow_private, timeout)
    }

    fn with_trust(trust: Trust, allow_private: bool, timeout: Duration) -> Self {
        let client = Client::new(Config {
            trust,
            addresses: if allow_private { AddressPolicy::Internal } else { AddressPolicy::public() },
            // The whole delivery has a timeout; no step gets all of it.
            timeouts: Timeouts { connect: timeout / 2, head: None, stall: None },
            limits: Limits { head_bytes: MAX_HEAD_BYTES, ..Limits::default() },
            pooled: false,
        });
        Self { client, allow_private, timeout }
    }

    /// Sends an event. Statuses other than 2xx are errors.
    pub(super) async fn send(&self, url: &str, event: &SignedEvent) -> Result<u16, DeliveryError> {
        let target = Target::parse(url, self.allow_private).map_err(DeliveryError::Target)?;
        let sent = tokio::time::timeout(self.timeout, self.exchange(&target, event));
        let status = sent.await.map_err(|_| DeliveryError::TimedOut(self.timeout))??;
        if (200..300).contains(&status) { Ok(status) } else { Err(DeliveryError::Status(status)) }
    }

    async fn exchange(&self, target: &Target, event: &SignedEvent) -> Result<u16, DeliveryError> {
        let request = Request::post(target.as_str())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(CONNECTION, HeaderValue::from_static("close"))
            .header(WEBHOOK_ID, event.webhook.as_str())
            .header(DELIVERY_ID, &event.id)
            .header(SIGNATURE_VERSION, HeaderValue::from_static("v1"))
            .header(SIGNATURE, &event.signature)
            .body(Full::from(event.body.clone()))
            .map_err(DeliveryError::Build)?;
        let response = self.client.send(request).await?;
        let status = response.status().as_u16();
        let _ = tokio::time::timeout(BODY_TIMEOUT, cabana_http::read(response, MAX_BODY_BYTES)).await;
        Ok(status)
    }
}
