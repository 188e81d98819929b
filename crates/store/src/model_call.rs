//! Calls of models, as they are metered: each is written once, with the result that it led to.

use cabana_types::chat::Usage;
use cabana_types::{ChatId, TeamId, TurnId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::Error;
use crate::column::{integer, micros};

/// A call of a model that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCallRow {
    pub turn: TurnId,
    pub model: String,
    pub usage: Usage,
    pub at: Timestamp,
}

/// What is counted of one call at most: a provider can report anything.
const MAX_TOKENS: u64 = 1_000_000_000_000;
const MAX_COST: u64 = 1_000_000_000_000_000;

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    team: &TeamId,
    chat: &ChatId,
    call: &ModelCallRow,
) -> Result<(), Error> {
    sqlx::query(
        "insert into model_calls (team, chat, turn, model, input, cached, output, micros, at, project)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, (select project from chats where id = $2))",
    )
    .bind(team.as_str())
    .bind(chat.as_str())
    .bind(call.turn.as_str())
    .bind(&call.model)
    .bind(integer(call.usage.input_tokens.min(MAX_TOKENS)))
    .bind(integer(call.usage.cached_tokens.min(MAX_TOKENS)))
    .bind(integer(call.usage.output_tokens.min(MAX_TOKENS)))
    .bind(call.usage.cost_micros.map(|cost| integer(cost.min(MAX_COST))))
    .bind(micros(call.at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("count a call of a model", e))?;
    Ok(())
}
