-- How people sign in.
-- Argon2id in PHC form; null: not by a password.
alter table users add column password_hash text;
-- The account at an OIDC provider.
alter table users add column oidc_issuer text;
alter table users add column oidc_subject text;
alter table users add column last_seen_at integer;
create unique index users_by_oidc on users (oidc_issuer, oidc_subject) where oidc_issuer is not null;
create index members_by_user on members (user);

-- When the person last proved who they are.
alter table sessions add column auth_at integer not null default 0;
update sessions set auth_at = created_at;

-- A deleted team has no keys, members and content any more; what it used stays known.
alter table teams add column deleted_at integer;

-- Links by which people become members of a team. Only hashes of their codes are stored.
create table invitations (
    id          text primary key,
    hash        blob not null unique,
    team        text not null references teams (id),
    email       text not null,
    role        text not null,
    -- A project to be added to as well, with the same role.
    project     text references projects (id) on delete set null,
    created_by  text not null,
    created_at  integer not null,
    expires_at  integer not null,
    accepted_at integer,
    accepted_by text,
    revoked_at  integer
) strict;
create index invitations_by_team on invitations (team, created_at);
create index invitations_by_email on invitations (email) where accepted_at is null and revoked_at is null;

-- The project of the sandbox, which says who may see the service.
alter table services add column project text not null default '';
update services set project = (select project from sandboxes where sandboxes.id = services.sandbox);
