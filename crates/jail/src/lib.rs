//! Host kernel interfaces of a sandbox: namespaces, mounts, cgroups, seccomp, capabilities, btrfs; and the launcher,
//! the small single-threaded process that clones sandboxes. On the host, only this crate contains `unsafe`.

pub mod btrfs;
pub mod capabilities;
pub mod cgroup;
pub mod error;
pub mod launcher;
pub mod machine;
pub mod plan;
pub mod process;
pub mod seccomp;

mod apparmor;
mod channel;
mod device;
mod init;
mod kernel;
pub mod privileges;
mod procfs;
mod root;
mod sysfs;

pub use error::Error;
pub use launcher::Launcher;
