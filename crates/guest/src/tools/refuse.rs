//! Refusals, in words for a model.

use std::io;
use std::path::Path;

use cabana_types::guest::tools::Refusal;
use cabana_types::tool::ToolErrorCode as Code;

use crate::error::is_full;
use crate::open::NotReadable;

/// A refusal on its way to the host. Boxed: results are returned through many functions.
pub(crate) type Refused = Box<Refusal>;

/// A refusal without a path.
pub(crate) fn plain(code: Code, message: impl Into<String>) -> Refused {
    Box::new(Refusal { code, message: message.into(), path: None, size: None, media_type: None })
}

/// A refusal that concerns a path; `why` follows the quoted path.
pub(crate) fn about(code: Code, path: &Path, why: &str) -> Refused {
    let shown = path.to_string_lossy().into_owned();
    Box::new(Refusal { message: format!("'{shown}' {why}"), path: Some(shown), ..*plain(code, "") })
}

/// The request's connection is gone.
pub(crate) fn cancelled() -> Refused {
    plain(Code::Cancelled, "the call was cancelled")
}

/// The refusal for a failed system call.
pub(crate) fn io(doing: &str, path: &Path, cause: &io::Error) -> Refused {
    let denied = |why: &str| about(Code::PermissionDenied, path, why);
    if is_full(cause) {
        return about(Code::DiskFull, path, "cannot be written: the disk of the sandbox is full");
    }
    match cause.raw_os_error() {
        Some(libc::ENOENT) => about(Code::FileNotFound, path, "does not exist"),
        Some(libc::ENOTDIR) => about(Code::NotADirectory, path, "is not a directory, or is below a file"),
        Some(libc::EISDIR) => about(Code::NotAFile, path, "is a directory"),
        Some(libc::ENXIO | libc::ENODEV) => about(Code::NotAFile, path, "is not a regular file"),
        Some(libc::EEXIST) => about(Code::AlreadyExists, path, "exists"),
        Some(libc::EROFS) => denied("is on a read-only filesystem"),
        Some(libc::EBUSY) => denied("is in use by the system, for example as a mount point"),
        Some(libc::EACCES | libc::EPERM) => {
            about(Code::PermissionDenied, path, &format!("cannot be used: no permission to {doing} it"))
        }
        Some(libc::ELOOP) => {
            about(Code::InvalidArguments, path, "goes through too many links, or through a link of /proc")
        }
        Some(libc::ENAMETOOLONG) => about(Code::InvalidArguments, path, "has a name that is too long"),
        Some(libc::EFBIG) => about(Code::TooLarge, path, "would be larger than a file may be"),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => {
            about(Code::NoRoom, path, &format!("was not used: the sandbox is out of resources ({cause})"))
        }
        _ => about(Code::Interrupted, path, &format!("was not used: cannot {doing} it ({cause})")),
    }
}

/// The refusal for a file that cannot be read.
pub(crate) fn not_readable(path: &Path, cause: &NotReadable) -> Refused {
    match cause {
        NotReadable::Io(cause) => io("read", path, cause),
        NotReadable::Directory => about(Code::NotAFile, path, "is a directory"),
        NotReadable::Special => about(Code::NotAFile, path, "is not a regular file but a device, FIFO or socket"),
        NotReadable::Own => about(Code::PermissionDenied, path, "belongs to the sandbox's own daemon"),
    }
}
