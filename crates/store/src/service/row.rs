//! Rows of services.

use cabana_types::ServiceId;
use cabana_types::service::{Access, HostMode, OnWake};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::{LastRun, RunEnd, Service, ServiceSettings};
use crate::Error;
use crate::column::{self, Columns, micros};

/// Inserts a service, or replaces what is wanted of it; what is known of its last start stays.
pub(super) async fn write(connection: &mut SqliteConnection, service: &Service) -> Result<(), Error> {
    let settings = &service.settings;
    sqlx::query(
        "insert into services (id, team, sandbox, name, command, cwd, env, port, up, run, on_wake, always_on, access, slug,
            host_mode, bridge, since, created_at, created_by, project)
         values ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
         on conflict (id) do update set command = $5, cwd = $6, env = $7, port = $8, port_found = 0, up = 1, run = $9,
            restarts = 0, on_wake = $10, always_on = $11, access = $12, slug = $13, host_mode = $14, bridge = $15, since = $16,
            created_by = $18",
    )
    .bind(service.id.as_str())
    .bind(service.team.as_str())
    .bind(service.sandbox.as_str())
    .bind(&service.name)
    .bind(&service.command)
    .bind(&service.cwd)
    .bind(column::json("env", &service.env)?)
    .bind(service.port)
    .bind(service.run)
    .bind(settings.on_wake.as_str())
    .bind(settings.always_on)
    .bind(settings.access.as_str())
    .bind(&settings.slug)
    .bind(settings.host_mode.as_str())
    .bind(settings.bridge)
    .bind(micros(service.since))
    .bind(micros(service.created_at))
    .bind(&service.created_by)
    .bind(service.project.as_str())
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a service", e))?;
    Ok(())
}

pub(super) async fn read(connection: &mut SqliteConnection, id: &ServiceId) -> Result<Option<Service>, Error> {
    let row = sqlx::query("select * from services where id = $1").bind(id.as_str()).fetch_optional(connection).await;
    row.map_err(|e| Error::query("read a service", e))?.as_ref().map(decode).transpose()
}

pub(super) fn decode(row: &SqliteRow) -> Result<Service, Error> {
    let row = Columns(row);
    let boot = row.text_or_none("boot")?;
    let last = match boot {
        None => None,
        Some(boot) => Some(LastRun {
            run: row.number("started_run")?,
            boot,
            started_at: row.time("started_at")?,
            end: match row.time_or_none("ended_at")? {
                None => None,
                Some(at) => {
                    let (exit_code, reason) = (row.number_or_none("exit_code")?, row.text_or_none("reason")?);
                    Some(RunEnd { at, exit_code, reason })
                }
            },
        }),
    };
    Ok(Service {
        id: row.id("id")?,
        team: row.id("team")?,
        project: row.id("project")?,
        sandbox: row.id("sandbox")?,
        name: row.text("name")?,
        command: row.text("command")?,
        cwd: row.text_or_none("cwd")?,
        env: row.json("env")?,
        port: row.number_or_none("port")?,
        port_found: row.flag("port_found")?,
        up: row.flag("up")?,
        run: row.number("run")?,
        last,
        last_lines: row.json("last_lines")?,
        restarts: row.number("restarts")?,
        settings: ServiceSettings {
            on_wake: row.word("on_wake", OnWake::parse)?,
            always_on: row.flag("always_on")?,
            access: row.word("access", Access::parse)?,
            slug: row.text_or_none("slug")?,
            host_mode: row.word("host_mode", HostMode::parse)?,
            bridge: row.flag("bridge")?,
        },
        removed: row.flag("removed")?,
        since: row.time("since")?,
        created_at: row.time("created_at")?,
        created_by: row.text_or_none("created_by")?,
        version: row.number("version")?,
    })
}
