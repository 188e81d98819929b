//! The host kernel's side of a sandbox: namespaces, mounts, cgroups, seccomp, capabilities, btrfs; and the launcher, the small
//! single-threaded process that clones sandboxes. Only this crate and `net` contain `unsafe` on the host.

pub mod btrfs;
