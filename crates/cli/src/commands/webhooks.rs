//! `cabana webhooks`: manages webhooks and shows their deliveries.

use cabana_types::wire::{DeliveryStatus, NewWebhook, Webhook, WebhookDelivery};
use cabana_types::{Secret, WebhookId};
use jiff::Timestamp;

use crate::amount::relative;
use crate::commands::{Context, each};
use crate::failure::{Failure, Outcome};

const LS_EXAMPLES: &str = "\
Examples:
  cabana webhooks ls
  cabana webhooks ls --json

If piped, prints one tab-separated line per webhook: id, name, URL, comma-separated event types,
`enabled` or `disabled`, number of pending events, number of dropped events.";

const ADD_EXAMPLES: &str = "\
Examples:
  cabana webhooks add https://example.com/hook
  cabana webhooks add https://example.com/hook --event killed --event updated --name alarms
  cabana webhooks add https://example.com/hook --secret-file secret.txt

Prints the id and, if none was given, the generated secret, which is shown only once.
`created` is short for `sandbox.lifecycle.created`, and so on.";

const RM_EXAMPLES: &str = "\
Examples:
  cabana webhooks rm 2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f

Prints the ids of the deleted webhooks. Continues after an error.";

const DELIVERIES_EXAMPLES: &str = "\
Examples:
  cabana webhooks deliveries 2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f
  cabana webhooks deliveries 2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f --limit 100 --json

If piped, prints one tab-separated line per event: time of the event, type, sandbox, `pending`,
`delivered` or `failed`, number of attempts, time of the next attempt, last error.";

/// Prefix of event types.
const PREFIX: &str = "sandbox.lifecycle.";

/// Send events to URLs
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List webhooks
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send new events to a URL
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// Destination URL
        #[arg(value_name = "URL")]
        url: String,
        /// Name of the webhook
        #[arg(long, value_name = "NAME", default_value = "webhook")]
        name: String,
        /// Event type to send; may be repeated
        #[arg(long = "event", value_name = "TYPE", default_values = ["created", "killed"])]
        events: Vec<String>,
        /// File with the signing secret [default: a generated one]
        #[arg(long, value_name = "FILE")]
        secret_file: Option<std::path::PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete webhooks
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// The webhooks
        #[arg(value_name = "ID", required = true, value_parser = parse_id)]
        ids: Vec<WebhookId>,
    },
    /// List recent and pending deliveries, latest event first
    #[command(after_help = DELIVERIES_EXAMPLES)]
    Deliveries {
        /// The webhook
        #[arg(value_name = "ID", value_parser = parse_id)]
        id: WebhookId,
        /// Number of deliveries
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    let out = &context.out;
    match command {
        Command::Ls { json: true } => out.json(&client.webhooks().await?)?,
        Command::Ls { json: false } => {
            let rows: Vec<_> = client.webhooks().await?.iter().map(row).collect();
            out.rows(&["ID", "NAME", "URL", "EVENTS", "STATE", "PENDING", "DROPPED"], &rows)?;
        }
        Command::Add { url, name, events, secret_file, json } => {
            let given = secret_file.map(|path| read_secret(&path)).transpose()?;
            let secret = given.clone().unwrap_or_else(make_secret);
            let events = events.iter().map(|kind| full(kind)).collect();
            let new = NewWebhook { name, url, enabled: None, events, signature_secret: secret.clone() };
            let made = client.create_webhook(&new).await?;
            match (json, given) {
                (true, Some(_)) => out.json(&made)?,
                (true, None) => {
                    let mut made = serde_json::to_value(&made)?;
                    made["signatureSecret"] = secret.expose().into();
                    out.json(&made)?;
                }
                (false, Some(_)) => out.line(made.id.as_str())?,
                (false, None) => {
                    out.rows(&["ID", "SECRET"], &[vec![made.id.to_string(), secret.expose().to_owned()]])?;
                }
            }
        }
        Command::Rm { ids } => {
            return each::run("webhook", &ids, context, async |id| client.delete_webhook(id).await.map(|()| true))
                .await;
        }
        Command::Deliveries { id, limit, json } => {
            let deliveries = client.deliveries(&id, Some(limit)).await?;
            if json {
                out.json(&deliveries)?;
                return Ok(0);
            }
            let now = Timestamp::now();
            let time = |at: Timestamp| if out.is_terminal() { relative(at, now) } else { at.to_string() };
            let rows: Vec<_> = deliveries.iter().map(|delivery| delivery_row(delivery, time)).collect();
            out.rows(&["WHEN", "TYPE", "SANDBOX", "STATE", "TRIES", "NEXT", "ERROR"], &rows)?;
            if rows.is_empty() {
                out.note("there are no deliveries yet");
            }
        }
    }
    Ok(0)
}

fn row(webhook: &Webhook) -> Vec<String> {
    let state = if webhook.enabled { "enabled" } else { "disabled" };
    vec![
        webhook.id.to_string(),
        webhook.name.clone(),
        webhook.url.clone(),
        webhook.events.iter().map(|kind| kind.strip_prefix(PREFIX).unwrap_or(kind)).collect::<Vec<_>>().join(","),
        state.to_owned(),
        webhook.pending.to_string(),
        webhook.dropped.to_string(),
    ]
}

fn delivery_row(delivery: &WebhookDelivery, time: impl Fn(Timestamp) -> String) -> Vec<String> {
    let state = match delivery.status {
        DeliveryStatus::Pending => "pending",
        DeliveryStatus::Delivered => "delivered",
        DeliveryStatus::Failed => "failed",
    };
    vec![
        time(delivery.timestamp),
        delivery.event_type.clone(),
        delivery.sandbox_id.to_string(),
        state.to_owned(),
        delivery.tries.to_string(),
        delivery.next_try_at.map(time).unwrap_or_default(),
        delivery.last_error.clone().unwrap_or_default(),
    ]
}

fn full(kind: &str) -> String {
    if kind.contains('.') { kind.to_owned() } else { format!("{PREFIX}{kind}") }
}

fn make_secret() -> Secret {
    let random: [u8; 32] = rand::random();
    Secret::new(random.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// The file's contents without the trailing newline.
fn read_secret(path: &std::path::Path) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::user_error(format!("cannot read the secret from {}: {e}", path.display())))?;
    Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
}

fn parse_id(text: &str) -> Result<WebhookId, String> {
    text.to_ascii_lowercase().parse().map_err(|_| "not a webhook id; `cabana webhooks ls` lists them".to_owned())
}
