//! The REST API in E2B's wire form. Handlers check, read the store, and leave every change to lifecycle.

mod body;
mod build_files;
mod build_logs;
mod build_spec;
mod builds;
mod commit;
mod events;
mod keys;
mod layers;
mod listing;
mod logs;
mod metrics;
mod novita;
mod policy;
mod query;
mod sandbox_ref;
mod sandboxes;
mod server;
mod sleep;
mod snapshots;
mod stated;
mod tags;
mod teams;
mod template_changes;
mod template_ref;
mod templates;
mod timeouts;
mod unsupported;
mod webhooks;
mod wish;

use std::sync::Arc;
use std::sync::LazyLock;

use axum::Router;
use cabana_store::Store;
use cabana_types::Secret;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{self, Keys};
use crate::bounds::Bounds;
use crate::builds::Builds;
use crate::config;
use crate::lifecycle::Lifecycle;
pub(crate) use events::wire_event;

/// What every handler can reach.
#[derive(Debug)]
pub struct App {
    /// What is remembered.
    pub store: Store,
    /// What acts.
    pub lifecycle: Arc<Lifecycle>,
    /// Who may ask.
    pub keys: Keys,
    /// For how much.
    pub bounds: Bounds,
    /// Domain of the sandboxes' hosts.
    pub domain: Option<String>,
    /// How events are sent to webhooks.
    pub webhooks: config::Webhooks,
    /// What builds templates.
    pub builds: Arc<Builds>,
    /// What links for uploads are signed with.
    pub upload_key: Secret,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Cabana", description = "Private computers for AI agents, in the wire form of E2B's API."),
    modifiers(&KeyScheme),
    security(("apiKey" = [])),
    components(schemas(cabana_types::wire::ErrorBody, cabana_types::wire::TemplatePage)),
)]
struct Document;

struct KeyScheme;

impl Modify for KeyScheme {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-KEY")));
        let token = SecurityScheme::ApiKey(ApiKey::Query(ApiKeyValue::new("token")));
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("apiKey", scheme);
        components.add_security_scheme("uploadToken", token);
    }
}

/// Routes that want a key.
fn private() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(sandboxes::create_sandbox, listing::list_sandboxes))
        .routes(routes!(sandboxes::create_sandbox_v1, listing::list_sandboxes_v1))
        .routes(routes!(sandboxes::get_sandbox, sandboxes::kill_sandbox))
        .routes(routes!(timeouts::set_timeout))
        .routes(routes!(timeouts::refresh))
        .routes(routes!(timeouts::connect))
        .routes(routes!(timeouts::connect_v1))
        .routes(routes!(timeouts::resume))
        .routes(routes!(sleep::pause))
        .routes(routes!(sleep::recover))
        .routes(routes!(sleep::archive))
        .routes(routes!(sleep::resize))
        .routes(routes!(sleep::hotplug_memory))
        .routes(routes!(commit::commit))
        .routes(routes!(snapshots::fork))
        .routes(routes!(snapshots::clone))
        .routes(routes!(snapshots::take_snapshot))
        .routes(routes!(snapshots::list_snapshots))
        .routes(routes!(logs::sandbox_logs))
        .routes(routes!(logs::sandbox_log_page))
        .routes(routes!(metrics::sandbox_metrics))
        .routes(routes!(metrics::sandboxes_metrics))
        .routes(routes!(novita::quota))
        .routes(routes!(novita::events))
        .routes(routes!(events::list_events))
        .routes(routes!(events::sandbox_events))
        .routes(routes!(webhooks::list_webhooks, webhooks::create_webhook))
        .routes(routes!(webhooks::get_webhook, webhooks::update_webhook, webhooks::delete_webhook))
        .routes(routes!(webhooks::list_deliveries))
        .routes(routes!(templates::list_templates, builds::request_build_v1))
        .routes(routes!(templates::list_templates_v2, builds::request_build_v2))
        .routes(routes!(builds::request_build))
        .routes(routes!(templates::default_templates))
        .routes(routes!(
            templates::get_template,
            builds::request_rebuild,
            template_changes::update_template_v1,
            template_changes::delete_template
        ))
        .routes(routes!(template_changes::update_template))
        .routes(routes!(templates::get_alias))
        .routes(routes!(builds::start_build, builds::cancel_build))
        .routes(routes!(build_logs::build_status))
        .routes(routes!(build_logs::build_log))
        .routes(routes!(build_files::upload_link))
        .routes(routes!(tags::assign_tags, tags::remove_tags))
        .routes(routes!(tags::list_tags))
        .routes(routes!(tags::count_tags))
        .routes(routes!(tags::tag_exists))
        .routes(routes!(tags::tag_groups))
        .routes(routes!(tags::tag_assignments))
        .routes(routes!(teams::list_teams))
        .routes(routes!(teams::team_metrics))
        .routes(routes!(teams::team_metrics_max))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::rename_key, keys::delete_key))
        .routes(routes!(server::status))
        .routes(routes!(server::check))
}

/// Routes for everybody.
fn public() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(server::health))
        .routes(routes!(server::openapi))
        // Signed links stand for a key.
        .routes(routes!(build_files::upload))
}

/// The API as a service.
pub fn router(app: Arc<App>) -> Router {
    let key = axum::middleware::from_fn_with_state(Arc::clone(&app), auth::require_key);
    let (private, _) = private().split_for_parts();
    let (public, _) = public().split_for_parts();
    layers::around(unsupported::routes(private).route_layer(key).merge(public).with_state(app))
}

/// The description of the API, as it is served and committed.
pub fn document() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut document = described();
        stated::state(&mut document);
        let mut text = document.to_pretty_json().unwrap_or_default();
        text.push('\n');
        text
    });
    &TEXT
}

fn described() -> OpenApi {
    let mut document = private().merge(public()).into_openapi();
    unsupported::describe(&mut document);
    document.info.version = env!("CARGO_PKG_VERSION").into();
    describe_errors(&mut document);
    document
}

/// Every operation may answer an error, always in the same form.
fn describe_errors(document: &mut OpenApi) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response = ResponseBuilder::new()
        .description("An error: `code` is the status, `message` says what to do")
        .content("application/json", content)
        .build();
    for item in document.paths.paths.values_mut() {
        for operation in
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
        {
            operation.responses.responses.insert("default".into(), response.clone().into());
        }
    }
}
