-- What API keys may do, until when, and from where.
-- Words with spaces between them; null: everything that E2B's keys can do; '*': everything.
alter table api_keys add column scopes text;
alter table api_keys add column expires_at integer;
-- Networks that the key can be used from, with spaces between them; null: from anywhere.
alter table api_keys add column cidrs text;
-- The user or the API key that made it.
alter table api_keys add column created_by text;
-- The operator's keys could make sign-in links and check the machine, and still can.
update api_keys set scopes = '*' where team = 'default';
