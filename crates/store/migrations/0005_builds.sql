-- What a build's sandboxes boot with (JSON) and get unless they ask for something else.
alter table builds add column boot text not null default '{}';
update builds set boot = json_object('default_user', default_user, 'default_workdir', default_workdir, 'env', json(env));
alter table builds drop column default_user;
alter table builds drop column default_workdir;
alter table builds drop column env;
alter table builds add column cpu_count integer not null default 0;
alter table builds add column memory_mb integer not null default 0;
alter table builds add column disk_mb integer not null default 0;
update builds set (cpu_count, memory_mb, disk_mb) =
    (select t.cpu_count, t.memory_mb, t.disk_mb from templates t where t.id = builds.template);
-- Where it failed: `base`, `finalize` or the number of a step, from 1.
alter table builds add column failed_step text;
alter table builds add column updated_at integer not null default 0;
update builds set updated_at = coalesce(finished_at, created_at);
-- The tags that it gets when it is ready (JSON).
alter table builds add column tags text not null default '[]';
create index builds_unfinished on builds (template) where status in ('waiting', 'building');

-- Every tag but `default`, which is `templates.build`.
create table template_tags (
    template   text not null references templates (id) on delete cascade,
    tag        text not null,
    build      text not null references builds (id) on delete cascade,
    created_at integer not null,
    primary key (template, tag)
) strict, without rowid;
create index template_tags_by_build on template_tags (build);

-- What each tag, `default` among them, has stood for.
create table tag_assignments (
    seq      integer primary key autoincrement,
    id       text not null,
    template text not null references templates (id) on delete cascade,
    tag      text not null,
    build    text not null references builds (id) on delete cascade,
    at       integer not null
) strict;
create index tag_assignments_by_tag on tag_assignments (template, tag, seq);
create index tag_assignments_by_build on tag_assignments (build);
insert into tag_assignments (id, template, tag, build, at)
    select lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8'
            || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
        t.id, 'default', b.id, coalesce(b.finished_at, b.created_at)
    from templates t join builds b on b.id = t.build where b.status = 'ready';

-- Levels are 0 for `debug` to 3 for `error`.
create table build_log (
    build   text not null references builds (id) on delete cascade,
    seq     integer not null,
    at      integer not null,
    level   integer not null,
    step    text,
    message text not null,
    primary key (build, seq)
) strict, without rowid;

-- Steps whose results are kept, and when one was last used.
create table layers (
    key     text primary key,
    used_at integer not null
) strict, without rowid;

create index sandboxes_living_by_build on sandboxes (build) where state <> 'ended';
create index snapshots_by_build on snapshots (build);
