-- Times are microseconds since 1970 UTC. JSON is kept as text. Ids are text.

create table settings (
    key   text primary key,
    value text not null
) strict, without rowid;

create table teams (
    id         text primary key,
    name       text not null unique,
    created_at integer not null
) strict, without rowid;

-- Only the SHA-256 of a key is kept; prefix and suffix let its owner recognise it.
create table api_keys (
    id           text primary key,
    team         text not null references teams (id) on delete cascade,
    hash         blob not null unique,
    name         text not null,
    prefix       text not null,
    suffix       text not null,
    created_at   integer not null,
    last_used_at integer
) strict, without rowid;

create table templates (
    id              text primary key,
    team            text not null references teams (id) on delete cascade,
    public          integer not null,
    cpu_count       integer not null,
    memory_mb       integer not null,
    disk_mb         integer not null,
    -- The build that new sandboxes start from.
    build           text references builds (id) deferrable initially deferred,
    created_at      integer not null,
    updated_at      integer not null,
    spawn_count     integer not null default 0,
    last_spawned_at integer
) strict, without rowid;

create table template_aliases (
    team     text not null references teams (id) on delete cascade,
    alias    text not null,
    template text not null references templates (id) on delete cascade,
    primary key (team, alias)
) strict, without rowid;
create index template_aliases_by_template on template_aliases (template);

create table builds (
    id              text primary key,
    template        text not null references templates (id) on delete cascade,
    status          text not null,
    created_at      integer not null,
    finished_at     integer,
    error           text,
    default_user    text not null,
    default_workdir text,
    env             text not null
) strict, without rowid;
create index builds_by_template on builds (template, created_at);

create table sandboxes (
    id                text primary key,
    team              text not null references teams (id),
    -- Not a reference: tombstones outlive templates.
    template          text not null,
    build             text not null,
    alias             text,
    state             text not null,
    cause             text,
    cpu_count         integer not null,
    memory_mb         integer not null,
    disk_mb           integer not null,
    pids              integer not null,
    metadata          text not null,
    env_vars          text not null,
    access_token      text,
    secure            integer not null,
    internet          integer not null,
    created_at        integer not null,
    started_at        integer,
    end_at            integer not null,
    ended_at          integer,
    idempotency_key   text,
    idempotency_hash  blob
) strict, without rowid;
create unique index sandboxes_by_idempotency_key on sandboxes (team, idempotency_key) where idempotency_key is not null;
create index sandboxes_running on sandboxes (team, started_at, id) where state = 'running';
create index sandboxes_living on sandboxes (id) where state <> 'ended';
create index sandboxes_ended on sandboxes (ended_at) where state = 'ended';

create table events (
    seq     integer primary key autoincrement,
    id      text not null,
    sandbox text not null references sandboxes (id) on delete cascade,
    team    text not null,
    kind    text not null,
    data    text not null,
    at      integer not null
) strict;
create index events_by_sandbox on events (sandbox, seq);
create index events_by_team on events (team, seq);
