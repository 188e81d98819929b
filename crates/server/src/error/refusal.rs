//! What the machine refuses, as answers of the API: no capacity, no template, no space.

use cabana_types::{ErrorCode, SandboxId};

use super::ApiError;
use crate::lifecycle;

/// The answer to a creation that the backend could not do.
pub(super) fn refuse_launch(id: &SandboxId, source: &cabana_runtime::Error) -> ApiError {
    use cabana_runtime::Error as E;
    let failed = || {
        let text = cabana_types::error::chain(source);
        ApiError::new(ErrorCode::SandboxCreateFailed, format!("Sandbox {id} could not be created: {text}"))
    };
    match source {
        E::Full { limit } => lifecycle::CreateError::Capacity(lifecycle::Shortage::Sandboxes { limit: *limit }).into(),
        E::NoBuild(build) => ApiError::new(
            ErrorCode::TemplateNotReady,
            format!("The root filesystem of the template's build {build} is missing on this server; build it again"),
        ),
        // It shows its cause as its own, and not as a source.
        E::Storage(cause) => storage_refusal(cause).unwrap_or_else(failed),
        _ => storage_refusal(source).unwrap_or_else(failed),
    }
}

/// The answer where the server's disks do not take what is asked for: full, or read-only for a moment.
pub(super) fn storage_refusal(source: &(dyn std::error::Error + 'static)) -> Option<ApiError> {
    let text = cabana_types::error::chain(source);
    if is_disk_full(source) {
        let text = format!("The server's disk is full; free some space ({text})");
        return Some(ApiError::new(ErrorCode::StorageFull, text));
    }
    let read_only = |error: &(dyn std::error::Error + 'static)| {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        kind == Some(std::io::ErrorKind::ReadOnlyFilesystem)
            || matches!(error.downcast_ref(), Some(cabana_storage::Error::ReadOnly { .. }))
    };
    std::iter::successors(Some(source), |error| error.source())
        .any(read_only)
        .then(|| ApiError::new(ErrorCode::ServiceUnavailable, format!("{}; try again", sentence(&text))))
}

/// A text with a capital at its beginning.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let full = |e: &std::io::Error| {
            matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        };
        let no_space = |e: &cabana_storage::Error| matches!(e, cabana_storage::Error::NoSpace { .. });
        if error.downcast_ref::<std::io::Error>().is_some_and(full)
            || error.downcast_ref::<cabana_storage::Error>().is_some_and(no_space)
        {
            return true;
        }
        next = error.source();
    }
    false
}
