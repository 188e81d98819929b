-- Sandboxes sleep, wake, fail and are archived: a state may have more to say than why a sandbox ended.
alter table sandboxes rename column cause to detail;
update sandboxes set detail = json_object('cause', json(detail)) where detail is not null;

-- What its owner wants of its life (JSON).
alter table sandboxes add column policy text not null default '{}';
-- What it boots with, from its template's build (JSON).
alter table sandboxes add column boot text not null default '{}';
-- When it came into its state.
alter table sandboxes add column since integer not null default 0;
update sandboxes set since = coalesce(ended_at, started_at, created_at);
-- The generation of its last archive.
alter table sandboxes add column archives integer not null default 0;
-- SHA-256 of the last one that was completed.
alter table sandboxes add column archive_digest text;

drop index sandboxes_running;
create index sandboxes_listed on sandboxes (team, started_at, id) where state <> 'ended';

-- Copies of disks from which sandboxes can be made. `state` is `making`, `ready` or `deleting`.
create table snapshots (
    id         text primary key,
    team       text not null references teams (id),
    name       text,
    state      text not null,
    sandbox    text not null,
    template   text not null,
    build      text not null,
    alias      text,
    cpu_count  integer not null,
    memory_mb  integer not null,
    disk_mb    integer not null,
    pids       integer not null,
    boot       text not null,
    created_at integer not null
) strict, without rowid;
create unique index snapshots_by_name on snapshots (team, name) where name is not null;
create index snapshots_by_age on snapshots (team, created_at, id);
