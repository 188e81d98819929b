//! The team's webhooks and their deliveries. The secret of a webhook is never returned.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{Delivery, Webhook as Row, WebhookChange, event};
use cabana_types::limits::{MAX_SIGNATURE_SECRET_BYTES, MAX_WEBHOOKS, PAGE};
use cabana_types::wire::{DeliveryStatus, NewWebhook, Webhook, WebhookDelivery, WebhookUpdate};
use cabana_types::{ErrorCode, Secret, WebhookId};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::Body;
use super::keys::check_name;
use super::query::Query;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::webhooks::Target;

const DEFAULT_LIMIT: u32 = 20;

/// List the team's webhooks.
#[utoipa::path(get, path = "/events/webhooks", tag = "events",
    responses((status = 200, description = "Webhooks, oldest first", body = Vec<Webhook>)))]
pub(super) async fn list_webhooks(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Webhook>>, ApiError> {
    Ok(Json(app.store.webhooks(&caller.team).await?.into_iter().map(shown).collect()))
}

/// Create a webhook: send events to a URL from now on.
#[utoipa::path(post, path = "/events/webhooks", tag = "events", request_body = NewWebhook,
    responses((status = 201, description = "The webhook", body = Webhook)))]
pub(super) async fn create_webhook(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<NewWebhook>,
) -> Result<(StatusCode, Json<Webhook>), ApiError> {
    let webhook = Row {
        id: WebhookId::from_random(rand::random()),
        team: caller.team,
        name: check_name(&request.name)?.to_owned(),
        url: target(&app, &request.url)?,
        secret: secret(request.signature_secret)?,
        events: kinds(request.events)?,
        enabled: request.enabled.unwrap_or(true),
        created_at: Timestamp::now(),
        pending: 0,
        dropped: 0,
    };
    if app.store.add_webhook_within(webhook.clone(), MAX_WEBHOOKS).await? {
        Ok((StatusCode::CREATED, Json(shown(webhook))))
    } else {
        Err(ApiError::invalid(format!("The team has {MAX_WEBHOOKS} webhooks, as many as there may be; delete one")))
    }
}

/// Get a webhook.
#[utoipa::path(get, path = "/events/webhooks/{webhookID}", tag = "events",
    params(("webhookID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The webhook", body = Webhook)))]
pub(super) async fn get_webhook(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Webhook>, ApiError> {
    find(&app, &caller, named(id)?).await.map(|webhook| Json(shown(webhook)))
}

/// Change a webhook; fields that are not sent keep their values. A failing webhook is retried at once, and disabling one drops its pending
/// deliveries.
#[utoipa::path(patch, path = "/events/webhooks/{webhookID}", tag = "events", request_body = WebhookUpdate,
    params(("webhookID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The changed webhook", body = Webhook)))]
pub(super) async fn update_webhook(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    Body(request): Body<WebhookUpdate>,
) -> Result<Json<Webhook>, ApiError> {
    let id = named(id)?;
    let change = WebhookChange {
        name: request.name.map(|name| check_name(&name).map(str::to_owned)).transpose()?,
        url: request.url.map(|url| target(&app, &url)).transpose()?,
        secret: request.signature_secret.map(secret).transpose()?,
        events: request.events.map(kinds).transpose()?,
        enabled: request.enabled,
    };
    match app.store.change_webhook(caller.team, id.clone(), change, Timestamp::now()).await? {
        Some(webhook) => Ok(Json(shown(webhook))),
        None => Err(no_webhook(id.as_str())),
    }
}

/// Delete a webhook and its pending deliveries.
#[utoipa::path(delete, path = "/events/webhooks/{webhookID}", tag = "events",
    params(("webhookID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The webhook is deleted")))]
pub(super) async fn delete_webhook(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let id = named(id)?;
    match app.store.remove_webhook(caller.team, id.clone()).await? {
        true => Ok(StatusCode::OK),
        false => Err(no_webhook(id.as_str())),
    }
}

/// List recent and pending deliveries of a webhook.
#[utoipa::path(get, path = "/events/webhooks/{webhookID}/deliveries", tag = "events",
    params(
        ("webhookID" = String, Path, description = "Its id"),
        ("limit" = Option<u32>, Query, description = "Maximum number, 1 to 100, 20 by default"),
    ),
    responses((status = 200, description = "Deliveries, newest event first", body = Vec<WebhookDelivery>)))]
pub(super) async fn list_deliveries(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<Vec<WebhookDelivery>>, ApiError> {
    let limit = query.limit(DEFAULT_LIMIT, *PAGE.end())?;
    let webhook = find(&app, &caller, named(id)?).await?;
    Ok(Json(app.store.deliveries(&webhook.id, limit).await?.into_iter().map(wire_delivery).collect()))
}

async fn find(app: &App, caller: &Caller, id: WebhookId) -> Result<Row, ApiError> {
    app.store.webhook(&caller.team, &id).await?.ok_or_else(|| no_webhook(id.as_str()))
}

fn named(id: Result<Path<String>, PathRejection>) -> Result<WebhookId, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    // A malformed id is treated like one that does not exist.
    text.to_ascii_lowercase().parse().map_err(|_| no_webhook(&text))
}

fn no_webhook(id: &str) -> ApiError {
    let text = format!("Webhook {} was not found; list yours with GET /events/webhooks", short(id));
    ApiError::new(ErrorCode::WebhookNotFound, text)
}

fn target(app: &App, url: &str) -> Result<String, ApiError> {
    let target = Target::parse(url, app.webhooks.allow_private)
        .map_err(|error| ApiError::invalid(format!("url {:?} cannot be used: {error}", short(url))))?;
    Ok(target.as_str().to_owned())
}

fn secret(secret: Secret) -> Result<Secret, ApiError> {
    if (1..=MAX_SIGNATURE_SECRET_BYTES).contains(&secret.expose().len()) {
        Ok(secret)
    } else {
        Err(ApiError::invalid(format!("signatureSecret takes 1 to {MAX_SIGNATURE_SECRET_BYTES} bytes")))
    }
}

/// Checks and deduplicates event types.
fn kinds(wanted: Vec<String>) -> Result<Vec<String>, ApiError> {
    if let Some(unknown) = wanted.iter().find(|kind| !event::KINDS.contains(&kind.as_str())) {
        let known = event::KINDS.join(", ");
        return Err(ApiError::invalid(format!("events: there is no type {:?}; there are {known}", short(unknown))));
    }
    if wanted.is_empty() {
        return Err(ApiError::invalid(format!("events is empty; name at least one of {}", event::KINDS.join(", "))));
    }
    let mut kinds: Vec<String> = vec![];
    for kind in wanted {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

fn shown(webhook: Row) -> Webhook {
    Webhook {
        id: webhook.id,
        team_id: webhook.team.to_string(),
        name: webhook.name,
        created_at: webhook.created_at,
        enabled: webhook.enabled,
        url: webhook.url,
        events: webhook.events,
        pending: webhook.pending,
        dropped: webhook.dropped,
    }
}

fn wire_delivery(delivery: Delivery) -> WebhookDelivery {
    WebhookDelivery {
        event_id: delivery.event,
        event_type: delivery.kind,
        timestamp: delivery.at,
        sandbox_id: delivery.sandbox,
        status: match delivery.state.as_str() {
            "pending" => DeliveryStatus::Pending,
            "delivered" => DeliveryStatus::Delivered,
            _ => DeliveryStatus::Failed,
        },
        tries: delivery.tries,
        delivery_id: delivery.attempt,
        last_status: delivery.status,
        last_error: delivery.error,
        next_try_at: delivery.due_at,
        finished_at: delivery.finished_at,
    }
}
