//! Prices, and from when on they hold.

use cabana_meter::Prices;
use cabana_types::{Micros, UsageKind};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// Prices that are kept at most: enough for one change a month of every kind over a life.
const MOST: u32 = 5000;

/// A price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceRow {
    pub kind: UsageKind,
    /// For the unit that the kind is priced in.
    pub price: Micros,
    pub effective_from: Timestamp,
}

impl Store {
    /// Every price of the past and the future, the earliest first.
    pub async fn prices(&self) -> Result<Vec<PriceRow>, Error> {
        let rows = sqlx::query("select kind, micros, effective_from from prices order by effective_from, kind")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list prices", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(PriceRow {
                    kind: row.word("kind", UsageKind::parse)?,
                    price: Micros(row.integer("micros")?),
                    effective_from: row.time("effective_from")?,
                })
            })
            .collect()
    }

    /// Sets prices from a time on that is not in the past: what was used before keeps its price.
    pub async fn set_prices(&self, prices: Vec<PriceRow>, by: String, now: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let rated: i64 = sqlx::query_scalar(
                    "select max(rated_at, (select coalesce(max(rated_until), 0) from intervals where closed_at is null))
                     from rating",
                )
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("read until when usage is rated", e))?;
                for row in prices {
                    // Where the clock was set back, what was rated keeps its price.
                    let from = micros(row.effective_from).max(rated);
                    sqlx::query(
                        "insert into prices (kind, micros, effective_from, created_at, created_by) values ($1, $2, $3, $4, $5)
                         on conflict do update set micros = excluded.micros, created_at = excluded.created_at,
                            created_by = excluded.created_by",
                    )
                    .bind(row.kind.as_str())
                    .bind(row.price.0)
                    .bind(from)
                    .bind(micros(now))
                    .bind(&by)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write a price", e))?;
                }
                let count: u32 = sqlx::query_scalar("select count(*) from prices")
                    .fetch_one(connection)
                    .await
                    .map_err(|e| Error::query("count prices", e))?;
                if count > MOST { Err(Error::TooMany { what: "prices", limit: MOST }) } else { Ok(()) }
            })
        })
        .await
    }
}

/// All prices, as they are looked up.
pub(crate) async fn all(connection: &mut SqliteConnection) -> Result<Prices, Error> {
    let rows = sqlx::query("select kind, micros, effective_from from prices order by effective_from, id")
        .fetch_all(connection)
        .await
        .map_err(|e| Error::query("read prices", e))?;
    let prices = rows.iter().map(|row| {
        let row = Columns(row);
        Ok((row.integer("effective_from")?, row.word("kind", UsageKind::parse)?, Micros(row.integer("micros")?)))
    });
    Ok(Prices::new(prices.collect::<Result<_, Error>>()?))
}
