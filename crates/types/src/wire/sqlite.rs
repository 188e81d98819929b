//! Queries of SQLite databases in a sandbox.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of `POST /sandboxes/{sandboxID}/sqlite`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SqliteQuery {
    /// The database file.
    pub path: String,
    /// One statement.
    pub sql: String,
    /// Values for its `?`: texts, numbers, booleans and nulls.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub params: Vec<Value>,
    /// Whether it may change the database.
    #[serde(default)]
    pub write: bool,
}

/// What a statement returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SqliteResult {
    pub columns: Vec<String>,
    /// Each has one value for each column.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Vec<Object>>))]
    pub rows: Vec<Vec<Value>>,
    /// Whether rows or parts of values are left out.
    pub truncated: bool,
    /// Rows that were inserted, updated or deleted.
    pub changes: u64,
}
