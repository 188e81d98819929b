//! Why a build failed, for its author: the step, its last lines of output, how it ended, and a hint.

use crate::lifecycle::BuildSandboxError;

/// Why a build failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// `base`, `finalize` or the number of a step, from 1.
    pub(super) step: String,
    /// What happened and what to do.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(step: &str, message: impl Into<String>) -> Self {
        Self { step: step.to_owned(), message: message.into() }
    }

    /// Adds a hint if the message has a common cause.
    pub(super) fn hinted(step: &str, message: String) -> Self {
        match hint(&message) {
            Some(hint) => Self::new(step, format!("{message}\nHint: {hint}")),
            None => Self::new(step, message),
        }
    }

    pub(super) fn image(step: &str, error: &cabana_image::Error) -> Self {
        Self::hinted(step, cabana_types::error::chain(error))
    }

    pub(super) fn storage(step: &str, error: &cabana_storage::Error) -> Self {
        Self::hinted(step, cabana_types::error::chain(error))
    }

    pub(super) fn sandbox(step: &str, error: &BuildSandboxError) -> Self {
        Self::hinted(step, cabana_types::error::chain(error))
    }

    pub(super) fn store(step: &str, error: &cabana_store::Error) -> Self {
        Self::new(step, format!("the store: {}", cabana_types::error::chain(error)))
    }
}

impl From<cabana_image::dockerfile::DockerfileError> for Failure {
    fn from(error: cabana_image::dockerfile::DockerfileError) -> Self {
        Self::new(super::base::BASE, error.to_string())
    }
}

/// The failure of a command.
pub(super) fn of_command(step: &str, command: &str, status: &str, memory: bool, tail: &str) -> Failure {
    let mut message = format!("failed to run command '{}': {status}", short(command));
    if !tail.is_empty() {
        message.push_str("\nIts last lines:\n");
        message.push_str(tail);
    }
    if memory {
        message.push_str("\nHint: it ran out of memory: give the template more (memoryMB, --memory)");
        return Failure::new(step, message);
    }
    Failure::hinted(step, message)
}

/// A command, shortened for messages.
pub(super) fn short(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.len() < text.len() || first.chars().count() > 200 {
        return format!("{}…", first.chars().take(200).collect::<String>());
    }
    first.to_owned()
}

/// Hints for common error messages of common tools.
fn hint(text: &str) -> Option<&'static str> {
    const HINTS: &[(&[&str], &str)] = &[
        (
            &["are kept in reserve"],
            "the server's own disk is too full: its operator has to free space; try again then, or with less",
        ),
        (
            &["No space left on device", "Disk quota exceeded", "no space"],
            "the disk is full: give the template a larger one (diskSizeMB, --disk), or remove what a step leaves behind",
        ),
        (
            &[
                "Temporary failure in name resolution",
                "Could not resolve host",
                "Temporary failure resolving",
                "Name or service not known",
                "EAI_AGAIN",
                "Network is unreachable",
                "Connection timed out",
                "No route to host",
                "cannot be reached",
            ],
            "there is no way to that host from here: check the network and name servers of the server, or use a mirror",
        ),
        (
            &["Unable to locate package", "has no installation candidate"],
            "the list of packages is not there or old: run apt-get update first, in the same step, or check the name",
        ),
        (
            &["No matching distribution found", "E404", "404 Not Found"],
            "there is no such package or version: check its name",
        ),
        (
            &[
                "certificate verify failed",
                "self-signed certificate",
                "SSL certificate problem",
                "unable to get local issuer",
            ],
            "the image does not know the authority that signed the certificate: \
             copy its certificate into the image and run update-ca-certificates",
        ),
        (
            &[
                "does not give access",
                "401 Unauthorized",
                "403 Forbidden",
                "denied: requested access",
                "unauthorized: authentication",
            ],
            "it wants other credentials, or any: give the registry's user name and password with the build",
        ),
        (
            &["command not found", "exit status 127", "executable file not found", ": not found"],
            "the image does not have that command: install it in an earlier step, or check its name and PATH",
        ),
        (
            &["exit status 126", "Permission denied", "are you root?", "EACCES"],
            "the step's user may not do that: run it as root (USER root, user=\"root\"), or make the file executable",
        ),
        (
            &["signal: killed", "exit status 137", "Cannot allocate memory", "out of memory"],
            "it was killed, usually for lack of memory: give the template more (memoryMB, --memory)",
        ),
    ];
    HINTS.iter().find(|(signs, _)| signs.iter().any(|sign| text.contains(sign))).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_causes_get_a_hint() {
        for (text, part) in [
            ("sh: 1: foo: not found\nexit status 127", "install it"),
            ("dd: error writing 'x': No space left on device", "larger one"),
            ("curl: (6) Could not resolve host: x", "network"),
            ("registry.lan does not give access to a/b: …", "credentials"),
            ("open: Permission denied", "root"),
            ("signal: killed", "memory"),
            ("E: Unable to locate package x", "apt-get update"),
            ("ERROR: No matching distribution found for x", "check its name"),
        ] {
            assert!(hint(text).is_some_and(|hint| hint.contains(part)), "{text}");
        }
        assert_eq!(hint("exit status 1"), None);
    }

    #[test]
    fn a_failed_command_says_everything() {
        let failure = of_command("3", "make\ninstall", "exit status 2", false, "a\nb");
        assert_eq!(failure.step, "3");
        assert_eq!(failure.message, "failed to run command 'make…': exit status 2\nIts last lines:\na\nb");
        assert!(of_command("1", "x", "exit status 1", true, "").message.contains("more (memoryMB"));
    }
}
