//! Checks what is asked of a service.

use cabana_store::{Sandbox, Service, ServiceSettings};
use cabana_types::ServiceId;
use cabana_types::routing::GUEST_PORT;
use cabana_types::service::{Access, MAX_COMMAND, MAX_NAME, is_name, is_slug};
use cabana_types::wire::{NewService, ServiceUpdate};
use jiff::Timestamp;

use crate::api::new_sandbox::{check_environment, check_map};
use crate::auth::Caller;
use crate::error::{ApiError, short};

const DEFAULT_NAME: &str = "web";
const MAX_PATH: usize = 4096;

/// The row of a new service.
pub(super) fn row(caller: &Caller, sandbox: &Sandbox, new: NewService) -> Result<Service, ApiError> {
    let name = new.name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
    if !is_name(&name) {
        let text = format!(
            "name {:?} must have 1 to {MAX_NAME} characters of a-z, 0-9, - and _, and begin with a letter or digit",
            short(&name)
        );
        return Err(ApiError::invalid(text));
    }
    if new.command.trim().is_empty() || new.command.len() > MAX_COMMAND || new.command.contains('\0') {
        return Err(ApiError::invalid(format!("command must be a text of 1 to {MAX_COMMAND} bytes")));
    }
    match new.port {
        Some(0) => return Err(ApiError::invalid("port must be a number from 1 to 65535")),
        Some(GUEST_PORT) => {
            return Err(ApiError::invalid(format!("port {GUEST_PORT} is the guest's; choose another one")));
        }
        _ => {}
    }
    if new.cwd.as_ref().is_some_and(|cwd| cwd.is_empty() || cwd.len() > MAX_PATH || cwd.contains('\0')) {
        return Err(ApiError::invalid(format!("cwd must be a path of 1 to {MAX_PATH} bytes")));
    }
    check_map("env", &new.env)?;
    check_environment(&new.env)?;
    let access = new.access.unwrap_or_default();
    let settings = ServiceSettings {
        on_wake: new.on_wake.unwrap_or_default(),
        always_on: new.always_on.unwrap_or_default(),
        access,
        slug: new.slug.filter(|slug| !slug.is_empty()),
        host_mode: new.host_mode.unwrap_or_default(),
        bridge: new.bridge.unwrap_or(true),
    };
    check_slug(&settings)?;
    let now = Timestamp::now();
    Ok(Service {
        id: ServiceId::from_random(rand::random()),
        team: sandbox.team.clone(),
        project: sandbox.project.clone(),
        sandbox: sandbox.id.clone(),
        name,
        command: new.command,
        cwd: new.cwd,
        env: new.env,
        port: new.port,
        port_found: false,
        up: true,
        run: 1,
        last: None,
        last_lines: vec![],
        restarts: 0,
        settings,
        removed: false,
        since: now,
        created_at: now,
        created_by: Some(caller.actor.to_string()),
        version: 0,
    })
}

/// The settings of a service after a change.
pub(super) fn changed(row: &Service, change: ServiceUpdate) -> Result<ServiceSettings, ApiError> {
    let old = &row.settings;
    let access = change.access.unwrap_or(old.access);
    let settings = ServiceSettings {
        on_wake: change.on_wake.unwrap_or(old.on_wake),
        always_on: change.always_on.unwrap_or(old.always_on),
        access,
        slug: match change.slug {
            Some(slug) => Some(slug).filter(|slug| !slug.is_empty()),
            // Making something private is never refused.
            None => old.slug.clone().filter(|_| access == Access::Public),
        },
        host_mode: change.host_mode.unwrap_or(old.host_mode),
        bridge: change.bridge.unwrap_or(old.bridge),
    };
    check_slug(&settings)?;
    Ok(settings)
}

fn check_slug(settings: &ServiceSettings) -> Result<(), ApiError> {
    let Some(slug) = &settings.slug else { return Ok(()) };
    if !is_slug(slug) {
        let text = format!(
            "slug {:?} must have 3 to 40 characters of a-z, 0-9 and single -, begin with a letter, and not be a reserved name",
            short(slug)
        );
        return Err(ApiError::invalid(text));
    }
    if settings.access != Access::Public {
        return Err(ApiError::invalid("slug is for services with access \"public\""));
    }
    Ok(())
}
