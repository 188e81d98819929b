//! `cabana network`: shows and changes where a sandbox may connect.

use cabana_types::SandboxId;
use cabana_types::wire::{NetworkRequest, NetworkStatus};
use jiff::Timestamp;

use crate::amount::relative;
use crate::args::{NETWORK_PRESETS, parse_id};
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const SHOW_EXAMPLES: &str = "\
Examples:
  cabana network show ID
  cabana network show ID --json      also the totals of denied connections by rule

Prints the policy, then the most recent denied connections. If piped, prints one tab-separated line
per entry: preset, allow, deny, dns, proxy or rule with its value, and denied with time, protocol,
destination and rule.";

const SET_EXAMPLES: &str = "\
Examples:
  cabana network set ID --preset none                     nothing at all
  cabana network set ID --preset none --allow api.example.com --allow '*.example.org'
  cabana network set ID --deny 203.0.113.0/24             everything else
  cabana network set ID --preset internet

Replaces the whole policy: what is not given is cleared. An allowed host, address or network wins
over a denied one; host names are allowed on ports 80 and 443. Takes effect at once, and ends
connections that are no longer allowed. A paused sandbox gets it when it is resumed.";

/// Show or change where a sandbox may connect
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Show where a sandbox may connect, and what was denied
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// The sandbox
        #[arg(value_name = "ID", value_parser = parse_id)]
        id: SandboxId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace where a sandbox may connect
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The sandbox
        #[arg(value_name = "ID", value_parser = parse_id)]
        id: SandboxId,
        /// Policy to start from
        #[arg(long, value_name = "NAME", value_parser = NETWORK_PRESETS)]
        preset: Option<String>,
        /// Address, network, host name or wildcard that it may connect to; may be repeated
        #[arg(long, value_name = "WHERE")]
        allow: Vec<String>,
        /// Address or network that it may not connect to; may be repeated
        #[arg(long, value_name = "WHERE")]
        deny: Vec<String>,
        /// Name server to use instead of the host's; may be repeated
        #[arg(long, value_name = "IP")]
        dns: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    match command {
        Command::Show { id, json } => {
            let status = client.network(&id).await?;
            if json {
                context.out.json(&status)?;
            } else {
                show(&status, context)?;
            }
        }
        Command::Set { id, preset, allow, deny, dns } => {
            if preset.is_none() && allow.is_empty() && deny.is_empty() && dns.is_empty() {
                return Err(Failure::user_error("nothing to set").hint("give --preset, --allow, --deny or --dns"));
            }
            let list = |list: Vec<String>| (!list.is_empty()).then_some(list);
            let wanted = NetworkRequest {
                preset,
                allow_out: list(allow),
                deny_out: list(deny),
                dns_servers: list(dns),
                ..NetworkRequest::default()
            };
            client.set_network(&id, &wanted).await?;
            context.out.note(&format!("{id}: the new policy is in force"));
        }
    }
    Ok(0)
}

fn show(status: &NetworkStatus, context: &Context) -> Result<(), Failure> {
    let (out, network) = (&context.out, &status.network);
    let mut rows = vec![("preset", status.preset.clone())];
    rows.extend(network.allow_out.iter().map(|text| ("allow", text.clone())));
    rows.extend(network.deny_out.iter().map(|text| ("deny", text.clone())));
    rows.extend(network.dns_servers.iter().map(|text| ("dns", text.clone())));
    rows.extend(network.egress_proxy.iter().map(|proxy| ("proxy", proxy.address.clone())));
    rows.extend(network.rules.keys().map(|host| ("rule", host.clone())));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    out.rows(&["WHAT", "VALUE"], &rows)?;
    let denials = &status.denials;
    if denials.total == 0 {
        return Ok(());
    }
    let now = Timestamp::now();
    let row = |denial: &cabana_types::egress::Denial| {
        let time = if out.is_terminal() { relative(denial.at, now) } else { denial.at.to_string() };
        let protocol = denial.protocol.as_str().to_owned();
        let row = vec![time, protocol, denial.destination.clone(), denial.rule.clone()];
        if out.is_terminal() { row } else { ["denied".to_owned()].into_iter().chain(row).collect() }
    };
    let rows: Vec<Vec<String>> = denials.recent.iter().map(row).collect();
    out.rows(&["DENIED", "PROTOCOL", "DESTINATION", "RULE"], &rows)?;
    let by_rule: Vec<String> = denials.by_rule.iter().map(|(rule, count)| format!("{count} by {rule}")).collect();
    out.note(&format!("{} denied in total: {}", denials.total, by_rule.join(", ")));
    Ok(())
}
