//! Services: what is wanted of them, and what is known of their last start.

mod row;

use std::collections::BTreeMap;

use cabana_types::service::{Access, HostMode, OnWake};
use cabana_types::{ProjectId, SandboxId, ServiceId, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use self::row::{decode, read, write};
use crate::column::{self, micros};
use crate::{Error, Store};

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub id: ServiceId,
    pub team: TeamId,
    /// That of the sandbox.
    pub project: ProjectId,
    pub sandbox: SandboxId,
    pub name: String,
    /// A script for a login shell.
    pub command: String,
    pub cwd: Option<String>,
    /// Deleted when the sandbox has ended.
    pub env: BTreeMap<String, String>,
    /// The port that it was asked to use, or was found to.
    pub port: Option<u16>,
    /// Whether the port was found.
    pub port_found: bool,
    /// Whether it is to run.
    pub up: bool,
    /// Which start of it is wanted.
    pub run: u32,
    /// What is known of its last start.
    pub last: Option<LastRun>,
    /// What it printed last before it ended.
    pub last_lines: Vec<String>,
    pub restarts: u32,
    pub settings: ServiceSettings,
    /// Whether it is to be ended and forgotten.
    pub removed: bool,
    /// When it was last started, stopped or ended.
    pub since: Timestamp,
    pub created_at: Timestamp,
    pub created_by: Option<String>,
    /// Grows with each change: of two copies of the row, the one with the larger version is newer.
    pub version: u64,
}

/// The last start of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    pub run: u32,
    /// The start of the guest in which it was.
    pub boot: String,
    pub started_at: Timestamp,
    pub end: Option<RunEnd>,
}

/// How the command of a service ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub at: Timestamp,
    /// `None` if a signal ended it, or nobody knows.
    pub exit_code: Option<i32>,
    /// Why, if nobody asked for it.
    pub reason: Option<String>,
}

/// What can be changed while a service runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    pub on_wake: OnWake,
    pub always_on: bool,
    pub access: Access,
    pub slug: Option<String>,
    pub host_mode: HostMode,
    pub bridge: bool,
}

/// Result of [`Store::put_service`] and [`Store::set_service`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServicePut {
    /// It is as wanted.
    Done(Box<Service>),
    /// The sandbox has too many.
    TooMany,
    /// The service of this name has the port.
    PortTaken(String),
    /// Another service has the slug.
    SlugTaken,
    /// There is none.
    Absent,
}

impl Service {
    /// Whether the wanted start was not made yet.
    pub fn is_pending(&self) -> bool {
        self.last.as_ref().is_none_or(|last| last.run != self.run)
    }
}

impl Store {
    /// Inserts a service, or replaces the sandbox's service of the same name, which keeps its id, links and access (unless
    /// `keep_access` is false). It is to be started. A sandbox has at most `most`.
    pub async fn put_service(&self, service: Service, keep_access: bool, most: u32) -> Result<ServicePut, Error> {
        self.write(move |connection| Box::pin(async move { put(connection, service, keep_access, most).await })).await
    }

    /// Changes whether a service is to run. With `again`, it is started anew even if it runs. `None` if there is none.
    pub async fn want_service(
        &self,
        id: ServiceId,
        up: bool,
        again: bool,
        at: Timestamp,
    ) -> Result<Option<Service>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let Some(old) = read(connection, &id).await?.filter(|service| !service.removed) else {
                    return Ok(None);
                };
                let ended = old.last.as_ref().is_some_and(|last| last.end.is_some());
                let anew = up && (again || !old.up || ended);
                let restarts = old.restarts.saturating_add(u32::from(anew && old.last.is_some()));
                sqlx::query("update services set up = $2, run = run + $3, restarts = $4, since = $5 where id = $1")
                    .bind(id.as_str())
                    .bind(up)
                    .bind(i64::from(anew))
                    .bind(restarts)
                    .bind(micros(if anew || up != old.up { at } else { old.since }))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("change a service", e))?;
                read(connection, &id).await
            })
        })
        .await
    }

    /// Changes the settings of a service.
    pub async fn set_service(&self, id: ServiceId, settings: ServiceSettings) -> Result<ServicePut, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                if let Some(slug) = &settings.slug
                    && slug_taken(connection, slug, &id).await?
                {
                    return Ok(ServicePut::SlugTaken);
                }
                sqlx::query(
                    "update services set on_wake = $2, always_on = $3, access = $4, slug = $5, host_mode = $6, bridge = $7
                     where id = $1 and removed = 0",
                )
                .bind(id.as_str())
                .bind(settings.on_wake.as_str())
                .bind(settings.always_on)
                .bind(settings.access.as_str())
                .bind(&settings.slug)
                .bind(settings.host_mode.as_str())
                .bind(settings.bridge)
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("change a service", e))?;
                let found = read(connection, &id).await?.filter(|service| !service.removed);
                Ok(found.map_or(ServicePut::Absent, |service| ServicePut::Done(Box::new(service))))
            })
        })
        .await
    }

    /// A start of a service was made in this start of the guest.
    pub async fn service_started(
        &self,
        id: ServiceId,
        run: u32,
        boot: String,
        at: Timestamp,
    ) -> Result<Option<Service>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "update services set started_run = $2, boot = $3, started_at = $4, ended_at = null, exit_code = null,
                        reason = null, last_lines = '[]', since = $4,
                        port = iif(port_found, null, port), port_found = 0
                     where id = $1",
                )
                .bind(id.as_str())
                .bind(run)
                .bind(boot)
                .bind(micros(at))
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("write that a service was started", e))?;
                read(connection, &id).await
            })
        })
        .await
    }

    /// A start of a service has ended; with what it printed last. Nothing changes if another one was made since.
    pub async fn service_ended(
        &self,
        id: ServiceId,
        run: u32,
        end: RunEnd,
        lines: Vec<String>,
    ) -> Result<Option<Service>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "update services set ended_at = $3, exit_code = $4, reason = $5, last_lines = $6, since = $3
                     where id = $1 and started_run = $2 and ended_at is null",
                )
                .bind(id.as_str())
                .bind(run)
                .bind(micros(end.at))
                .bind(end.exit_code)
                .bind(end.reason)
                .bind(column::json("last_lines", &lines)?)
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("write that a service has ended", e))?;
                read(connection, &id).await
            })
        })
        .await
    }

    /// A service that was not asked to use a port was found to use this one.
    pub async fn service_port_found(&self, id: ServiceId, run: u32, port: u16) -> Result<Option<Service>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "update services set port = $3, port_found = 1
                     where id = $1 and started_run = $2 and (port is null or port_found)",
                )
                .bind(id.as_str())
                .bind(run)
                .bind(port)
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("write the port of a service", e))?;
                read(connection, &id).await
            })
        })
        .await
    }

    /// Hides a service, which is to be ended and then deleted. Its links are invalid from now on.
    pub async fn remove_service(&self, id: ServiceId) -> Result<Option<Service>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update services set removed = 1, up = 0, slug = null, env = '{}' where id = $1")
                    .bind(id.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("remove a service", e))?;
                sqlx::query("delete from grants where service = $1")
                    .bind(id.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("delete the links of a service", e))?;
                read(connection, &id).await
            })
        })
        .await
    }

    /// Deletes a service that was removed.
    pub async fn delete_service(&self, id: ServiceId) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("delete from services where id = $1 and removed = 1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a service", e))?;
                Ok(())
            })
        })
        .await
    }

    /// A service, also one whose sandbox has ended.
    pub async fn service(&self, id: &ServiceId) -> Result<Option<Service>, Error> {
        let row =
            sqlx::query("select * from services where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a service", e))?.as_ref().map(decode).transpose()
    }

    /// The services of a sandbox, oldest first.
    pub async fn services_of(&self, sandbox: &SandboxId) -> Result<Vec<Service>, Error> {
        let rows = sqlx::query("select * from services where sandbox = $1 and removed = 0 order by created_at, id")
            .bind(sandbox.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list services", e))?.iter().map(decode).collect()
    }

    /// The services of all sandboxes that have not ended.
    pub async fn services(&self) -> Result<Vec<Service>, Error> {
        let rows = sqlx::query(
            "select services.* from services join sandboxes on sandboxes.id = services.sandbox
             where sandboxes.state not in ('ending', 'ended') order by services.created_at, services.id",
        )
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("list all services", e))?.iter().map(decode).collect()
    }
}

/// Whether a service keeps a sandbox from being ended at its timeout.
pub(crate) async fn keeps_awake(connection: &mut SqliteConnection, sandbox: &SandboxId) -> Result<bool, Error> {
    sqlx::query_scalar("select exists (select 1 from services where sandbox = $1 and up and always_on)")
        .bind(sandbox.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("look for services that are always on", e))
}

/// Deletes what services of a sandbox that has ended may hold of secrets, and frees their slugs.
pub(crate) async fn forget_secrets(connection: &mut SqliteConnection, sandbox: &SandboxId) -> Result<(), Error> {
    sqlx::query("update services set env = '{}', slug = null where sandbox = $1")
        .bind(sandbox.as_str())
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("delete the variables of services", e))?;
    sqlx::query("delete from grants where service in (select id from services where sandbox = $1)")
        .bind(sandbox.as_str())
        .execute(connection)
        .await
        .map_err(|e| Error::query("delete the links of services", e))?;
    Ok(())
}

async fn put(
    connection: &mut SqliteConnection,
    mut service: Service,
    keep_access: bool,
    most: u32,
) -> Result<ServicePut, Error> {
    let all = sqlx::query("select * from services where sandbox = $1 and removed = 0")
        .bind(service.sandbox.as_str())
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| Error::query("list services", e))?;
    let all: Vec<Service> = all.iter().map(decode).collect::<Result<_, _>>()?;
    let (same, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|other| other.name == service.name);
    let old = same.into_iter().next();
    if old.is_none() && others.len() >= most as usize {
        return Ok(ServicePut::TooMany);
    }
    let has_port =
        |other: &&Service| service.port.is_some() && other.port == service.port && (other.up || !other.port_found);
    if let Some(other) = others.iter().find(has_port) {
        return Ok(ServicePut::PortTaken(other.name.clone()));
    }
    if let Some(old) = &old {
        service.id = old.id.clone();
        service.run = old.run.saturating_add(1);
        service.created_at = old.created_at;
        if keep_access {
            service.settings.access = old.settings.access;
            service.settings.slug = service.settings.slug.or_else(|| old.settings.slug.clone());
        }
    }
    if let Some(slug) = &service.settings.slug
        && slug_taken(connection, slug, &service.id).await?
    {
        return Ok(ServicePut::SlugTaken);
    }
    write(connection, &service).await?;
    let stored = read(connection, &service.id).await?;
    Ok(stored.map_or(ServicePut::Absent, |service| ServicePut::Done(Box::new(service))))
}

async fn slug_taken(connection: &mut SqliteConnection, slug: &str, id: &ServiceId) -> Result<bool, Error> {
    sqlx::query_scalar("select exists (select 1 from services where slug = $1 and id != $2)")
        .bind(slug)
        .bind(id.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("look for a slug", e))
}
