-- Secrets of teams. The value is sealed by the server: this file alone does not reveal it.
create table secrets (
    id          text primary key,
    team        text not null references teams (id) on delete cascade,
    -- In lower case.
    name        text not null,
    -- As it was written.
    spelling    text not null,
    version     integer not null,
    value       blob not null,
    metadata    text not null,
    -- Hosts that it is for, its description, and what stands for its value inside a sandbox: for Novita's clients.
    hosts       text not null,
    description text,
    placeholder text not null,
    created_at  integer not null,
    updated_at  integer not null,
    unique (team, name)
) strict, without rowid;
