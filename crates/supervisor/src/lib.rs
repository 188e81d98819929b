//! Supervision of tasks. A long-lived task runs under a [`Supervisor`]: if it panics or ends unexpectedly, it is
//! restarted with backoff or, if the server cannot work without it, the process ends with a [`Fatal`] reason. Work that
//! belongs to one request runs in a [`TaskSet`], which logs panics and waits at shutdown.

#![forbid(unsafe_code)]

mod backoff;
mod catch;
mod failpoint;
mod on_drop;
mod restart;
mod supervisor;
mod task_set;

pub use backoff::Backoff;
pub use catch::{Panicked, catch_panic};
pub use on_drop::OnDrop;
pub use restart::Restart;
pub use supervisor::{Fatal, Outcome, Supervisor};
pub use task_set::TaskSet;
