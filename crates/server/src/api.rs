//! The REST API in E2B's wire form. Handlers validate requests and read the store; lifecycle and builds make every change.

mod account;
mod admin;
mod agents;
mod attachments;
mod audit;
mod body;
mod build_files;
mod build_logs;
mod build_spec;
mod builds;
mod chats;
mod commit;
mod completions;
mod console;
mod content;
mod doctor;
mod egress_policy;
mod entering;
mod events;
mod files;
mod gallery;
mod identity;
mod invitation;
mod keys;
mod listing;
mod live;
mod logs;
mod mcp;
mod members;
mod metrics;
mod middleware;
mod models;
mod network;
mod network_options;
mod new_sandbox;
mod novita;
mod openapi_bounds;
mod openapi_errors;
mod own_address;
mod pause;
mod placeholders;
mod plans;
mod ports;
mod projects;
mod query;
mod quotas;
mod sandbox_ref;
mod sandboxes;
mod secrets;
mod server;
mod services;
mod sessions;
mod shares;
mod snapshots;
mod sqlite;
mod tags;
mod team_acts;
mod teams;
mod telemetry;
mod template_changes;
mod template_ref;
mod templates;
mod terminal;
mod timeouts;
mod tools;
mod unsupported;
mod uploads;
mod usage;
mod wallets;
mod webhooks;

use std::sync::Arc;
use std::sync::LazyLock;

use axum::Router;
use cabana_accounts::Accounts;
use cabana_edge::Directory;
use cabana_store::Store;
use cabana_types::Secret;
use cabana_types::quota::Limits;
use tokio_util::task::TaskTracker;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assets::Assets;
use crate::auth::{self, KeyRates, Keys};
use crate::builds::Builds;
use crate::chats::Chats;
use crate::chats::blobs::Blobs;
use crate::chats::models::Models;
use crate::config;
use crate::egress::Egress;
use crate::gallery::Gallery;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::resource_limits::ResourceLimits;
use crate::services::{Grants, Services, Tickets};
use crate::telemetry::Telemetry;
use crate::terminals::Terminals;
use crate::tools::{Calls, Places};
use crate::vault::Vault;
pub(crate) use audit::Trail;
pub(crate) use events::wire_event;
pub(crate) use own_address::own_address;
pub(crate) use sandboxes::{listed_if_shown, name_creators};

/// Where MCP is served.
const MCP_PATH: &str = "/mcp";
/// On every listener these paths, and those below them, answer only to names of this server: browsers must not take them for a part
/// of another page.
pub(crate) const GUARDED_PATHS: &[&str] = &[MCP_PATH, "/live", "/console", "/auth"];

/// State shared by all handlers.
#[derive(Debug)]
pub struct App {
    /// Persistent state.
    pub store: Store,
    /// Changes sandboxes.
    pub lifecycle: Arc<Lifecycle>,
    /// Valid API keys.
    pub keys: Keys,
    /// People and their sessions.
    pub accounts: Accounts,
    /// How people can sign in, and what they may make.
    pub(crate) people: config::Accounts,
    /// The configured origin of the console.
    pub console_origin: Option<String>,
    /// Where people find the console.
    pub console_url: String,
    /// Rate limits of keys.
    pub rates: KeyRates,
    /// How large a sandbox may be.
    pub limits: ResourceLimits,
    /// Limits of teams that have none of their own.
    pub quotas: Limits,
    /// The currency of all prices and costs.
    pub currency: String,
    /// Where sandboxes may connect.
    pub egress: Egress,
    /// Whether set-uid programs gain nothing in new sandboxes.
    pub no_new_privileges: bool,
    /// Domain of the sandboxes' hosts.
    pub domain: Option<String>,
    /// How events are sent to webhooks.
    pub webhooks: config::Webhooks,
    /// Builds templates.
    pub builds: Arc<Builds>,
    /// Templates that the server can build.
    pub(crate) gallery: Gallery,
    /// Secrets and workload identity.
    pub vault: Arc<Vault>,
    /// Models of chats.
    pub(crate) models: Arc<Models>,
    /// Files of chats.
    pub(crate) blobs: Arc<Blobs>,
    /// Signs links for uploads and downloads.
    pub upload_key: Secret,
    /// Services of sandboxes.
    pub(crate) services: Arc<Services>,
    /// Names by which people see them.
    pub(crate) grants: Grants,
    /// How those who are signed in get to them.
    pub(crate) tickets: Tickets,
    /// Chats and their turns.
    pub(crate) chats: Chats,
    /// Seconds after which streams of chats end; 0: never.
    pub(crate) chat_stream_seconds: u64,
    /// Seconds without use after which the sandbox of a chat is paused.
    pub(crate) chat_idle_seconds: u64,
    /// Sockets for live updates.
    pub(crate) live: Arc<Live>,
    /// What is measured.
    pub(crate) telemetry: Arc<Telemetry>,
    /// Sockets of terminals.
    pub(crate) terminals: Arc<Terminals>,
    /// Calls of agent tools.
    pub(crate) calls: Arc<Calls>,
    /// How many of them use one sandbox at once.
    pub(crate) places: Arc<Places>,
    /// The server's data directory.
    pub(crate) data_dir: std::path::PathBuf,
    /// Days for which the audit log is kept; 0 for ever.
    pub(crate) audit_days: u32,
    /// Bytes of one file that is uploaded to a sandbox.
    pub(crate) max_upload: u64,
    /// Held while the sandbox that a key's MCP clients share is looked for or made.
    pub(crate) own_sandboxes: tokio::sync::Mutex<()>,
    /// Calls of MCP clients that a later request can cancel.
    pub(crate) mcp_calls: mcp::RunningCalls,
    /// The running sandboxes.
    pub(crate) directory: Arc<Directory>,
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
        .routes(routes!(sandboxes::get_tombstone))
        .routes(routes!(uploads::upload_files))
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
        .routes(routes!(quotas::own_quotas))
        .routes(routes!(quotas::project_quotas, quotas::set_project_quotas))
        .routes(routes!(quotas::team_quotas, quotas::set_quotas, quotas::unset_quotas))
        .routes(routes!(identity::rotate_signing_key))
        .routes(routes!(plans::list_plans))
        .routes(routes!(plans::get_plan, plans::put_plan, plans::delete_plan))
        .routes(routes!(plans::assign_plan))
        .routes(routes!(usage::usage))
        .routes(routes!(usage::sandbox_usage))
        .routes(routes!(wallets::prices))
        .routes(routes!(wallets::set_prices))
        .routes(routes!(wallets::wallet))
        .routes(routes!(wallets::wallet_entries))
        .routes(routes!(wallets::top_up))
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
        .routes(routes!(teams::list_teams, team_acts::create_team))
        .routes(routes!(teams::team_metrics))
        .routes(routes!(teams::team_metrics_max))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::rename_key, keys::delete_key))
        .routes(routes!(server::status))
        .routes(routes!(server::check))
        .merge(chats::routes())
        .merge(agents::routes())
        .merge(attachments::routes())
        .merge(audit::routes())
        .merge(completions::routes())
        .merge(doctor::routes())
        .merge(files::routes())
        .merge(gallery::routes())
        .merge(models::routes())
        .merge(ports::routes())
        .merge(secrets::routes())
        .merge(services::routes())
        .merge(shares::routes())
        .merge(sqlite::routes())
        .merge(telemetry::routes())
        .merge(tools::routes())
        .merge(mcp::routes())
        .merge(sessions::routes())
        .merge(account::routes())
        .merge(admin::routes())
        .merge(members::routes())
        .merge(projects::routes())
        .merge(team_acts::routes())
        .merge(live::routes())
        .merge(terminal::routes())
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
        .routes(routes!(tools::download::download))
        .merge(sessions::public_routes())
        .merge(invitation::public_routes())
}

/// The routes with all middleware.
pub fn router(app: Arc<App>, assets: Arc<dyn Assets>) -> Router {
    let key = axum::middleware::from_fn_with_state(Arc::clone(&app), auth::require_caller);
    let recorded = axum::middleware::from_fn_with_state(Arc::clone(&app), audit::recorded);
    let (private, _) = private().split_for_parts();
    let (public, _) = public().split_for_parts();
    let console = console::routes(assets, &app);
    let measure = axum::middleware::from_fn_with_state(Arc::clone(&app.telemetry), telemetry::measure);
    // The console has no CORS: no other page may read it.
    let routes = unsupported::routes(private).route_layer(key).merge(public).route_layer(recorded);
    middleware::wrap(routes.with_state(app).layer(measure)).merge(console)
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
    openapi_errors::describe(&mut document);
    document
}
