//! What can go wrong below the API.

use std::path::PathBuf;

use cabana_types::SandboxId;

/// An error of a backend or the pool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        /// What was tried (`create`, `mount`, …).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A system call or other IO without a path failed.
    #[error("{action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A program that we run failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The last lines it printed.
        output: String,
    },
    /// The launcher refused or failed.
    #[error("launching {id}: {message}")]
    Launch {
        /// The sandbox.
        id: SandboxId,
        /// The step and its error.
        message: String,
    },
    /// There is no free slot.
    #[error("all {limit} sandbox slots of this server are in use")]
    Full {
        /// How many there are.
        limit: u32,
    },
    /// The template's root filesystem is not there.
    #[error("the root filesystem of build {0} is missing")]
    NoBuild(cabana_types::BuildId),
    /// The kernel refused something.
    #[error("isolation")]
    Jail(#[source] cabana_jail::Error),
    /// The disk is nearly full.
    #[error("only {} MiB are free on the disk of {path}; {} MiB are kept in reserve: free some space", free >> 20, reserve >> 20)]
    NoSpace {
        /// Of what.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes below which nothing new is made.
        reserve: u64,
    },
    /// The network layer failed.
    #[error("network")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Several things went wrong while cleaning up.
    #[error("cleaning up {what}: {}", join(errors))]
    Teardown {
        /// Whose.
        what: String,
        /// All of them.
        errors: Vec<Error>,
    },
    /// A disk that cannot be packed, or an archive that is none of ours.
    #[error("{path}: {problem}")]
    Archive {
        /// Where, seen from the disk's directory.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// Nothing of this name is in cold storage.
    #[error("{name} is not in cold storage")]
    ColdMissing {
        /// The object.
        name: String,
    },
    /// What is in cold storage is not what was put there.
    #[error("{name} in cold storage is damaged: {problem}")]
    ColdDamaged {
        /// The object.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Cold storage did not do what it was asked for, also not after trying again.
    #[error("{action} {name} in cold storage")]
    Cold {
        /// What was tried.
        action: &'static str,
        /// The object.
        name: String,
        /// Why not.
        #[source]
        source: Box<object_store::Error>,
    },
    /// The settings of cold storage are wrong.
    #[error("cold storage: {problem}")]
    ColdSettings {
        /// What is wrong.
        problem: String,
    },
    /// Whoever asked for it no longer wants it.
    #[error("it was cancelled")]
    Cancelled,
    /// What is wrong with this machine, and what to do.
    #[error("{0}")]
    Unsupported(String),
}

fn join(errors: &[Error]) -> String {
    errors.iter().map(|e| chain(e)).collect::<Vec<_>>().join("; ")
}

/// An error with its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
