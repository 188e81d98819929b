-- Values of secrets as they were when their sandbox was started, behind placeholders in its environment. Sealed.
create table placeholders (
    sandbox text not null references sandboxes (id) on delete cascade,
    -- The text that programs inside see.
    text    text not null,
    secret  text not null references secrets (id) on delete cascade,
    value   blob not null,
    primary key (sandbox, text)
) strict, without rowid;
create index placeholders_by_secret on placeholders (secret);

-- Whether set-uid programs gain nothing in new sandboxes of a template.
alter table templates add column no_new_privileges integer not null default 0;
