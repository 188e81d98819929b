//! Webhooks, one method for each call.

use cabana_types::WebhookId;
use cabana_types::wire::{NewWebhook, Webhook, WebhookDelivery};
use http::Method;

use crate::api::{Client, to_json};
use crate::error::Result;
use crate::query;

impl Client {
    /// The team's webhooks.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>> {
        self.fetch("list webhooks", "/events/webhooks").await
    }

    /// Creates a webhook: events are sent to its URL from now on.
    pub async fn create_webhook(&self, new: &NewWebhook) -> Result<Webhook> {
        let action = "create a webhook";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, "/events/webhooks", Some(body))?).await
    }

    /// Deletes a webhook.
    pub async fn delete_webhook(&self, id: &WebhookId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/events/webhooks/{id}"), None)?;
        self.call_empty("delete the webhook", request).await
    }

    /// Recent and pending deliveries of a webhook, newest event first.
    pub async fn deliveries(&self, id: &WebhookId, limit: Option<u32>) -> Result<Vec<WebhookDelivery>> {
        let limit: Vec<_> = limit.map(|n| ("limit", n.to_string())).into_iter().collect();
        let path = format!("/events/webhooks/{id}/deliveries{}", query::encode(&limit));
        self.fetch("list the webhook's deliveries", &path).await
    }
}
