-- Limits under a name, for any number of teams. `limits` is JSON: the limit of each kind that has one.
create table plans (
    id         text primary key,
    name       text not null,
    limits     text not null,
    created_at integer not null,
    updated_at integer not null
) strict, without rowid;
insert into plans values ('self-hosted', 'Self-hosted', '{}', 0, 0);

-- A plan that teams have cannot be deleted; the store checks it, as SQLite adds no references to existing tables.
alter table teams add column plan text not null default 'self-hosted';

-- Limits that come before those of the plan.
create table quotas (
    -- What `owner` is: `team`.
    scope text not null,
    owner text not null,
    kind  text not null,
    most  integer not null,
    primary key (scope, owner, kind)
) strict, without rowid;

-- What a team uses is added up from this index alone.
create index sandboxes_counted on sandboxes (team, state, cpu_count, memory_mb, disk_mb) where state <> 'ended';
