-- Links by which anyone can read a chat. Only the hash of the host name is stored.
create table chat_shares (
    id text primary key,
    -- SHA-256 of the name.
    hash blob not null unique,
    chat text not null references chats (id) on delete cascade,
    -- Position of the last message that it shows; null: also those that come later.
    until integer,
    -- Whether arguments and output of tools are shown.
    tool_details integer not null,
    created_at integer not null,
    created_by text,
    expires_at integer not null,
    revoked_at integer,
    opened integer not null default 0,
    last_opened_at integer
) strict;
create index chat_shares_by_chat on chat_shares (chat);
