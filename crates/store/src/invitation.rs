//! Invitations: links by which people become members of a team, once. Only hashes of their codes are stored.

use cabana_types::{ActorId, InvitationId, ProjectId, Role, TeamId, UserId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, NewUser, Store, member, project, user};

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    /// SHA-256 of its code.
    pub hash: [u8; 32],
    pub team: TeamId,
    /// Whom it is for, in lower case.
    pub email: String,
    pub role: Role,
    /// A project to be added to as well.
    pub project: Option<ProjectId>,
    pub created_by: ActorId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: InvitationState,
}

/// What has become of an invitation. Whether it has expired is a matter of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvitationState {
    Open,
    Accepted { at: Timestamp, by: UserId },
    Revoked,
}

/// The result of accepting an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    Done(UserId),
    /// There is no such invitation, or it was used, revoked, or is too old.
    Invalid,
    /// Somebody has an account with the email, who must sign in first.
    HasAccount,
    /// The person who is signed in has another email.
    OtherPerson,
}

/// Who accepts an invitation.
#[derive(Debug, Clone)]
pub enum Accepting {
    /// The account is made.
    New(Box<NewUser>),
    /// Somebody who is signed in.
    User(UserId),
}

impl Store {
    /// Inserts an invitation. Others of the same team for the same person that are open are revoked. Returns `false` if the team has
    /// `most` that are open.
    pub async fn insert_invitation(&self, row: Invitation, most: u32) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let query = sqlx::query(
                    "update invitations set revoked_at = $3
                     where team = $1 and email = $2 and accepted_at is null and revoked_at is null",
                );
                let query = query.bind(row.team.as_str()).bind(&row.email).bind(micros(row.created_at));
                query.execute(&mut *connection).await.map_err(|e| Error::query("revoke invitations", e))?;
                let open: u32 = sqlx::query_scalar(
                    "select count(*) from invitations
                     where team = $1 and accepted_at is null and revoked_at is null and expires_at > $2",
                )
                .bind(row.team.as_str())
                .bind(micros(row.created_at))
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("count invitations", e))?;
                if open >= most {
                    return Ok(false);
                }
                insert(connection, &row).await?;
                Ok(true)
            })
        })
        .await
    }

    /// The invitations of a team that are open, newest first.
    pub async fn open_invitations(&self, team: &TeamId, now: Timestamp) -> Result<Vec<Invitation>, Error> {
        let rows = sqlx::query(
            "select * from invitations where team = $1 and accepted_at is null and revoked_at is null and expires_at > $2
             order by created_at desc, id",
        )
        .bind(team.as_str())
        .bind(micros(now))
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("list invitations", e))?.iter().map(decode).collect()
    }

    /// The invitation of a code.
    pub async fn invitation(&self, hash: [u8; 32]) -> Result<Option<Invitation>, Error> {
        let row = sqlx::query("select * from invitations where hash = $1").bind(hash.to_vec());
        let row = row.fetch_optional(self.reader()).await.map_err(|e| Error::query("read an invitation", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Whether somebody is invited with this email.
    pub async fn is_invited(&self, email: &str, now: Timestamp) -> Result<bool, Error> {
        sqlx::query_scalar(
            "select exists (select 1 from invitations
             where email = $1 and accepted_at is null and revoked_at is null and expires_at > $2)",
        )
        .bind(email)
        .bind(micros(now))
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("look for invitations", e))
    }

    /// Revokes an open invitation of a team. Returns whether there was one.
    pub async fn revoke_invitation(&self, team: TeamId, id: InvitationId, at: Timestamp) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let query = sqlx::query(
                    "update invitations set revoked_at = $3
                     where id = $1 and team = $2 and accepted_at is null and revoked_at is null",
                );
                let done = query.bind(id.as_str()).bind(team.as_str()).bind(micros(at)).execute(connection).await;
                Ok(done.map_err(|e| Error::query("revoke an invitation", e))?.rows_affected() > 0)
            })
        })
        .await
    }

    /// Accepts an invitation, once.
    pub async fn accept_invitation(&self, hash: [u8; 32], by: Accepting, now: Timestamp) -> Result<Accepted, Error> {
        self.write(move |connection| Box::pin(async move { accept(connection, hash, by, now).await })).await
    }
}

async fn accept(
    connection: &mut SqliteConnection,
    hash: [u8; 32],
    by: Accepting,
    now: Timestamp,
) -> Result<Accepted, Error> {
    let row = sqlx::query("select * from invitations where hash = $1").bind(hash.to_vec());
    let row = row.fetch_optional(&mut *connection).await.map_err(|e| Error::query("read an invitation", e))?;
    let Some(invitation) = row.as_ref().map(decode).transpose()? else { return Ok(Accepted::Invalid) };
    if invitation.state != InvitationState::Open || invitation.expires_at <= now {
        return Ok(Accepted::Invalid);
    }
    let user = match by {
        Accepting::New(new) => {
            if user::by_email(connection, &invitation.email).await?.is_some() {
                return Ok(Accepted::HasAccount);
            }
            user::insert(connection, &NewUser { email: Some(invitation.email.clone()), ..*new.clone() }).await?;
            new.id
        }
        Accepting::User(id) => match user::read(connection, &id).await? {
            Some(user) if user.email.as_deref() == Some(&invitation.email) && user.disabled_at.is_none() => id,
            _ => return Ok(Accepted::OtherPerson),
        },
    };
    // An invitation never takes a role away.
    let keeps = |role: cabana_types::Role| role.permissions().beyond(invitation.role.permissions()).is_empty();
    if member::role(connection, &invitation.team, &user).await?.is_none_or(keeps) {
        member::insert(connection, &invitation.team, &user, invitation.role, now).await?;
    }
    if let Some(project) = &invitation.project {
        project::set_member(connection, project, &user, invitation.role, now).await?;
    }
    let query = sqlx::query("update invitations set accepted_at = $2, accepted_by = $3 where id = $1");
    let query = query.bind(invitation.id.as_str()).bind(micros(now)).bind(user.as_str());
    query.execute(connection).await.map_err(|e| Error::query("write an invitation", e))?;
    Ok(Accepted::Done(user))
}

async fn insert(connection: &mut SqliteConnection, row: &Invitation) -> Result<(), Error> {
    sqlx::query(
        "insert into invitations (id, hash, team, email, role, project, created_by, created_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(row.id.as_str())
    .bind(row.hash.to_vec())
    .bind(row.team.as_str())
    .bind(&row.email)
    .bind(row.role.as_str())
    .bind(row.project.as_ref().map(ProjectId::as_str))
    .bind(row.created_by.as_str())
    .bind(micros(row.created_at))
    .bind(micros(row.expires_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("insert an invitation", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<Invitation, Error> {
    let row = Columns(row);
    let accepted = row.time_or_none("accepted_at")?.zip(row.id_or_none("accepted_by")?);
    Ok(Invitation {
        id: row.id("id")?,
        hash: row.hash_or_none("hash")?.ok_or_else(|| Error::decode("hash", "missing"))?,
        team: row.id("team")?,
        email: row.text("email")?,
        role: row.word("role", |word| word.parse().ok())?,
        project: row.id_or_none("project")?,
        created_by: row.actor_or_none("created_by")?.ok_or_else(|| Error::decode("created_by", "missing"))?,
        created_at: row.time("created_at")?,
        expires_at: row.time("expires_at")?,
        state: match accepted {
            Some((at, by)) => InvitationState::Accepted { at, by },
            None if row.time_or_none("revoked_at")?.is_some() => InvitationState::Revoked,
            None => InvitationState::Open,
        },
    })
}
