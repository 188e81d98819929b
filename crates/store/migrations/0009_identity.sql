-- Workload identity tokens of a sandbox: name and audience, as JSON.
alter table sandboxes add column iam text not null default '{}';

-- Keys that sign them, sealed. A retired one is published until no token that it signed can be valid.
create table signing_keys (
    id         text primary key,
    key        blob not null,
    public     blob not null,
    created_at integer not null,
    retired_at integer
) strict, without rowid;

-- Certificate authorities of sandboxes whose requests are changed on their way out. The keys are sealed.
create table authorities (
    sandbox     text primary key references sandboxes (id) on delete cascade,
    certificate text not null,
    key         blob not null
) strict, without rowid;
