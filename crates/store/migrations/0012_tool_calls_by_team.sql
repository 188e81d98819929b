-- Only the newest calls of a team are kept.
create index tool_calls_by_team on tool_calls (team, created_at);
