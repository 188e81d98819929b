-- Where a sandbox may connect: its egress policy (JSON). It was all or nothing.
alter table sandboxes add column egress text not null default '{}';
update sandboxes set egress = '{"denyOut":["0.0.0.0/0"]}' where internet = 0;
alter table sandboxes drop column internet;

-- The preset for sandboxes of a template that ask for none; null for the server's default.
alter table templates add column network text;
