-- The isolation backend of a sandbox. All sandboxes so far are native.
alter table sandboxes add column isolation text not null default 'native';

-- What a snapshot holds, `disk` or `disk_memory`, and the backend of the sandbox that it was taken of: memory can only be restored there.
alter table snapshots add column kind text not null default 'disk';
alter table snapshots add column isolation text not null default 'native';

-- The backend for sandboxes of a template that ask for none; null for the server's default.
alter table templates add column isolation text;
