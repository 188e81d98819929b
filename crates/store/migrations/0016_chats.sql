-- Chats of a model that uses sandboxes.
create table chats (
    id text primary key,
    team text not null references teams (id),
    title text not null,
    -- Whether a person chose the title, or a model was asked for it.
    titled integer not null,
    -- The title in lower case, for searching.
    folded text not null,
    agent text,
    model text not null,
    tools text,
    metadata text not null,
    -- The chat that it was forked from, which may be gone.
    parent text,
    usage text not null,
    context_tokens integer not null,
    context_window integer not null,
    -- Names of tools that run without asking.
    always text not null,
    -- What stands for the messages up to a position when the model is called.
    summary_until integer,
    summary_text text,
    -- The first id of an event that was not reserved.
    event_next integer not null default 1,
    created_at integer not null,
    updated_at integer not null,
    created_by text
) strict;
create index chats_by_team on chats (team, updated_at, id);

create table turns (
    id text primary key,
    chat text not null references chats (id) on delete cascade,
    seq integer not null,
    message text not null,
    state text not null,
    reason text,
    -- Whether a person wants it to stop. Never taken back.
    cancel integer not null,
    model text not null,
    tools text,
    limits text not null,
    steps integer not null,
    interruptions integer not null,
    usage text not null,
    busy_ms integer not null,
    prompt text not null,
    created_at integer not null,
    started_at integer,
    ended_at integer
) strict;
create unique index turns_by_chat on turns (chat, seq);
create index turns_open on turns (chat, seq) where state in ('queued', 'running', 'waiting');

create table messages (
    id text primary key,
    chat text not null references chats (id) on delete cascade,
    turn text not null references turns (id) on delete cascade,
    -- turn.seq * 1000000 + a number within the turn: a message of a queued turn comes after all of the turns before it.
    position integer not null,
    role text not null,
    author text,
    status text not null,
    content text not null,
    -- Its text in lower case, for searching.
    folded text not null,
    stop text,
    usage text,
    model text,
    -- What the provider wants back as it was.
    raw text,
    -- Whether it is part of the conversation no more.
    removed integer not null default 0,
    created_at integer not null
) strict;
create unique index messages_by_chat on messages (chat, position);
create index messages_by_turn on messages (turn);

create table chat_calls (
    id text primary key,
    chat text not null references chats (id) on delete cascade,
    turn text not null references turns (id) on delete cascade,
    message text not null references messages (id) on delete cascade,
    number integer not null,
    provider_id text not null,
    name text not null,
    title text not null,
    arguments text not null,
    sandbox text,
    status text not null,
    why text,
    note text,
    result text,
    attachments text not null,
    started_at integer,
    ended_at integer
) strict;
create index chat_calls_by_message on chat_calls (message, number);
create index chat_calls_by_turn on chat_calls (turn);
create index chat_calls_by_chat on chat_calls (chat);

-- What readers of a chat that come later still need. Pieces of answers are not among them.
create table chat_events (
    chat text not null references chats (id) on delete cascade,
    id integer not null,
    turn text,
    kind text not null,
    data text not null,
    at integer not null,
    primary key (chat, id)
) strict, without rowid;

create table chat_sandboxes (
    chat text not null references chats (id) on delete cascade,
    name text not null,
    role text not null,
    -- It may be gone.
    sandbox text not null,
    template text,
    created_at integer not null,
    primary key (chat, name)
) strict, without rowid;
create index chat_sandboxes_by_sandbox on chat_sandboxes (sandbox);

-- Snapshots of a chat's files.
create table checkpoints (
    chat text not null references chats (id) on delete cascade,
    turn text not null,
    kind text not null,
    snapshot text not null,
    -- The first message that restoring removes.
    position integer not null,
    message text,
    label text not null,
    created_at integer not null,
    primary key (chat, snapshot)
) strict, without rowid;
create index checkpoints_by_turn on checkpoints (chat, turn);

-- Answers of requests that may be repeated.
create table chat_requests (
    team text not null,
    key text not null,
    -- What was asked for: a key stands for one request.
    digest blob not null,
    chat text not null references chats (id) on delete cascade,
    turn text,
    expires_at integer not null,
    primary key (team, key)
) strict, without rowid;
create index chat_requests_by_chat on chat_requests (chat);
create index chat_requests_by_expiry on chat_requests (expires_at);

-- Files of chats. Their bytes are kept outside of the database, by digest.
create table attachments (
    -- The order in which they came.
    seq integer primary key,
    id text not null unique,
    team text not null references teams (id),
    -- Null until a message or a chat has it.
    chat text references chats (id) on delete cascade,
    kind text not null,
    name text not null,
    media_type text not null,
    size integer not null,
    sha256 text not null,
    status text not null,
    path text,
    error text,
    created_at integer not null,
    created_by text
) strict;
create index attachments_by_chat on attachments (chat) where chat is not null;
create index attachments_by_blob on attachments (team, sha256);

create table agents (
    id text primary key,
    team text not null references teams (id),
    name text not null,
    description text not null,
    kind text not null,
    model text,
    system text not null,
    tools text not null,
    limits text not null,
    suggestions text not null,
    created_at integer not null,
    updated_at integer not null,
    created_by text
) strict;
create unique index agents_by_name on agents (team, name);

create table model_providers (
    team text not null references teams (id),
    name text not null,
    kind text not null,
    base_url text,
    -- Sealed.
    key blob,
    models text not null,
    created_at integer not null,
    primary key (team, name)
) strict, without rowid;
