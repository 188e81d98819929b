//! Files of chats. Their bytes are kept outside of the database, by digest.

use cabana_types::chat::{AttachmentKind, SyncState};
use cabana_types::{ActorId, AttachmentId, ChatId, TeamId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// Ids in one query.
const CHUNK: usize = 500;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentRow {
    pub id: AttachmentId,
    pub team: TeamId,
    /// `None` until a message or a chat has it.
    pub chat: Option<ChatId>,
    pub kind: AttachmentKind,
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub sha256: String,
    /// Whether it is in the sandbox.
    pub status: SyncState,
    /// Where it is there.
    pub path: Option<String>,
    /// Why it is not.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub created_by: Option<ActorId>,
}

impl Store {
    /// Inserts files, all or none.
    pub async fn insert_attachments(&self, rows: Vec<AttachmentRow>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for row in &rows {
                    write(connection, row, INSERT).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Gives files to a chat, all or none. They are in no chat yet, or in this one.
    pub async fn attach(
        &self,
        chat: ChatId,
        ids: Vec<AttachmentId>,
        team: TeamId,
    ) -> Result<Vec<AttachmentRow>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut attached = Vec::with_capacity(ids.len());
                for id in ids {
                    let row = sqlx::query(
                        "update attachments set chat = $2 where id = $1 and team = $3 and (chat is null or chat = $2)
                         returning *",
                    )
                    .bind(id.as_str())
                    .bind(chat.as_str())
                    .bind(team.as_str())
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(|e| Error::query("attach a file", e))?;
                    attached.push(decode(&row.ok_or(Error::NoAttachment(id))?)?);
                }
                Ok(attached)
            })
        })
        .await
    }

    /// Deletes a file that is in no chat. Returns whether there was one.
    pub async fn delete_attachment(&self, id: AttachmentId) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from attachments where id = $1 and chat is null")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a file", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// Deletes the files that came before a time and are in no chat. Returns how many.
    pub async fn delete_unattached(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from attachments where chat is null and created_at < $1")
                    .bind(micros(before))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete files that are in no chat", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }

    /// A file.
    pub async fn attachment(&self, id: &AttachmentId) -> Result<Option<AttachmentRow>, Error> {
        let row = sqlx::query("select * from attachments where id = $1")
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await;
        row.map_err(|e| Error::query("read a file", e))?.as_ref().map(decode).transpose()
    }

    /// The files of a chat, in the order in which they came.
    pub async fn attachments_of(&self, chat: &ChatId) -> Result<Vec<AttachmentRow>, Error> {
        let rows = sqlx::query("select * from attachments where chat = $1 order by seq")
            .bind(chat.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list the files of a chat", e))?.iter().map(decode).collect()
    }

    /// The files of these ids that exist, in no order.
    pub async fn attachments_by_id(&self, ids: &[AttachmentId]) -> Result<Vec<AttachmentRow>, Error> {
        let mut found = vec![];
        for chunk in ids.chunks(CHUNK) {
            let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from attachments where id in (");
            let mut list = sql.separated(", ");
            for id in chunk {
                list.push_bind(id.as_str().to_owned());
            }
            sql.push(")");
            let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("read files", e))?;
            for row in &rows {
                found.push(decode(row)?);
            }
        }
        Ok(found)
    }

    /// Whether a file of a team has these bytes.
    pub async fn blob_is_used(&self, team: &TeamId, sha256: &str) -> Result<bool, Error> {
        sqlx::query_scalar("select exists (select 1 from attachments where team = $1 and sha256 = $2)")
            .bind(team.as_str())
            .bind(sha256)
            .fetch_one(self.reader())
            .await
            .map_err(|e| Error::query("look for a file", e))
    }

    /// Bytes that a team's files take. Equal files are kept once.
    pub async fn attachment_bytes(&self, team: &TeamId) -> Result<u64, Error> {
        let bytes: i64 = sqlx::query_scalar(
            "select coalesce(sum(size), 0) from (select max(size) as size from attachments where team = $1 group by sha256) as blobs",
        )
        .bind(team.as_str())
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("add up files", e))?;
        u64::try_from(bytes).map_err(|e| Error::decode("size", e))
    }
}

const INSERT: &str = "
    insert into attachments (id, team, chat, kind, name, media_type, size, sha256, status, path, error, created_at, created_by)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

/// Inserts a file of a chat, or replaces one that is in no other chat.
pub(crate) async fn set(
    connection: &mut SqliteConnection,
    team: &TeamId,
    chat: &ChatId,
    attachment: &AttachmentRow,
) -> Result<(), Error> {
    let free: Option<bool> =
        sqlx::query_scalar("select team = $2 and (chat is null or chat = $3) from attachments where id = $1")
            .bind(attachment.id.as_str())
            .bind(team.as_str())
            .bind(chat.as_str())
            .fetch_optional(&mut *connection)
            .await
            .map_err(|e| Error::query("look for a file", e))?;
    let sql = match free {
        None if attachment.team == *team => INSERT,
        Some(true) => {
            "update attachments set chat = $3, kind = $4, name = $5, media_type = $6, size = $7, sha256 = $8, status = $9,
                path = $10, error = $11
             where id = $1 and team = $2"
        }
        _ => return Err(Error::NoAttachment(attachment.id.clone())),
    };
    write(connection, attachment, sql).await
}

async fn write(connection: &mut SqliteConnection, row: &AttachmentRow, sql: &'static str) -> Result<(), Error> {
    let done = sqlx::query(sql)
        .bind(row.id.as_str())
        .bind(row.team.as_str())
        .bind(row.chat.as_ref().map(|id| id.as_str()))
        .bind(row.kind.as_str())
        .bind(&row.name)
        .bind(&row.media_type)
        .bind(column::integer(row.size))
        .bind(&row.sha256)
        .bind(row.status.as_str())
        .bind(&row.path)
        .bind(&row.error)
        .bind(micros(row.created_at))
        .bind(row.created_by.as_ref().map(|actor| actor.as_str()))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a file", e))?;
    if done.rows_affected() == 0 { Err(Error::NoAttachment(row.id.clone())) } else { Ok(()) }
}

fn decode(row: &SqliteRow) -> Result<AttachmentRow, Error> {
    let row = Columns(row);
    Ok(AttachmentRow {
        id: row.id("id")?,
        team: row.id("team")?,
        chat: row.id_or_none("chat")?,
        kind: row.word("kind", AttachmentKind::parse)?,
        name: row.text("name")?,
        media_type: row.text("media_type")?,
        size: row.number("size")?,
        sha256: row.text("sha256")?,
        status: row.word("status", SyncState::parse)?,
        path: row.text_or_none("path")?,
        error: row.text_or_none("error")?,
        created_at: row.time("created_at")?,
        created_by: row.actor_or_none("created_by")?,
    })
}
