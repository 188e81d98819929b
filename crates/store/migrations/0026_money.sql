-- What things cost, from when on. A price never changes: a later one takes its place.
create table prices (
    id integer primary key autoincrement,
    kind text not null,
    micros integer not null,
    effective_from integer not null,
    created_at integer not null,
    created_by text not null
) strict;
create unique index prices_by_time on prices (kind, effective_from);

-- What is left of a team's money; less than nothing: what it owes.
create table wallets (
    team text primary key,
    balance integer not null
) strict, without rowid;

-- What changed a wallet. Each entry takes from one account and gives to another: the wallet's and the one that it names.
create table wallet_entries (
    seq integer primary key autoincrement,
    team text not null,
    at integer not null,
    kind text not null,
    account text not null,
    amount integer not null,
    balance_after integer not null,
    -- What it stands for, once: `tick:N` or `PROVIDER:EVENT`.
    ref text not null,
    memo text
) strict;
create unique index wallet_entries_by_ref on wallet_entries (team, ref);
create unique index wallet_entries_by_event on wallet_entries (ref) where kind = 'top_up';

-- The other sides of all entries: with the wallets they add up to nothing.
create table accounts (
    name text primary key,
    balance integer not null
) strict, without rowid;
