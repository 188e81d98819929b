-- Grows with each change of a service, so that of two copies of its row the newer one is known.
alter table services add column version integer not null default 0;
create trigger services_version after update on services when new.version = old.version begin
    update services set version = version + 1 where id = new.id;
end;
