-- Parts of a team. The default project of a team has the team's id; it cannot be deleted.
create table projects (
    id         text primary key,
    team       text not null references teams (id) on delete cascade,
    -- Unique in the team.
    name       text not null,
    created_at integer not null
) strict, without rowid;
create unique index projects_by_name on projects (team, name);
insert into projects (id, team, name, created_at) select id, id, 'default', created_at from teams;

-- People who may work in a project that is not the default one, with a role that is at most the one in the team.
create table project_members (
    project    text not null references projects (id) on delete cascade,
    user       text not null references users (id) on delete cascade,
    role       text not null,
    created_at integer not null,
    primary key (project, user)
) strict, without rowid;

-- What exists belongs to the default project.
alter table sandboxes add column project text not null default '';
alter table templates add column project text not null default '';
alter table snapshots add column project text not null default '';
alter table chats add column project text not null default '';
update sandboxes set project = team;
update templates set project = team;
update snapshots set project = team;
update chats set project = team;
-- The only project that the key may be used for; null: all of the team.
alter table api_keys add column project text;

create index sandboxes_counted_by_project on sandboxes (project, state, cpu_count, memory_mb, disk_mb) where state <> 'ended';
create index templates_by_project on templates (project);
create index snapshots_by_project on snapshots (project, state);
create index chats_by_project on chats (project, updated_at, id);
