-- Commands in sandboxes that people look at through a port, and names by which they may.
create table services (
    id text primary key,
    team text not null references teams (id),
    sandbox text not null references sandboxes (id) on delete cascade,
    name text not null,
    command text not null,
    cwd text,
    env text not null,
    -- The port that it was asked to use, or was found to.
    port integer,
    port_found integer not null default 0,
    -- Whether it is to run.
    up integer not null,
    -- Which start of it is wanted, and which one was made last, in which start of the guest.
    run integer not null,
    started_run integer not null default 0,
    boot text,
    started_at integer,
    -- How that one ended, if it did.
    ended_at integer,
    exit_code integer,
    reason text,
    last_lines text not null default '[]',
    restarts integer not null default 0,
    on_wake text not null,
    always_on integer not null,
    access text not null,
    slug text,
    host_mode text not null,
    bridge integer not null,
    -- To be ended and forgotten when the sandbox runs again.
    removed integer not null default 0,
    -- When it was last started, stopped or ended.
    since integer not null,
    created_at integer not null,
    created_by text
) strict;
create unique index services_by_name on services (sandbox, name) where removed = 0;
create unique index services_by_slug on services (slug) where slug is not null;
create index services_by_team on services (team);

-- Unguessable host names, each for one service: links for anyone, and frames of the console for one session.
create table grants (
    id text primary key,
    -- SHA-256 of the name.
    hash blob not null unique,
    kind text not null,
    service text not null references services (id) on delete cascade,
    -- Of frames: ends with this session.
    session text references sessions (id) on delete cascade,
    -- Of frames: the console's origin.
    origin text,
    created_at integer not null,
    created_by text,
    expires_at integer not null,
    opened integer not null default 0,
    last_opened_at integer,
    revoked_at integer
) strict;
create index grants_by_service on grants (service);
