-- What a key of the build cache stands for was part of its text; it gets a column of its own.
create table cache (
    kind    text not null,
    key     text not null,
    used_at integer not null,
    primary key (kind, key)
) strict, without rowid;

insert into cache (kind, key, used_at)
    select case
            when key like 'manifest-%' then 'image'
            when key like 'tried-%' then 'start'
            else 'layer'
        end,
        case
            when key like 'manifest-%' then substr(key, length('manifest-') + 1)
            when key like 'tried-%' then substr(key, length('tried-') + 1)
            else key
        end,
        used_at
    from layers;

drop table layers;
alter table cache rename to layers;
