//! `cabana wallet`: the team's money.

use cabana_types::Micros;
use cabana_types::wire::{TopUp, WalletEntry, WalletInfo};

use super::plan::check_path;
use crate::commands::Context;
use crate::failure::Outcome;

const SHOW_EXAMPLES: &str = "\
Examples:
  cabana wallet show
  cabana wallet show --json";

const ENTRIES_EXAMPLES: &str = "\
Examples:
  cabana wallet entries
  cabana wallet entries --limit 500 --json";

const GRANT_EXAMPLES: &str = "\
Examples:
  cabana wallet grant research 50 --reference invoice-17

A reference is added once: repeating the command changes nothing. Needs an API key with the scope admin.";

/// Show and fill wallets
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Show the balance
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List what came in and what was used
    #[command(after_help = ENTRIES_EXAMPLES)]
    Entries {
        /// How many, the newest first
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add money to a team's wallet
    #[command(after_help = GRANT_EXAMPLES)]
    Grant {
        /// The team
        #[arg(value_name = "TEAM", value_parser = check_path)]
        team: String,
        /// The amount, such as 50 or 0.05
        #[arg(value_name = "AMOUNT")]
        amount: Micros,
        /// What it stands for
        #[arg(long, value_name = "TEXT")]
        reference: String,
        /// A note
        #[arg(long, value_name = "TEXT")]
        memo: Option<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    match command {
        Command::Show { json: true } => context.out.json(&client.wallet().await?)?,
        Command::Show { json: false } => show(&client.wallet().await?, context)?,
        Command::Entries { limit, json } => {
            let page = client.wallet_entries(limit).await?;
            if json {
                context.out.json(&page)?;
                return Ok(0);
            }
            let row = |entry: &WalletEntry| {
                let (amount, balance) = (entry.amount_micros.to_string(), entry.balance_micros.to_string());
                vec![entry.at.to_string(), entry.kind.to_string(), amount, balance, entry.reference.clone()]
            };
            let rows: Vec<_> = page.entries.iter().map(row).collect();
            context.out.rows(&["AT", "KIND", "AMOUNT", "BALANCE", "REFERENCE"], &rows)?;
        }
        Command::Grant { team, amount, reference, memo } => {
            let currency = client.prices().await?.currency;
            let top_up = TopUp { amount_micros: amount, currency, reference, memo };
            show(&client.top_up(&team, &top_up).await?, context)?;
        }
    }
    Ok(0)
}

fn show(wallet: &WalletInfo, context: &Context) -> Result<(), crate::failure::Failure> {
    let row = vec![wallet.team_id.clone(), wallet.balance_micros.to_string(), wallet.currency.clone()];
    context.out.rows(&["TEAM", "BALANCE", "CURRENCY"], &[row])
}
