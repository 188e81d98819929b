//! SQLite's own program, for sandboxes without Python. It takes no parameters.

use cabana_types::ErrorCode;
use cabana_types::wire::{SqliteQuery, SqliteResult};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{MAX_RESULT, MAX_ROWS, TIME, bounded, lost, refused, too_slow};
use crate::api::content::unresponsive;
use crate::api::files::FileGuest;
use crate::error::ApiError;
use crate::tools::program::{self, Program, Ran};

/// Column that tells how many rows a statement has changed.
const CHANGES: &str = "cabana_changes";

/// `None` if the sandbox does not have it.
pub(super) async fn query(
    guest: &FileGuest,
    path: &str,
    query: &SqliteQuery,
) -> Result<Option<SqliteResult>, ApiError> {
    if !query.params.is_empty() {
        let text =
            "Parameters need python3 with its module sqlite3, which the sandbox does not have; put the values into sql";
        return Err(ApiError::new(ErrorCode::SqliteUnavailable, text));
    }
    // A name that begins with a dash would be an option; this one is absolute.
    let mut arguments: Vec<String> = ["-batch", "-bail", "-json", "-cmd", ".timeout 2000"].map(str::to_owned).into();
    if !query.write {
        arguments.push("-readonly".into());
    }
    // Not a command of the program itself: those begin with a dot.
    arguments.extend([path.to_owned(), format!(" ;{}", query.sql)]);
    if query.write {
        arguments.push(format!("select total_changes() as {CHANGES}"));
    }
    let (time, most) = (TIME, MAX_RESULT);
    let program = Program { name: "sqlite3", arguments, env: vec![], input: String::new(), time, most };
    let ran = program::run(&guest.route, program).await.map_err(|error| {
        tracing::debug!(sandbox = %guest.route.id, %error, "could not run sqlite3 in a sandbox");
        unresponsive()
    })?;
    match ran {
        Ran::Ended { exit, errors, output } => match exit.code {
            Some(0) => Ok(Some(parse(&output, false))),
            _ => Err(refused(errors.lines().next().unwrap_or(&exit.status))),
        },
        Ran::Cut(output) => Ok(Some(parse(&output, true))),
        Ran::Missing => Ok(None),
        Ran::TimedOut => Err(too_slow()),
        Ran::Lost => Err(lost()),
    }
}

/// The program prints an array with one object on each line.
fn parse(output: &[u8], cut: bool) -> SqliteResult {
    let mut result = SqliteResult { columns: vec![], rows: vec![], truncated: cut, changes: 0 };
    for line in String::from_utf8_lossy(output).lines() {
        let line = line.trim_start_matches('[').trim_end_matches([',', ']']);
        let Ok(Row(row)) = serde_json::from_str(line) else { continue };
        if let [(name, count)] = row.as_slice()
            && name == CHANGES
        {
            result.changes = count.as_u64().unwrap_or_default();
            continue;
        }
        if result.rows.len() >= MAX_ROWS {
            result.truncated = true;
            break;
        }
        let (columns, values) = row.into_iter().unzip();
        result.columns = columns;
        result.rows.push(values);
    }
    bounded(result)
}

/// An object whose members keep their order.
struct Row(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Row;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Row(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_keep_the_order_of_their_columns() {
        let output = b"[{\"z\":1,\"a\":\"x]\"},\n{\"z\":null,\"a\":\"{}\"}]\n";
        let result = parse(output, false);
        assert_eq!(result.columns, ["z", "a"]);
        assert_eq!(result.rows, [vec![json!(1), json!("x]")], vec![json!(null), json!("{}")]]);
        assert!(!result.truncated);
        let cut = parse(b"[{\"a\":1},\n{\"a\":2},\n{\"a", true);
        assert_eq!((cut.rows.len(), cut.truncated), (2, true));
        let changed = parse(b"[{\"a\":1}]\n[{\"cabana_changes\":3}]\n", false);
        assert_eq!((changed.changes, changed.rows.len()), (3, 1));
        let many: String = (0..1500).map(|n| format!("{{\"n\":{n}}},\n")).collect();
        let many = parse(many.as_bytes(), false);
        assert_eq!((many.rows.len(), many.truncated), (1000, true));
    }
}
