//! What teams use and may use. What a request would add is counted in the transaction that adds it, so that racing requests never pass
//! a limit.

use cabana_types::quota::{Amounts, Exceeded, Limits, QuotaKind, check};
use cabana_types::wire::{QuotaExceeded, QuotaUser};
use cabana_types::{ProjectId, Resources, TeamId};
use jiff::{SignedDuration, Timestamp};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, integer};
use crate::{Error, Sandbox, Store};

/// What `quotas.owner` is.
const TEAM: &str = "team";
const PROJECT: &str = "project";

/// States in which a sandbox uses CPU and memory, as `State::uses_capacity` says.
const RUNNING: &str = "state in ('creating', 'running', 'pausing', 'resuming')";

/// Limits of the plan of the team $1, and its own.
const LIMITS: &str = "(select limits from plans where id = (select plan from teams where id = $1)) as plan_limits,
    (select json_group_object(kind, most) from quotas where scope = 'team' and owner = $1) as own_limits";

/// What a team uses and may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUse {
    /// Id of its plan.
    pub plan: String,
    /// Limits of the plan.
    pub plan_limits: Limits,
    /// Limits of its own, which come first.
    pub own_limits: Limits,
    /// What it uses.
    pub used: Amounts,
}

impl Store {
    /// What a team uses and may use.
    pub async fn quota_use(&self, team: &TeamId) -> Result<QuotaUse, Error> {
        let sql = format!(
            "select {LIMITS}, {SANDBOXES}, (select plan from teams where id = $1) as plan,
                (select count(*) from snapshots where team = $1 and state in ('making', 'ready')) as snapshots,
                (select count(*) from templates where team = $1) as templates,
                (select count(*) from turns where state in ('queued', 'running', 'waiting') and state = 'running'
                    and (select team from chats where chats.id = turns.chat) = $1) as turns
             from sandboxes where team = $1 and state <> 'ended'"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_one(self.reader()).await;
        let row = row.map_err(|e| Error::query("read what a team uses", e))?;
        let columns = Columns(&row);
        let plan = columns.text_or_none("plan")?.ok_or_else(|| Error::NoTeam(team.clone()))?;
        let used = sandboxes_used(&row)?
            .with(QuotaKind::Snapshots, columns.number("snapshots")?)
            .with(QuotaKind::Templates, columns.number("templates")?)
            .with(QuotaKind::Turns, columns.number("turns")?);
        Ok(QuotaUse { plan, plan_limits: columns.json("plan_limits")?, own_limits: columns.json("own_limits")?, used })
    }

    /// The limits that a team's plan and its own quotas give it.
    pub async fn limits(&self, team: &TeamId) -> Result<Limits, Error> {
        let sql = format!("select {LIMITS}");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_one(self.reader()).await;
        limits(&row.map_err(|e| Error::query("read a team's limits", e))?)
    }

    /// Sets or removes limits of a team; those that are not named stay.
    pub async fn set_quotas(&self, team: TeamId, changes: Vec<(QuotaKind, Option<u64>)>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                find_team(connection, &team).await?;
                set(connection, TEAM, team.as_str(), changes).await
            })
        })
        .await
    }

    /// Sets or removes limits of a project; those that are not named stay.
    pub async fn set_project_quotas(
        &self,
        project: ProjectId,
        changes: Vec<(QuotaKind, Option<u64>)>,
    ) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                project_limits(connection, &project).await?;
                set(connection, PROJECT, project.as_str(), changes).await
            })
        })
        .await
    }

    /// What a project uses, and its own limits.
    pub async fn project_quota_use(&self, project: &ProjectId) -> Result<(Amounts, Limits), Error> {
        let sql = format!(
            "select {SANDBOXES},
                (select json_group_object(kind, most) from quotas where scope = 'project' and owner = $1) as limits,
                (select count(*) from snapshots where project = $1 and state in ('making', 'ready')) as snapshots,
                (select count(*) from templates where project = $1) as templates
             from sandboxes where project = $1 and state <> 'ended'"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(project.as_str()).fetch_one(self.reader()).await;
        let row = row.map_err(|e| Error::query("read what a project uses", e))?;
        let columns = Columns(&row);
        let used = sandboxes_used(&row)?
            .with(QuotaKind::Snapshots, columns.number("snapshots")?)
            .with(QuotaKind::Templates, columns.number("templates")?);
        Ok((used, columns.json("limits")?))
    }
}

async fn set(
    connection: &mut SqliteConnection,
    scope: &str,
    owner: &str,
    changes: Vec<(QuotaKind, Option<u64>)>,
) -> Result<(), Error> {
    for (kind, limit) in changes {
        let sql = match limit {
            Some(_) => {
                "insert into quotas (scope, owner, kind, most) values ($1, $2, $3, $4) on conflict do update set most = $4"
            }
            None => "delete from quotas where scope = $1 and owner = $2 and kind = $3",
        };
        let query = sqlx::query(sql).bind(scope).bind(owner).bind(kind.as_str());
        let query = if let Some(limit) = limit { query.bind(integer(limit)) } else { query };
        query.execute(&mut *connection).await.map_err(|e| Error::query("write a quota", e))?;
    }
    Ok(())
}

/// An error if there is no such team.
pub(crate) async fn find_team(connection: &mut SqliteConnection, team: &TeamId) -> Result<(), Error> {
    let there: bool = sqlx::query_scalar("select exists (select 1 from teams where id = $1)")
        .bind(team.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("look for a team", e))?;
    if there { Ok(()) } else { Err(Error::NoTeam(team.clone())) }
}

/// Sums of the sandboxes of a team that have not ended.
const SANDBOXES: &str = "count(*) as instances, coalesce(sum(disk_mb), 0) as disk_mb,
    coalesce(sum(cpu_count) filter (where state in ('creating', 'running', 'pausing', 'resuming')), 0) as vcpu,
    coalesce(sum(memory_mb) filter (where state in ('creating', 'running', 'pausing', 'resuming')), 0) as memory_mb";

/// Checks that sandboxes of a project may use more, first what the team may, then what the project may: one query of one index each.
/// `server` are limits where neither the team nor its plan has one.
pub(crate) async fn check_sandboxes(
    connection: &mut SqliteConnection,
    (team, project): (&TeamId, &ProjectId),
    wanted: Amounts,
    server: Limits,
) -> Result<(), Error> {
    let sql = format!("select {LIMITS}, {SANDBOXES} from sandboxes where team = $1 and state <> 'ended'");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_one(&mut *connection).await;
    let row = row.map_err(|e| Error::query("add up a team's sandboxes", e))?;
    decide(connection, team, sandboxes_used(&row)?, wanted, limits(&row)?.or(server)).await?;
    let own = project_limits(connection, project).await?;
    if own == Limits::NONE {
        return Ok(());
    }
    let sql = format!("select {SANDBOXES} from sandboxes where project = $1 and state <> 'ended'");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(project.as_str()).fetch_one(&mut *connection).await;
    let used = sandboxes_used(&row.map_err(|e| Error::query("add up a project's sandboxes", e))?)?;
    decide_in_project(connection, team, project, used, wanted, own).await
}

/// The limits of a project; an error if it is gone.
async fn project_limits(connection: &mut SqliteConnection, project: &ProjectId) -> Result<Limits, Error> {
    let row = sqlx::query(
        "select (select json_group_object(kind, most) from quotas where scope = 'project' and owner = $1) as limits
         from projects where id = $1",
    );
    let row = row.bind(project.as_str()).fetch_optional(connection).await;
    let row = row.map_err(|e| Error::query("read a project's limits", e))?;
    Columns(&row.ok_or_else(|| Error::NoProject(project.clone()))?).json("limits")
}

async fn decide_in_project(
    connection: &mut SqliteConnection,
    team: &TeamId,
    project: &ProjectId,
    used: Amounts,
    wanted: Amounts,
    limits: Limits,
) -> Result<(), Error> {
    match decide(connection, team, used, wanted, limits).await {
        Err(Error::Quota(exceeded)) => {
            // Who else is in the team is not told to those of the project.
            Err(Error::Quota(Box::new(QuotaExceeded { project: Some(project.clone()), users: vec![], ..*exceeded })))
        }
        decided => decided,
    }
}

/// Checks that a project may have one more of a kind of which its team has `used`.
pub(crate) async fn check_one(
    connection: &mut SqliteConnection,
    (team, project): (&TeamId, &ProjectId),
    kind: QuotaKind,
    used: u64,
    server: Limits,
) -> Result<(), Error> {
    let sql = format!("select {LIMITS}");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_one(&mut *connection).await;
    let limits = limits(&row.map_err(|e| Error::query("read a team's limits", e))?)?.or(server);
    let (used, wanted) = (Amounts::default().with(kind, used), Amounts::default().with(kind, 1));
    decide(connection, team, used, wanted, limits).await?;
    let own = project_limits(connection, project).await?;
    if own == Limits::NONE {
        return Ok(());
    }
    let sql = match kind {
        QuotaKind::Templates => "select count(*) from templates where project = $1",
        _ => "select count(*) from snapshots where project = $1 and state in ('making', 'ready')",
    };
    let used: u32 = sqlx::query_scalar(sql)
        .bind(project.as_str())
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("count what a project has", e))?;
    let used = Amounts::default().with(kind, used.into());
    decide_in_project(connection, team, project, used, wanted, own).await
}

/// How long a sandbox of the team may run at a stretch.
pub(crate) async fn lifetime(connection: &mut SqliteConnection, team: &TeamId) -> Result<Option<u64>, Error> {
    let sql = format!("select {LIMITS}");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_one(connection).await;
    let limits = limits(&row.map_err(|e| Error::query("read a team's limits", e))?)?;
    Ok(limits.get(QuotaKind::LifetimeSeconds))
}

/// A lifetime as a duration.
pub(crate) fn duration(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(integer(seconds))
}

/// What a sandbox adds when it begins to run.
pub(crate) fn of_running(resources: Resources) -> Amounts {
    Amounts::default()
        .with(QuotaKind::Vcpu, resources.cpu_count.into())
        .with(QuotaKind::MemoryMb, resources.memory_mb.into())
}

/// What a new sandbox adds.
pub(crate) fn of_new(sandbox: &Sandbox) -> Amounts {
    let lifetime = sandbox.end_at.duration_since(sandbox.created_at).as_secs();
    of_running(sandbox.resources)
        .with(QuotaKind::Instances, 1)
        .with(QuotaKind::DiskMb, sandbox.resources.disk_mb.into())
        .with(QuotaKind::LifetimeSeconds, u64::try_from(lifetime).unwrap_or_default())
}

/// Checks that a sandbox may have other resources. CPU and memory count only while it uses them.
pub(crate) async fn check_resize(
    connection: &mut SqliteConnection,
    sandbox: &Sandbox,
    resources: Resources,
) -> Result<(), Error> {
    let more = |new: u32, old: u32| u64::from(new.saturating_sub(old));
    let old = sandbox.resources;
    let mut wanted = Amounts::default().with(QuotaKind::DiskMb, more(resources.disk_mb, old.disk_mb));
    if sandbox.state.uses_capacity() {
        wanted = wanted
            .with(QuotaKind::Vcpu, more(resources.cpu_count, old.cpu_count))
            .with(QuotaKind::MemoryMb, more(resources.memory_mb, old.memory_mb));
    }
    if wanted == Amounts::default() {
        Ok(())
    } else {
        check_sandboxes(connection, (&sandbox.team, &sandbox.project), wanted, Limits::default()).await
    }
}

/// When a running sandbox may end that is to end then: earlier if it was only extended and may not run as long, otherwise an error.
pub(crate) async fn bounded_end(
    connection: &mut SqliteConnection,
    sandbox: &Sandbox,
    end_at: Timestamp,
    extend: bool,
) -> Result<Timestamp, Error> {
    let Some(limit) = lifetime(connection, &sandbox.team).await? else { return Ok(end_at) };
    let last = sandbox.since + duration(limit);
    if end_at <= last {
        return Ok(end_at);
    }
    if extend {
        return Ok(last.max(sandbox.end_at));
    }
    let wanted = u64::try_from(end_at.duration_since(sandbox.since).as_secs()).unwrap_or_default();
    let exceeded = Exceeded { kind: QuotaKind::LifetimeSeconds, used: 0, wanted, limit };
    Err(refuse(connection, &sandbox.team, exceeded).await?)
}

async fn decide(
    connection: &mut SqliteConnection,
    team: &TeamId,
    used: Amounts,
    wanted: Amounts,
    limits: Limits,
) -> Result<(), Error> {
    let Err(exceeded) = check(&used, &wanted, &limits) else { return Ok(()) };
    Err(refuse(connection, team, exceeded).await?)
}

/// The error for a limit that is reached, with those who use most.
pub(crate) async fn refuse(
    connection: &mut SqliteConnection,
    team: &TeamId,
    exceeded: Exceeded,
) -> Result<Error, Error> {
    let Exceeded { kind, used, wanted, limit } = exceeded;
    let amount = match kind {
        QuotaKind::Instances => Some("1"),
        QuotaKind::DiskMb => Some("disk_mb"),
        QuotaKind::Vcpu => Some("cpu_count"),
        QuotaKind::MemoryMb => Some("memory_mb"),
        // Nobody is known to have made them, or nobody uses some of it.
        QuotaKind::Snapshots | QuotaKind::Templates | QuotaKind::LifetimeSeconds | QuotaKind::Turns => None,
    };
    let mut users = Vec::new();
    if let Some(amount) = amount {
        let counted = if matches!(kind, QuotaKind::Vcpu | QuotaKind::MemoryMb) { RUNNING } else { "state <> 'ended'" };
        let sql = format!(
            "select created_by as id, sum({amount}) as used, coalesce((select name from api_keys where id = created_by),
                (select name from users where id = created_by)) as name
             from sandboxes where team = $1 and state <> 'ended' and {counted} and created_by is not null
             group by created_by order by 2 desc, 1 limit 5"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(team.as_str()).fetch_all(connection).await;
        for row in rows.map_err(|e| Error::query("find who uses a quota", e))? {
            let row = Columns(&row);
            users.push(QuotaUser { id: row.text("id")?, name: row.text_or_none("name")?, used: row.number("used")? });
        }
    }
    Ok(Error::Quota(Box::new(QuotaExceeded { kind, used, wanted, limit, project: None, users })))
}

fn limits(row: &SqliteRow) -> Result<Limits, Error> {
    let row = Columns(row);
    let plan: Option<Limits> = row.json_or_none("plan_limits")?;
    Ok(row.json::<Limits>("own_limits")?.or(plan.unwrap_or_default()))
}

fn sandboxes_used(row: &SqliteRow) -> Result<Amounts, Error> {
    let row = Columns(row);
    Ok(Amounts::default()
        .with(QuotaKind::Instances, row.number("instances")?)
        .with(QuotaKind::Vcpu, row.number("vcpu")?)
        .with(QuotaKind::MemoryMb, row.number("memory_mb")?)
        .with(QuotaKind::DiskMb, row.number("disk_mb")?))
}
