//! From the body of a creation to a wish that lifecycle can act on: every check on what a client asks for.

use std::collections::BTreeMap;

use cabana_runtime::DiskSource;
use cabana_store::{Boot, Idempotency, Sandbox, Traffic};
use cabana_types::limits::{
    DEFAULT_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_V1_SECONDS, IDLE_SECONDS, MAX_IDEMPOTENCY_KEY_BYTES, MAX_KEPT,
    MAX_MAP_BYTES, MAX_MAP_ENTRIES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_VALUE_BYTES, within,
};
use cabana_types::policy::{OnFailure, OnTimeout};
use cabana_types::sandbox::State;
use cabana_types::wire::NewSandbox;
use cabana_types::{BuildId, ErrorCode, LifecyclePolicy, Resources, SandboxId, Secret, TeamId, TemplateId};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::App;
use super::policy::Policy;
use crate::auth::Caller;
use crate::error::{Refusal, short};
use crate::lifecycle::CreateRequest;

/// Which of E2B's two creation routes was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `/sandboxes`: a token only where `secure` is set, and a short life by default.
    V1,
    /// `/v2/sandboxes`.
    V2,
}

impl App {
    /// Checks a request and makes it a wish.
    pub(super) async fn wish(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        request: NewSandbox,
        version: Version,
    ) -> Result<CreateRequest, Refusal> {
        let idempotency = idempotency(headers, &request, version)?;
        refuse_unsupported(&request)?;
        let policy = Policy::read(request.network.as_ref())?;
        let secure = version == Version::V2 || request.secure == Some(true);
        if policy.private && !secure {
            return Err(Refusal::invalid(
                "network.allowPublicTraffic: false needs secure: true, or the guest would stay open to everybody",
            ));
        }
        let default = match version {
            Version::V1 => DEFAULT_TIMEOUT_V1_SECONDS,
            Version::V2 => DEFAULT_TIMEOUT_SECONDS,
        };
        let timeout = match request.timeout {
            Some(seconds) => self.bounds.timeout("timeout", seconds).map_err(Refusal::invalid)?,
            None => default,
        };
        let life = life_policy(&request, timeout)?;
        let metadata = request.metadata.unwrap_or_default();
        let env_vars = request.env_vars.unwrap_or_default();
        check_map("metadata", &metadata)?;
        check_map("envVars", &env_vars)?;
        check_environment(&env_vars)?;

        let origin = self.find_origin(&caller.team, &request.template_id).await?;
        let resources =
            self.bounds.resources(origin.resources, request.cpu_count, request.memory_mb, request.disk_size_mb)?;
        let isolation = self.isolation(request.isolation.as_deref().or(origin.isolation.as_deref()))?;
        let now = Timestamp::now();
        Ok(CreateRequest {
            disk: origin.disk,
            sandbox: Sandbox {
                id: SandboxId::from_random(rand::random()),
                team: caller.team.clone(),
                template: origin.template,
                build: origin.build,
                alias: origin.alias,
                state: State::Creating,
                isolation,
                resources,
                metadata,
                env_vars,
                access_token: secure.then(token),
                secure,
                internet: request.allow_internet_access.unwrap_or(true) && !policy.denied,
                traffic: Traffic {
                    token: policy.private.then(token),
                    mask_host: policy.mask_host,
                    https_ports: policy.https_ports,
                },
                created_at: now,
                started_at: None,
                end_at: now + std::time::Duration::from_secs(timeout),
                ended_at: None,
                idempotency,
                policy: life,
                boot: origin.boot,
                since: now,
                archives: 0,
                archive_digest: None,
            },
            by: caller.key.clone(),
            timeout,
        })
    }
}

/// What a sandbox is made of.
struct Origin {
    template: TemplateId,
    build: BuildId,
    alias: Option<String>,
    resources: Resources,
    boot: Boot,
    isolation: Option<String>,
    disk: DiskSource,
}

impl App {
    /// The isolation backend of a name, or the default; one that this server does not have is refused.
    pub(super) fn isolation(&self, name: Option<&str>) -> Result<String, Refusal> {
        let isolations = self.lifecycle.isolations();
        let name = name.unwrap_or(isolations.default_name());
        match isolations.get(name) {
            Ok(isolation) => Ok(isolation.name().to_owned()),
            Err(_) => Err(Refusal::invalid(format!(
                "isolation {:?} is not available; this server has: {}",
                short(name),
                isolations.names()
            ))),
        }
    }

    /// The template or snapshot that a creation names.
    async fn find_origin(&self, team: &TeamId, text: &str) -> Result<Origin, Refusal> {
        if let Some(snapshot) = self.find_snapshot(team, text).await? {
            return Ok(Origin {
                template: snapshot.template,
                build: snapshot.build,
                alias: snapshot.alias,
                resources: snapshot.resources,
                boot: snapshot.boot,
                isolation: Some(snapshot.isolation),
                disk: DiskSource::Snapshot(snapshot.id),
            });
        }
        let template = self.find_template(team, text).await?;
        let build = self.finished_build(&template, text).await?;
        Ok(Origin {
            template: template.id,
            build: build.id,
            alias: template.aliases.into_iter().next(),
            resources: build.resources,
            boot: build.boot,
            isolation: template.isolation,
            disk: DiskSource::New,
        })
    }
}

/// What a creation wants of the sandbox's life.
fn life_policy(request: &NewSandbox, timeout: u64) -> Result<LifecyclePolicy, Refusal> {
    let pauses = request.auto_pause == Some(true);
    let auto_resume = request.auto_resume.is_some_and(|a| a.enabled);
    let memory = request.auto_pause_memory.unwrap_or(true);
    if !memory && !pauses {
        return Err(Refusal::invalid("autoPauseMemory: false needs autoPause: true"));
    }
    if !memory && auto_resume {
        return Err(Refusal::invalid(
            "autoResume does not go with autoPauseMemory: false: traffic would reboot the sandbox; connect to it instead",
        ));
    }
    let idle = match request.idle_timeout {
        Some(seconds) => u64::try_from(within("idleTimeout", seconds, IDLE_SECONDS)?).ok(),
        None => None,
    };
    let on_failure = match request.on_failure.as_deref() {
        None | Some("keep") => OnFailure::Keep,
        Some("replace") => OnFailure::Replace,
        Some(other) => {
            return Err(Refusal::invalid(format!("onFailure must be keep or replace, not {:?}", short(other))));
        }
    };
    let keep = request.keep.clone().unwrap_or_default();
    check_kept(&keep)?;
    let on_timeout = match (pauses, memory) {
        (false, _) => OnTimeout::Kill,
        (true, true) => OnTimeout::Pause,
        (true, false) => OnTimeout::PauseDisk,
    };
    Ok(LifecyclePolicy { timeout, on_timeout, auto_resume, idle, on_failure, keep })
}

fn check_kept(paths: &[String]) -> Result<(), Refusal> {
    if paths.len() > MAX_KEPT {
        return Err(Refusal::invalid(format!("keep has {} entries; at most {MAX_KEPT} are taken", paths.len())));
    }
    for path in paths {
        let plain = !path.is_empty()
            && path.len() <= MAX_PATH_BYTES
            && !path.contains('\0')
            && !path.split('/').any(|part| part == "..");
        if !plain {
            return Err(Refusal::invalid(format!("keep: {:?} is not a path inside the sandbox", short(path))));
        }
    }
    Ok(())
}

/// A token for a sandbox's guest or ports: 256 random bits.
pub(super) fn token() -> Secret {
    let random: [u8; 32] = rand::random();
    Secret::new(random.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

fn idempotency(headers: &HeaderMap, request: &NewSandbox, version: Version) -> Result<Option<Idempotency>, Refusal> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let fits = |key: &&str| {
        (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len())
            && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let key = key.to_str().ok().filter(fits).ok_or_else(|| {
        Refusal::invalid(format!("Idempotency-Key takes 1 to {MAX_IDEMPOTENCY_KEY_BYTES} characters of a-z, 0-9 and -"))
    })?;
    // Maps are sorted and absent fields left out: the same request has the same text.
    let text = serde_json::to_vec(request).map_err(|e| Refusal::internal(&e))?;
    let mut hash = Sha256::new();
    hash.update([u8::from(version == Version::V2)]);
    hash.update(text);
    Ok(Some(Idempotency { key: key.into(), request: hash.finalize().into() }))
}

/// Options that ask for something this server cannot do yet. Their empty forms ask for nothing.
fn refuse_unsupported(request: &NewSandbox) -> Result<(), Refusal> {
    let asked = [
        ("mcp", request.mcp.as_ref().is_some_and(names_anything)),
        ("iam", request.iam.as_ref().is_some_and(is_something)),
        ("secrets", request.secrets.as_ref().is_some_and(is_something)),
        ("volumeMounts", request.volume_mounts.as_ref().is_some_and(|v| !v.is_empty())),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((field, _)) => Err(unsupported(field)),
        None => Ok(()),
    }
}

pub(super) fn unsupported(field: &str) -> Refusal {
    Refusal::new(ErrorCode::NotSupported, format!("{field} is not available on this server yet; leave it out"))
}

/// Whether a JSON value says anything: `null`, `false`, empty texts, lists and objects of such do not.
pub(super) fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => map.values().any(is_something),
    }
}

/// Whether a JSON value is more than nothing at all. The name of an MCP server is a wish, whatever its options: many have none.
fn names_anything(value: &Value) -> bool {
    value.as_object().map_or_else(|| is_something(value), |map| !map.is_empty())
}

pub(super) fn check_map(field: &str, map: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if map.len() > MAX_MAP_ENTRIES {
        return Err(Refusal::invalid(format!(
            "{field} has {} entries; at most {MAX_MAP_ENTRIES} are taken",
            map.len()
        )));
    }
    let mut total = 0;
    for (name, value) in map {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let text = format!("{field}: a name has 1 to {MAX_NAME_BYTES} bytes, not {}", name.len());
            return Err(Refusal::invalid(text));
        }
        if value.len() > MAX_VALUE_BYTES {
            let text = format!(
                "{field}: the value of {:?} has {} bytes; at most {MAX_VALUE_BYTES} are taken",
                short(name),
                value.len()
            );
            return Err(Refusal::invalid(text));
        }
        total += name.len() + value.len();
    }
    if total > MAX_MAP_BYTES {
        return Err(Refusal::invalid(format!("{field} has {total} bytes; at most {MAX_MAP_BYTES} are taken")));
    }
    Ok(())
}

fn check_environment(env: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (name, value) in env {
        if name.contains(['=', '\0']) {
            return Err(Refusal::invalid(format!("envVars: the name {:?} must not contain = or NUL", short(name))));
        }
        if value.contains('\0') {
            return Err(Refusal::invalid(format!("envVars: the value of {:?} must not contain NUL", short(name))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_options_ask_for_nothing() {
        for value in [json!(null), json!(false), json!(""), json!([]), json!({}), json!({"tokens": {}})] {
            assert!(!is_something(&value), "{value}");
        }
        for value in [json!(true), json!(0), json!("a"), json!([null]), json!({"a": {"b": true}})] {
            assert!(is_something(&value), "{value}");
        }
        assert!(names_anything(&json!({"duckduckgo": {}})) && !names_anything(&json!({})));
    }
}
