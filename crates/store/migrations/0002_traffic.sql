-- What a sandbox wants of requests to its ports.
alter table sandboxes add column traffic_token text;
alter table sandboxes add column mask_host text;
alter table sandboxes add column https_ports text not null default '[]';

-- Ids of keys are UUIDs, as clients of E2B's API parse them.
update api_keys set id = lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)));
