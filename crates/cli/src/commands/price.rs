//! `cabana price`: what resources cost.

use cabana_types::wire::{Price, PriceChanges, PriceList};
use cabana_types::{Micros, UsageKind};

use crate::commands::Context;
use crate::failure::Outcome;

const LS_EXAMPLES: &str = "\
Examples:
  cabana price ls
  cabana price ls --json";

const SET_EXAMPLES: &str = "\
Examples:
  cabana price set vcpu=0.04 memory_mib=0.005 disk_mib=0.0001
  cabana price set vcpu=0.05 --from 2027-01-01T00:00:00Z

Prices are for a vCPU-hour or a GiB-hour. What was used before keeps its price. Needs an API key with the
scope admin.";

/// Show and set prices
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// List prices of the past and the future
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set prices
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The prices
        #[arg(value_name = "KIND=PRICE", required = true, value_parser = parse_price)]
        prices: Vec<(UsageKind, Micros)>,
        /// From when on; now by default
        #[arg(long, value_name = "TIME")]
        from: Option<jiff::Timestamp>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Outcome {
    let client = context.client()?;
    match command {
        Command::Ls { json: true } => context.out.json(&client.prices().await?)?,
        Command::Ls { json: false } => show(&client.prices().await?, context)?,
        Command::Set { prices, from } => {
            let changes = PriceChanges { prices: prices.into_iter().collect(), effective_from: from };
            show(&client.set_prices(&changes).await?, context)?;
        }
    }
    Ok(0)
}

fn show(list: &PriceList, context: &Context) -> Result<(), crate::failure::Failure> {
    let row = |price: &Price| {
        let from = price.effective_from.to_string();
        vec![price.kind.to_string(), price.micros.to_string(), list.currency.clone(), price.unit.clone(), from]
    };
    let rows: Vec<_> = list.prices.iter().map(row).collect();
    context.out.rows(&["KIND", "PRICE", "CURRENCY", "FOR", "FROM"], &rows)
}

fn parse_price(text: &str) -> Result<(UsageKind, Micros), String> {
    let (kind, price) = text.split_once('=').ok_or("expected KIND=PRICE, such as vcpu=0.04")?;
    let priced = UsageKind::parse(kind).filter(|kind| kind.priced_unit().is_some());
    let kind = priced.ok_or_else(|| {
        let kinds: Vec<_> =
            UsageKind::ALL.iter().filter(|kind| kind.priced_unit().is_some()).map(|kind| kind.as_str()).collect();
        format!("{kind:?} has no price; the kinds are {}", kinds.join(", "))
    })?;
    let price: Micros = price.parse().map_err(|e: cabana_types::money::InvalidAmount| e.to_string())?;
    if price < Micros::ZERO { Err("a price is not negative".to_owned()) } else { Ok((kind, price)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_checked_before_they_are_sent() {
        assert_eq!(parse_price("vcpu=0.04"), Ok((UsageKind::Vcpu, Micros(40_000))));
        for bad in ["vcpu", "tokens=1", "output_tokens=1", "vcpu=-1", "vcpu=0.0000001", "vcpu=1e3"] {
            assert!(parse_price(bad).is_err(), "{bad}");
        }
    }
}
