-- What is used over time. Opened and closed in the transaction of the change that causes it. Teams and subjects are no
-- references: what was used outlives them.
create table intervals (
    id integer primary key autoincrement,
    team text not null,
    project text,
    -- A sandbox or a snapshot, and its id.
    subject_kind text not null,
    subject text not null,
    kind text not null,
    quantity integer not null,
    opened_at integer not null,
    closed_at integer,
    -- Until when it is in the sums below and in the ledger.
    rated_until integer not null
) strict;
create unique index intervals_open on intervals (subject, kind) where closed_at is null;
create index intervals_unrated on intervals (rated_until) where closed_at is null or rated_until < closed_at;
create index intervals_closed_unrated on intervals (rated_until) where closed_at is not null and rated_until < closed_at;
create index intervals_by_subject on intervals (subject, opened_at);

-- What is known of a subject that is metered.
create table meters (
    subject text primary key,
    disk_mib integer not null default 0,
    archive_mib integer not null default 0,
    -- When the disk was last measured.
    measured_at integer,
    -- The end of its last interval: the next one does not begin earlier, whatever the clock says.
    closed_at integer not null default 0
) strict, without rowid;

-- Calls of models. Each is counted once, in the transaction of its result.
create table model_calls (
    id integer primary key autoincrement,
    team text not null,
    project text,
    chat text not null,
    turn text not null,
    model text not null,
    input integer not null,
    cached integer not null,
    output integer not null,
    -- Null where the price of the model is not known.
    micros integer,
    at integer not null,
    rated integer not null default 0
) strict;
create index model_calls_unrated on model_calls (id) where rated = 0;
create index model_calls_by_chat on model_calls (chat, at);

-- Sums per hour (hours since 1970 UTC): amounts are quantities times microseconds, or counts. '' stands for none.
create table usage_hourly (
    team text not null,
    hour integer not null,
    subject text not null,
    kind text not null,
    model text not null,
    project text not null,
    subject_kind text not null,
    amount integer not null,
    micros integer not null,
    primary key (team, hour, subject, kind, model, project)
) strict, without rowid;
create index usage_hourly_by_subject on usage_hourly (subject, hour);

-- The same without subjects, so that long ranges are answered fast. Written in the same transaction.
create table usage_total (
    team text not null,
    hour integer not null,
    kind text not null,
    model text not null,
    project text not null,
    amount integer not null,
    micros integer not null,
    primary key (team, hour, kind, model, project)
) strict, without rowid;

-- One row. What is rated together has a number; `alive_at` is when the machine was last known to be up.
create table rating (
    one integer primary key check (one = 1),
    tick integer not null,
    rated_at integer not null,
    alive_at integer not null
) strict;
insert into rating values (1, 0, 0, 0);

-- Parts of a micro that were rounded off a team's amounts and are in none of them yet.
create table bills (
    team text primary key,
    carry integer not null
) strict, without rowid;
