//! Tags: names of a template's builds. `default` is the build that is used if no tag is given, and is stored in the
//! template's row; other tags have their own rows. The history of assignments is kept.

use std::collections::BTreeSet;

use cabana_types::{BuildId, TemplateId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::build::{self, BuildStatus};
use crate::column::{Columns, micros};
use crate::{Build, Error, Store, feed};

/// The tag that is used if none is given.
pub const DEFAULT_TAG: &str = "default";
/// Assignments kept per tag.
pub const MAX_ASSIGNMENTS: u32 = 100;

/// A tag and its build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The tag.
    pub tag: String,
    /// The build.
    pub build: BuildId,
    /// When it was assigned.
    pub created_at: Timestamp,
}

/// An assignment of a tag to a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Its id, a UUID.
    pub id: String,
    /// The tag.
    pub tag: String,
    /// The build.
    pub build: BuildId,
    /// When it was assigned.
    pub at: Timestamp,
    /// When the build was requested.
    pub build_created_at: Timestamp,
    /// When the build ended.
    pub build_finished_at: Option<Timestamp>,
}

impl Store {
    /// Every tag of a template that refers to a finished build, by name.
    pub async fn tags(&self, template: &TemplateId) -> Result<Vec<Tag>, Error> {
        let rows = sqlx::query(
            "select 'default' as tag, b.id as build, coalesce(
                (select max(at) from tag_assignments where template = t.id and tag = 'default' and build = b.id),
                b.finished_at, b.created_at) as created_at
             from templates t join builds b on b.id = t.build where t.id = $1 and b.status = 'ready'
             union all select tag, build, created_at from template_tags where template = $1
             order by tag",
        )
        .bind(template.as_str())
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list tags", e))?;
        let tag = |row| {
            let row = Columns(row);
            Ok(Tag { tag: row.text("tag")?, build: row.id("build")?, created_at: row.time("created_at")? })
        };
        rows.iter().map(tag).collect()
    }

    /// The build of a tag other than `default`.
    pub async fn tagged(&self, template: &TemplateId, tag: &str) -> Result<Option<Build>, Error> {
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "select {} from template_tags g join builds b on b.id = g.build where g.template = $1 and g.tag = $2",
            build::COLUMNS
        )))
        .bind(template.as_str())
        .bind(tag)
        .fetch_optional(self.reader())
        .await
        .map_err(|e| Error::query("read a tag", e))?;
        row.as_ref().map(build::decode).transpose()
    }

    /// Assignments of all tags of a template, newest first.
    pub async fn assignments(&self, template: &TemplateId) -> Result<Vec<Assignment>, Error> {
        let rows = sqlx::query(
            "select a.id, a.tag, a.build, a.at, b.created_at as build_created_at, b.finished_at as build_finished_at
             from tag_assignments a join builds b on b.id = a.build where a.template = $1 order by a.seq desc",
        )
        .bind(template.as_str())
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list assignments of tags", e))?;
        let assignment = |row| {
            let row = Columns(row);
            Ok(Assignment {
                id: row.text("id")?,
                tag: row.text("tag")?,
                build: row.id("build")?,
                at: row.time("at")?,
                build_created_at: row.time("build_created_at")?,
                build_finished_at: row.time_or_none("build_finished_at")?,
            })
        };
        rows.iter().map(assignment).collect()
    }

    /// Assigns tags to a finished build; a tag of another build of the template moves.
    pub async fn assign_tags(&self, id: BuildId, tags: Vec<String>, most: u32, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let build = build::read(connection, &id).await?.ok_or_else(|| Error::NoBuild(id.clone()))?;
                if build.status != BuildStatus::Ready {
                    return Err(Error::BuildStatus { id, status: build.status.as_str() });
                }
                let mut all = names(connection, &build.template).await?;
                let before = all.len();
                all.extend(tags.iter().cloned());
                check_count(&all, before, most)?;
                for tag in &tags {
                    assign(connection, &build, tag, at).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Removes tags other than `default`; their builds stay. Returns how many existed.
    pub async fn remove_tags(&self, template: TemplateId, tags: Vec<String>, at: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut removed = 0;
                for tag in tags.iter().filter(|tag| *tag != DEFAULT_TAG) {
                    for sql in [
                        "delete from tag_assignments where template = $1 and tag = $2",
                        "delete from template_tags where template = $1 and tag = $2",
                    ] {
                        let done = sqlx::query(sql).bind(template.as_str()).bind(tag).execute(&mut *connection).await;
                        let done = done.map_err(|e| Error::query("remove a tag", e))?;
                        removed += if sql.contains("template_tags") { done.rows_affected() } else { 0 };
                    }
                }
                touch(connection, &template, at).await?;
                Ok(removed)
            })
        })
        .await
    }
}

/// The tags of a template.
pub(crate) async fn names(connection: &mut SqliteConnection, template: &TemplateId) -> Result<BTreeSet<String>, Error> {
    let names: Vec<String> = sqlx::query_scalar("select tag from template_tags where template = $1")
        .bind(template.as_str())
        .fetch_all(connection)
        .await
        .map_err(|e| Error::query("list tags", e))?;
    let default = std::iter::once(DEFAULT_TAG.to_owned());
    Ok(names.into_iter().chain(default).collect())
}

/// Checks the limit of tags per template, unless it was already exceeded.
pub(crate) fn check_count(all: &BTreeSet<String>, before: usize, most: u32) -> Result<(), Error> {
    if all.len() > before && all.len() > most as usize {
        return Err(Error::TooMany { what: "tags of one template", limit: most });
    }
    Ok(())
}

/// Assigns a tag to a finished build and records the assignment.
pub(crate) async fn assign(
    connection: &mut SqliteConnection,
    build: &Build,
    tag: &str,
    at: Timestamp,
) -> Result<(), Error> {
    if tag == DEFAULT_TAG {
        sqlx::query("update templates set build = $2, cpu_count = $3, memory_mb = $4, disk_mb = $5 where id = $1")
            .bind(build.template.as_str())
            .bind(build.id.as_str())
            .bind(build.resources.cpu_count)
            .bind(build.resources.memory_mb)
            .bind(build.resources.disk_mb)
            .execute(&mut *connection)
            .await
            .map_err(|e| Error::query("set a template's build", e))?;
    } else {
        sqlx::query(
            "insert into template_tags (template, tag, build, created_at) values ($1, $2, $3, $4)
             on conflict (template, tag) do update set build = excluded.build, created_at = excluded.created_at",
        )
        .bind(build.template.as_str())
        .bind(tag)
        .bind(build.id.as_str())
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write a tag", e))?;
    }
    sqlx::query("insert into tag_assignments (id, template, tag, build, at) values ($1, $2, $3, $4, $5)")
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(build.template.as_str())
        .bind(tag)
        .bind(build.id.as_str())
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("record a tag assignment", e))?;
    sqlx::query(
        "delete from tag_assignments where template = $1 and tag = $2 and seq not in
            (select seq from tag_assignments where template = $1 and tag = $2 order by seq desc limit $3)",
    )
    .bind(build.template.as_str())
    .bind(tag)
    .bind(MAX_ASSIGNMENTS)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("delete old tag assignments", e))?;
    touch(connection, &build.template, at).await
}

/// Records that a template has changed.
pub(crate) async fn touch(
    connection: &mut SqliteConnection,
    template: &TemplateId,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query("update templates set updated_at = max(updated_at, $2) where id = $1")
        .bind(template.as_str())
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write when a template changed", e))?;
    feed::note_template(connection, template).await
}
