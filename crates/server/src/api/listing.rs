//! Listing sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_store::{Group, Order, Position, SandboxQuery};
use cabana_types::ErrorCode;
use cabana_types::limits::{MAX_MAP_ENTRIES, PAGE};
use cabana_types::wire::ListedSandbox;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use url::form_urlencoded;

use super::App;
use super::logs::MAX_SEARCH;
use super::query::Query;
use super::sandboxes::{listed, name_creators};
use crate::auth::Caller;
use crate::error::{ApiError, short};

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");
/// Limit of the older listing, which has no pages.
const MAX_V1: u32 = 1000;

/// List sandboxes.
#[utoipa::path(get, path = "/v2/sandboxes", tag = "sandboxes",
    params(
        ("metadata" = Option<String>, Query,
            description = "Labels that all must match: a query string whose names and values are encoded once more"),
        ("state" = Option<String>, Query,
            description = "`running`, `paused`, `failed` or several, separated by commas; the first two by default. `ended` alone: \
                those that have ended, by the time of their end"),
        ("q" = Option<String>, Query, description = "Only those with this text in the id, the template's alias or the value of a label"),
        ("order" = Option<String>, Query, description = "`asc` or `desc` (default) by start time"),
        ("startedAfter" = Option<String>, Query, description = "Only those started at or after this time"),
        ("template" = Option<String>, Query, description = "Only those from this template: id or alias"),
        ("limit" = Option<u32>, Query, description = "Rows of a page, 1 to 100 (default)"),
        ("nextToken" = Option<String>, Query, description = "`x-next-token` of the page before"),
    ),
    responses((status = 200, description = "A page", body = Vec<ListedSandbox>, headers(
        ("x-next-token" = String, description = "Where the next page goes on; absent on the last"),
        ("x-total-running" = u64, description = "All running sandboxes of the team"),
    ))))]
pub(super) async fn list_sandboxes(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<(HeaderMap, Json<Vec<ListedSandbox>>), ApiError> {
    let (groups, ended) = groups(&query)?;
    let order = match query.text("order") {
        None | Some("desc") => Order::Descending,
        Some("asc") => Order::Ascending,
        Some(other) => return Err(ApiError::invalid(format!("order must be asc or desc, not {:?}", short(other)))),
    };
    let limit = query.limit(*PAGE.end(), *PAGE.end())?;
    let after = query.text("nextToken").map(position).transpose()?;
    let started_after = query.time("startedAfter")?;
    let metadata = metadata(query.text("metadata"))?;
    let text = query.text("q").map(str::to_owned);
    if text.as_ref().is_some_and(|text| text.chars().count() > MAX_SEARCH) {
        return Err(ApiError::invalid(format!("q has at most {MAX_SEARCH} characters")));
    }
    let projects = app.projects_in(&caller, query.text("project"))?;
    let mut headers = HeaderMap::new();
    if groups.contains(&Group::Running) {
        headers.insert(TOTAL_RUNNING, app.store.running_count(&caller.team, projects.as_deref()).await?.into());
    }
    let template = match query.text("template") {
        None => None,
        Some(name) => match app.find_template(&caller.reach, name).await {
            Ok(template) => Some(template.id),
            // A template that does not exist has no sandboxes.
            Err(error) if error.code() == ErrorCode::TemplateNotFound => return Ok((headers, Json(vec![]))),
            Err(error) => return Err(error),
        },
    };
    // One more than requested shows whether there is another page.
    let limit_and_one = limit + 1;
    let team = caller.team;
    let wanted = SandboxQuery {
        team: team.clone(),
        projects,
        groups,
        metadata,
        text,
        template,
        started_after,
        order,
        after,
        limit: limit_and_one,
    };
    let mut rows = match ended {
        false => app.store.sandboxes(&wanted).await?,
        true => app.store.ended_sandboxes(&wanted).await?,
    };
    if rows.len() > limit as usize {
        rows.truncate(limit as usize);
        if let Some(token) = rows.last().and_then(|row| token(row, ended)) {
            headers.insert(NEXT_TOKEN, token);
        }
    }
    let mut shown: Vec<_> = rows.into_iter().map(listed).collect();
    name_creators(&app.store, &mut shown).await?;
    Ok((headers, Json(shown)))
}

/// List running sandboxes, as older clients do.
#[utoipa::path(get, path = "/sandboxes", tag = "sandboxes",
    params(("metadata" = Option<String>, Query, description = "Labels that all must match, as in the newer listing")),
    responses((status = 200, description = "Running sandboxes, newest first, at most 1000", body = Vec<ListedSandbox>)))]
pub(super) async fn list_sandboxes_v1(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<Vec<ListedSandbox>>, ApiError> {
    let wanted = SandboxQuery {
        team: caller.team.clone(),
        projects: caller.reach.filter(),
        groups: vec![Group::Running],
        metadata: metadata(query.text("metadata"))?,
        text: None,
        template: None,
        started_after: None,
        order: Order::Descending,
        after: None,
        limit: MAX_V1,
    };
    let mut shown: Vec<_> = app.store.sandboxes(&wanted).await?.into_iter().map(listed).collect();
    name_creators(&app.store, &mut shown).await?;
    Ok(Json(shown))
}

/// The groups, or that those are wanted that have ended: they have another order.
fn groups(query: &Query) -> Result<(Vec<Group>, bool), ApiError> {
    let states = query.list("state");
    if states.is_empty() {
        return Ok((vec![Group::Running, Group::Paused], false));
    }
    if states.contains(&"ended") {
        return match states.iter().all(|state| *state == "ended") {
            true => Ok((vec![], true)),
            false => {
                Err(ApiError::invalid("state=ended does not go with other states; ask for them one after the other"))
            }
        };
    }
    let group = |state: &&str| match *state {
        "running" => Ok(Group::Running),
        "paused" => Ok(Group::Paused),
        "failed" => Ok(Group::Failed),
        other => {
            Err(ApiError::invalid(format!("state must be running, paused, failed or ended, not {:?}", short(other))))
        }
    };
    Ok((states.iter().map(group).collect::<Result<_, _>>()?, false))
}

/// Labels in a query string whose names and values are encoded once more.
fn metadata(text: Option<&str>) -> Result<BTreeMap<String, String>, ApiError> {
    let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
    let labels: BTreeMap<_, _> =
        pairs.take(MAX_MAP_ENTRIES + 1).map(|(name, value)| (percent_decode(&name), percent_decode(&value))).collect();
    if labels.len() > MAX_MAP_ENTRIES {
        return Err(ApiError::invalid(format!("metadata has more than {MAX_MAP_ENTRIES} entries")));
    }
    Ok(labels)
}

/// Decodes `%XX`; everything else is unchanged, including `+`.
fn percent_decode(text: &str) -> String {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(high * 16 + low);
                at += 3;
            }
            (byte, ..) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn token(row: &cabana_store::Sandbox, ended: bool) -> Option<HeaderValue> {
    let at = if ended { row.ended_at? } else { row.started_at? };
    let text = format!("{}:{}", at.as_microsecond(), row.id);
    HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(text)).ok()
}

fn position(token: &str) -> Result<Position, ApiError> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let (time, id) = text.split_once(':')?;
        Some(Position { at: Timestamp::from_microsecond(time.parse().ok()?).ok()?, id: id.parse().ok()? })
    };
    read().ok_or_else(|| ApiError::invalid("nextToken is not one of this server's; begin again without it"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_are_encoded_twice() {
        // What the SDKs send for {"a b": "c&d"}, after the parameter itself was decoded.
        let labels = metadata(Some("a%2520b=c%2526d")).map_err(|r| r.code()).expect("labels");
        assert_eq!(labels, BTreeMap::from([("a b".into(), "c&d".into())]));
    }

    proptest! {
        #[test]
        fn labels_survive_the_sdks_encoding(name in "\\PC{1,20}", value in "\\PC{0,20}") {
            let quote = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
            let sent: String = form_urlencoded::Serializer::new(String::new())
                .append_pair(&quote(&name), &quote(&value)).finish();
            let labels = metadata(Some(&sent)).map_err(|r| r.code()).expect("labels");
            prop_assert_eq!(labels, BTreeMap::from([(name, value)]));
        }

        #[test]
        fn tokens_from_outside_are_read_or_refused(text in "\\PC{0,60}") {
            let _ = position(&text);
            let _ = position(&URL_SAFE_NO_PAD.encode(&text));
            let _ = percent_decode(&text);
        }
    }
}
