-- Who did what to what. Each team has a chain of entries, numbered without gaps; '' is the server's. Entries are never changed, and
-- removed only up to the place that the row of their chain names.
create table audit (
    -- The order in which entries came, over all chains.
    id integer primary key,
    team text not null,
    seq integer not null,
    at integer not null,
    actor text,
    action text not null,
    target text,
    address text,
    result text not null,
    -- HTTP status of the answer; 0 without one.
    status integer not null,
    -- Names and values, as JSON.
    details text not null,
    previous_hash blob not null,
    hash blob not null,
    unique (team, seq)
) strict;
create index audit_by_actor on audit (team, actor, seq);
create index audit_by_target on audit (team, target, seq);

create table audit_chains (
    team text primary key,
    -- The last entry that was removed, and the newest one.
    pruned_seq integer not null,
    pruned_hash blob not null,
    last_seq integer not null,
    last_hash blob not null
) strict, without rowid;

create trigger audit_is_not_changed before update on audit begin
    select raise(abort, 'entries of the audit log are never changed');
end;
create trigger audit_is_not_deleted before delete on audit
    when old.seq > coalesce((select pruned_seq from audit_chains where team = old.team), 0)
begin
    select raise(abort, 'entries of the audit log are removed only by pruning');
end;
create trigger audit_chains_are_not_deleted before delete on audit_chains begin
    select raise(abort, 'chains of the audit log are never removed');
end;
create trigger audit_chains_go_forward before update on audit_chains
    when new.team <> old.team or new.last_seq < old.last_seq or new.pruned_seq < old.pruned_seq or new.pruned_seq > new.last_seq
begin
    select raise(abort, 'chains of the audit log only go forward');
end;
