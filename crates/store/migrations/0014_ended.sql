-- Who asked for a sandbox, and the last lines of its guest's journal, kept when it fails or ends.
alter table sandboxes add column created_by text;
alter table sandboxes add column last_lines text;

update sandboxes set created_by = (
    select json_extract(events.data, '$.by') from events
    where events.sandbox = sandboxes.id and events.kind = 'sandbox.lifecycle.requested' order by events.seq limit 1
);

-- Listings of ended sandboxes.
create index sandboxes_ended_by_team on sandboxes (team, ended_at, id) where state = 'ended';
