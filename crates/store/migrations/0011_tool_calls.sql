-- Calls of agent tools whose result is asked for later: detached ones, and those with an idempotency key.
create table tool_calls (
    id text primary key,
    team text not null,
    sandbox text not null,
    tool text not null,
    -- The caller's idempotency key.
    key text,
    -- What was asked for: a key stands for one request.
    digest blob not null,
    -- The result (JSON); null while the call runs.
    result text,
    created_at integer not null,
    -- When the row may be removed.
    expires_at integer not null
) strict;
create unique index tool_calls_by_key on tool_calls (team, key) where key is not null;
create index tool_calls_by_expiry on tool_calls (expires_at);
