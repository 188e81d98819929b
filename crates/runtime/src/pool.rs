//! The storage pool: copy-on-write disks with quotas.
