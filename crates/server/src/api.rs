//! The REST API in E2B's wire form. Handlers validate requests and read the store; lifecycle and builds make every change.

mod body;
mod build_files;
mod build_logs;
mod build_spec;
mod builds;
mod commit;
mod egress_policy;
mod events;
mod identity;
mod keys;
mod listing;
mod logs;
mod metrics;
mod middleware;
mod network;
mod network_options;
mod new_sandbox;
mod novita;
mod openapi_bounds;
mod pause;
mod query;
mod sandbox_ref;
mod sandboxes;
mod secrets;
mod server;
mod snapshots;
mod tags;
mod teams;
mod template_changes;
mod template_ref;
mod templates;
mod timeouts;
mod unsupported;
mod webhooks;

use std::sync::Arc;
use std::sync::LazyLock;

use axum::Router;
use cabana_store::Store;
use cabana_types::Secret;
use tokio_util::task::TaskTracker;
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{self, KeyRates, Keys};
use crate::builds::Builds;
use crate::config;
use crate::egress::Egress;
use crate::lifecycle::Lifecycle;
use crate::resource_limits::ResourceLimits;
use crate::vault::Vault;
pub(crate) use events::wire_event;

/// State shared by all handlers.
#[derive(Debug)]
pub struct App {
    /// Persistent state.
    pub store: Store,
    /// Changes sandboxes.
    pub lifecycle: Arc<Lifecycle>,
    /// Valid API keys.
    pub keys: Keys,
    /// Rate limits of keys.
    pub rates: KeyRates,
    /// How large a sandbox may be.
    pub limits: ResourceLimits,
    /// Where sandboxes may connect.
    pub egress: Egress,
    /// Domain of the sandboxes' hosts.
    pub domain: Option<String>,
    /// How events are sent to webhooks.
    pub webhooks: config::Webhooks,
    /// Builds templates.
    pub builds: Arc<Builds>,
    /// Secrets and workload identity.
    pub vault: Arc<Vault>,
    /// Signs upload links.
    pub upload_key: Secret,
    /// Tasks of requests that must not be cut short when the client disconnects.
    pub tasks: TaskTracker,
}

impl App {
    /// Runs a task to its end even if the client disconnects; the server waits for it before it stops. `None` if it panicked.
    async fn run_to_end<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        self.tasks.spawn(task).await.ok()
    }
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

/// Routes that need an API key.
fn private() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(sandboxes::create_sandbox, listing::list_sandboxes))
        .routes(routes!(sandboxes::create_sandbox_v1, listing::list_sandboxes_v1))
        .routes(routes!(sandboxes::get_sandbox, sandboxes::kill_sandbox))
        .routes(routes!(network::get_network, network::set_network))
        .routes(routes!(timeouts::set_timeout))
        .routes(routes!(timeouts::refresh))
        .routes(routes!(timeouts::connect))
        .routes(routes!(timeouts::connect_v1))
        .routes(routes!(timeouts::resume))
        .routes(routes!(pause::pause))
        .routes(routes!(pause::recover))
        .routes(routes!(pause::archive))
        .routes(routes!(pause::resize))
        .routes(routes!(pause::hotplug_memory))
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
        .merge(secrets::routes())
}

/// Routes without an API key.
fn public() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(server::health))
        .routes(routes!(server::openapi))
        .routes(routes!(identity::openid_configuration))
        .routes(routes!(identity::jwks))
        // Authorised by a signed link instead.
        .routes(routes!(build_files::upload))
}

/// The routes with all middleware.
pub fn router(app: Arc<App>) -> Router {
    let key = axum::middleware::from_fn_with_state(Arc::clone(&app), auth::require_key);
    let (private, _) = private().split_for_parts();
    let (public, _) = public().split_for_parts();
    middleware::wrap(unsupported::routes(private).route_layer(key).merge(public).with_state(app))
}

/// The OpenAPI document, as it is served and committed.
pub fn document() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut document = described();
        openapi_bounds::apply(&mut document);
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

/// Adds the error response, which is the same for every operation.
fn describe_errors(document: &mut OpenApi) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response = ResponseBuilder::new()
        .description("An error: `code` is the status, `message` says what to do")
        .content("application/json", content.clone())
        .build();
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
    let retry_after = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Seconds to wait, if the cause is a rate limit"))
        .build();
    let too_many = ResponseBuilder::new()
        .description(
            "Too many requests with this key or from this address, or a limit of the team or server is reached",
        )
        .header("Retry-After", retry_after)
        .content("application/json", content)
        .build();
    for item in document.paths.paths.values_mut() {
        for operation in
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
        {
            operation.responses.responses.insert("default".into(), response.clone().into());
            operation.responses.responses.insert("429".into(), too_many.clone().into());
        }
    }
}
