-- People, the teams they belong to, and how they are signed in.
create table users (
    id text primary key,
    -- Null for the first admin, who signs in by a link from the terminal.
    email text unique,
    name text not null,
    -- Whether the user may change the server itself.
    admin integer not null,
    created_at integer not null,
    disabled_at integer
) strict;

create table members (
    team text not null references teams (id),
    user text not null references users (id),
    role text not null,
    created_at integer not null,
    primary key (team, user)
) strict, without rowid;

create table sessions (
    id text primary key,
    -- SHA-256 of the token in the cookie.
    hash blob not null unique,
    user text not null references users (id),
    -- The team that the session acts for.
    team text not null references teams (id),
    -- The API key that it was signed in with; it ends with that key.
    key text,
    created_at integer not null,
    last_seen_at integer not null,
    -- Whatever happens, it is over then.
    expires_at integer not null,
    address text,
    agent text
) strict;
create index sessions_by_user on sessions (user);

-- One-time codes. Only their hashes are stored.
create table tickets (
    hash blob primary key,
    kind text not null,
    created_at integer not null,
    expires_at integer not null
) strict, without rowid;
