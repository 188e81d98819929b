//! What can go wrong with disks and archives.

use std::path::PathBuf;

/// An error of the pool, of an archive or of cold storage.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        /// The operation (`create`, `mount`, …).
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// A system call or other IO without a path failed.
    #[error("{action}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// A program that we run failed.
    #[error(transparent)]
    Program(#[from] cabana_fs::program::ProgramError),
    /// The disk is nearly full.
    #[error("only {} MiB are free on the disk of {path}; {} MiB are kept in reserve: free some space", free >> 20, reserve >> 20)]
    NoSpace {
        /// The pool.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes below which nothing new is created.
        reserve: u64,
    },
    /// The kernel made the pool read-only, which it does when the disk below is full.
    #[error(
        "{path} has become read-only, probably because the disk was full: once there is space, the server ends the \
         sandboxes that use it and mounts it again"
    )]
    ReadOnly {
        /// The pool.
        path: PathBuf,
    },
    /// A disk that cannot be packed, or an archive that was not written by us.
    #[error("{path}: {problem}")]
    Archive {
        /// The entry, relative to the disk's directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no object of this name in cold storage.
    #[error("{name} is not in cold storage")]
    ColdMissing {
        /// The object.
        name: String,
    },
    /// An object in cold storage differs from what was written.
    #[error("{name} in cold storage is damaged: {problem}")]
    ColdDamaged {
        /// The object.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A request to cold storage failed, also after retries.
    #[error("{action} {name} in cold storage")]
    Cold {
        /// The request.
        action: &'static str,
        /// The object.
        name: String,
        /// The store's error.
        #[source]
        source: Box<object_store::Error>,
    },
    /// The settings of cold storage are wrong.
    #[error("cold storage: {problem}")]
    ColdSettings {
        /// What is wrong.
        problem: String,
    },
    /// The caller cancelled the operation.
    #[error("it was cancelled")]
    Cancelled,
    /// This machine or pool cannot do it; the text says what to do.
    #[error("{0}")]
    Unsupported(String),
}
