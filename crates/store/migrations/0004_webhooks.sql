-- Where events are sent. The secret is kept as it is: every delivery is signed with it.
create table webhooks (
    id         text primary key,
    team       text not null references teams (id) on delete cascade,
    name       text not null,
    url        text not null,
    secret     text not null,
    -- The kinds of events that it wants.
    events     text not null,
    enabled    integer not null,
    created_at integer not null,
    -- Tries that failed since the last one that did not, and when the next one may be.
    failures   integer not null default 0,
    due_at     integer,
    -- Events that found no room in its queue.
    dropped    integer not null default 0
) strict, without rowid;
create index webhooks_by_team on webhooks (team);

-- One event on its way to one webhook. It holds what it tells: the sandbox and its events may be forgotten meanwhile.
create table deliveries (
    seq         integer primary key autoincrement,
    webhook     text not null references webhooks (id) on delete cascade,
    event       text not null,
    kind        text not null,
    data        text not null,
    at          integer not null,
    sandbox     text not null,
    template    text not null,
    build       text not null,
    metadata    text,
    cpu_count   integer not null,
    memory_mb   integer not null,
    started_at  integer,
    state       text not null default 'pending',
    tries       integer not null default 0,
    -- Of the last try.
    attempt     text,
    status      integer,
    error       text,
    finished_at integer
) strict;
create index deliveries_by_webhook on deliveries (webhook, seq);
create index deliveries_pending on deliveries (webhook, seq) where state = 'pending';
create index deliveries_pending_by_event on deliveries (event) where state = 'pending';
