//! Validates a request to create a sandbox and turns it into a [`CreateRequest`] for lifecycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use cabana_runtime::DiskSource;
use cabana_store::{Boot, Idempotency, Sandbox};
use cabana_types::egress::Preset;
use cabana_types::limits::{
    DEFAULT_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_V1_SECONDS, IDLE_SECONDS, MAX_IDEMPOTENCY_KEY_BYTES, MAX_KEPT,
    MAX_MAP_BYTES, MAX_MAP_ENTRIES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_VALUE_BYTES, within,
};
use cabana_types::policy::{OnFailure, OnTimeout};
use cabana_types::sandbox::State;
use cabana_types::wire::NewSandbox;
use cabana_types::{BuildId, ErrorCode, LifecyclePolicy, Resources, SandboxId, Secret, TeamId, TemplateId, Traffic};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::App;
use super::identity::read_iam;
use super::network_options::NetworkOptions;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::lifecycle::CreateRequest;

/// Which of E2B's two creation routes was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `/sandboxes`: an access token only if `secure` is set, and a short timeout by default.
    V1,
    /// `/v2/sandboxes`.
    V2,
}

impl App {
    /// Validates a request.
    pub(super) async fn create_request(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        request: NewSandbox,
        version: Version,
    ) -> Result<CreateRequest, ApiError> {
        let idempotency = idempotency(headers, &request, version)?;
        refuse_unsupported(&request)?;
        check_mcp(request.mcp.as_ref())?;
        let network = NetworkOptions::read(request.network.as_ref(), request.allow_internet_access, &self.egress)?;
        let secure = version == Version::V2 || request.secure == Some(true);
        if network.private && !secure {
            return Err(ApiError::invalid(
                "network.allowPublicTraffic: false needs secure: true, or the guest would stay open to everybody",
            ));
        }
        let default = match version {
            Version::V1 => DEFAULT_TIMEOUT_V1_SECONDS,
            Version::V2 => DEFAULT_TIMEOUT_SECONDS,
        };
        let timeout = match request.timeout {
            Some(seconds) => self.limits.timeout("timeout", seconds).map_err(ApiError::invalid)?,
            None => default,
        };
        let iam = read_iam(request.iam.as_ref())?;
        let life = life_policy(&request, timeout)?;
        let metadata = request.metadata.unwrap_or_default();
        let env_vars = request.env_vars.unwrap_or_default();
        check_map("metadata", &metadata)?;
        check_map("envVars", &env_vars)?;
        check_environment(&env_vars)?;

        let project = self.project_for(caller, request.project_id.as_deref()).await?;
        let origin = self.find_origin(&caller.team, &request.template_id).await?;
        let resources =
            self.limits.resources(origin.resources, request.cpu_count, request.memory_mb, request.disk_size_mb)?;
        // What a snapshot was made with cannot be taken back.
        let no_new_privileges =
            self.no_new_privileges || request.no_new_privileges == Some(true) || origin.boot.no_new_privileges;
        let isolation = self.isolation(request.isolation.as_deref().or(origin.isolation.as_deref()))?;
        let now = Timestamp::now();
        Ok(CreateRequest {
            disk: origin.disk,
            sandbox: Sandbox {
                id: SandboxId::from_random(rand::random()),
                team: caller.team.clone(),
                project,
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
                egress: match network.egress {
                    Some(egress) => Arc::new(egress),
                    None => self.egress.default_policy(origin.network),
                },
                iam,
                traffic: Traffic {
                    token: network.private.then(token),
                    mask_host: network.mask_host,
                    https_ports: network.https_ports,
                },
                created_at: now,
                started_at: None,
                end_at: now + std::time::Duration::from_secs(timeout),
                ended_at: None,
                idempotency,
                policy: life,
                boot: Boot { no_new_privileges, ..origin.boot },
                since: now,
                archives: 0,
                archive_digest: None,
                created_by: None,
                last_lines: vec![],
            },
            by: caller.actor.clone(),
            timeout,
        })
    }
}

/// What a new sandbox starts from.
struct Origin {
    template: TemplateId,
    build: BuildId,
    alias: Option<String>,
    resources: Resources,
    boot: Boot,
    isolation: Option<String>,
    network: Option<Preset>,
    disk: DiskSource,
}

impl App {
    /// The isolation backend of a name, or the default.
    pub(super) fn isolation(&self, name: Option<&str>) -> Result<String, ApiError> {
        let isolations = self.lifecycle.isolations();
        let name = name.unwrap_or_else(|| isolations.default_name());
        match isolations.get(name) {
            Ok(isolation) => Ok(isolation.name().to_owned()),
            Err(_) => Err(ApiError::invalid(format!(
                "isolation {:?} is not available; this server has: {}",
                short(name),
                isolations.names()
            ))),
        }
    }

    /// The egress preset of a template, if it still exists.
    pub(super) async fn template_network(&self, id: &TemplateId) -> Result<Option<Preset>, ApiError> {
        Ok(self.store.template(id).await?.and_then(|template| template.network))
    }

    /// The template or snapshot that a request names.
    async fn find_origin(&self, team: &TeamId, text: &str) -> Result<Origin, ApiError> {
        if let Some(snapshot) = self.find_snapshot(team, text).await? {
            return Ok(Origin {
                template: snapshot.template.clone(),
                build: snapshot.build,
                alias: snapshot.alias,
                resources: snapshot.resources,
                boot: snapshot.boot,
                isolation: Some(snapshot.isolation),
                network: self.template_network(&snapshot.template).await?,
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
            network: template.network,
            disk: DiskSource::New,
        })
    }
}

/// When the sandbox is paused, resumed, replaced or killed.
fn life_policy(request: &NewSandbox, timeout: u64) -> Result<LifecyclePolicy, ApiError> {
    let pauses = request.auto_pause == Some(true);
    let auto_resume = request.auto_resume.is_some_and(|a| a.enabled);
    let memory = request.auto_pause_memory.unwrap_or(true);
    if !memory && !pauses {
        return Err(ApiError::invalid("autoPauseMemory: false needs autoPause: true"));
    }
    if !memory && auto_resume {
        return Err(ApiError::invalid(
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
            return Err(ApiError::invalid(format!("onFailure must be keep or replace, not {:?}", short(other))));
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

fn check_kept(paths: &[String]) -> Result<(), ApiError> {
    if paths.len() > MAX_KEPT {
        return Err(ApiError::invalid(format!("keep has {} entries; at most {MAX_KEPT} are taken", paths.len())));
    }
    for path in paths {
        let plain = !path.is_empty()
            && path.len() <= MAX_PATH_BYTES
            && !path.contains('\0')
            && !path.split('/').any(|part| part == "..");
        if !plain {
            return Err(ApiError::invalid(format!("keep: {:?} is not a path inside the sandbox", short(path))));
        }
    }
    Ok(())
}

/// A token for a sandbox's guest or ports, with 256 random bits.
pub(super) fn token() -> Secret {
    let random: [u8; 32] = rand::random();
    Secret::new(random.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

fn idempotency(headers: &HeaderMap, request: &NewSandbox, version: Version) -> Result<Option<Idempotency>, ApiError> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let fits = |key: &&str| {
        (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len())
            && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let key = key.to_str().ok().filter(fits).ok_or_else(|| {
        ApiError::invalid(format!(
            "Idempotency-Key takes 1 to {MAX_IDEMPOTENCY_KEY_BYTES} characters of a-z, 0-9 and -"
        ))
    })?;
    // Maps are sorted and absent fields left out, so equal requests have equal text.
    let text = serde_json::to_vec(request).map_err(|e| ApiError::internal(&e))?;
    let mut hash = Sha256::new();
    hash.update([u8::from(version == Version::V2)]);
    hash.update(text);
    Ok(Some(Idempotency { key: key.into(), request: hash.finalize().into() }))
}

/// Rejects options that this server does not support yet, unless they are empty.
fn refuse_unsupported(request: &NewSandbox) -> Result<(), ApiError> {
    let options = [
        ("secrets", request.secrets.as_ref().is_some_and(is_something)),
        ("volumeMounts", request.volume_mounts.as_ref().is_some_and(|v| !v.is_empty())),
    ];
    match options.into_iter().find(|(_, is_set)| *is_set) {
        Some((field, _)) => Err(unsupported(field)),
        None => Ok(()),
    }
}

pub(super) fn unsupported(field: &str) -> ApiError {
    ApiError::new(ErrorCode::NotSupported, format!("{field} is not available on this server yet; leave it out"))
}

/// Whether a JSON value is set: `null`, `false`, empty texts, empty lists, and objects of such values are not.
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

/// Checks the options of MCP servers. Nothing else is done with them: the SDK starts the gateway in the sandbox itself.
fn check_mcp(mcp: Option<&Value>) -> Result<(), ApiError> {
    let servers = match mcp {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(ApiError::invalid("mcp must be an object: names of servers and their options")),
    };
    if servers.len() > MAX_MAP_ENTRIES {
        let text = format!("mcp names {} servers; at most {MAX_MAP_ENTRIES} are taken", servers.len());
        return Err(ApiError::invalid(text));
    }
    let bytes = serde_json::to_vec(servers).map_err(|e| ApiError::internal(&e))?.len();
    if bytes > MAX_VALUE_BYTES {
        return Err(ApiError::invalid(format!("mcp has {bytes} bytes; at most {MAX_VALUE_BYTES} are taken")));
    }
    match servers.iter().find(|(_, options)| !options.is_object()) {
        Some((name, _)) => Err(ApiError::invalid(format!("mcp: the options of {:?} must be an object", short(name)))),
        None => Ok(()),
    }
}

pub(super) fn check_map(field: &str, map: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if map.len() > MAX_MAP_ENTRIES {
        return Err(ApiError::invalid(format!(
            "{field} has {} entries; at most {MAX_MAP_ENTRIES} are taken",
            map.len()
        )));
    }
    let mut total = 0;
    for (name, value) in map {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let text = format!("{field}: a name has 1 to {MAX_NAME_BYTES} bytes, not {}", name.len());
            return Err(ApiError::invalid(text));
        }
        if value.len() > MAX_VALUE_BYTES {
            let text = format!(
                "{field}: the value of {:?} has {} bytes; at most {MAX_VALUE_BYTES} are taken",
                short(name),
                value.len()
            );
            return Err(ApiError::invalid(text));
        }
        total += name.len() + value.len();
    }
    if total > MAX_MAP_BYTES {
        return Err(ApiError::invalid(format!("{field} has {total} bytes; at most {MAX_MAP_BYTES} are taken")));
    }
    Ok(())
}

pub(super) fn check_environment(env: &BTreeMap<String, String>) -> Result<(), ApiError> {
    for (name, value) in env {
        if name.contains(['=', '\0']) {
            return Err(ApiError::invalid(format!("envVars: the name {:?} must not contain = or NUL", short(name))));
        }
        if value.contains('\0') {
            return Err(ApiError::invalid(format!("envVars: the value of {:?} must not contain NUL", short(name))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_options_are_ignored() {
        for value in [json!(null), json!(false), json!(""), json!([]), json!({}), json!({"tokens": {}})] {
            assert!(!is_something(&value), "{value}");
        }
        for value in [json!(true), json!(0), json!("a"), json!([null]), json!({"a": {"b": true}})] {
            assert!(is_something(&value), "{value}");
        }
    }
}
