//! How a command ended, and its exit code as a shell reports it.

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Whether it exited, as opposed to being killed by a signal.
    pub exited: bool,
    /// Description: `exit status 1`, `signal: killed`.
    pub status: String,
    /// Set when it failed.
    pub error: Option<String>,
}

/// Names of signals in the guest's messages, as in E2B's.
const SIGNALS: &[(&str, u8)] = &[
    ("hangup", 1),
    ("interrupt", 2),
    ("quit", 3),
    ("illegal instruction", 4),
    ("trace/breakpoint trap", 5),
    ("aborted", 6),
    ("bus error", 7),
    ("floating point exception", 8),
    ("killed", 9),
    ("user defined signal 1", 10),
    ("segmentation fault", 11),
    ("user defined signal 2", 12),
    ("broken pipe", 13),
    ("alarm clock", 14),
    ("terminated", 15),
    ("stack fault", 16),
    ("cpu time limit exceeded", 24),
    ("file size limit exceeded", 25),
    ("virtual timer expired", 26),
    ("profiling timer expired", 27),
    ("power failure", 30),
    ("bad system call", 31),
];

impl Exit {
    /// Whether it succeeded.
    pub fn is_success(&self) -> bool {
        self.exited && self.code == 0
    }

    /// The signal that killed it.
    pub fn signal(&self) -> Option<u8> {
        let text = self.status.strip_prefix("signal: ")?;
        let name = text.strip_suffix(" (core dumped)").unwrap_or(text).to_ascii_lowercase();
        let known = SIGNALS.iter().find(|(word, _)| *word == name).map(|(_, number)| *number);
        known.or_else(|| name.strip_prefix("signal ").unwrap_or(&name).parse().ok().filter(|n| (1..=64).contains(n)))
    }

    /// The exit code as a shell reports it: 128 plus the number for a signal.
    pub fn shell_code(&self) -> u8 {
        if let Some(signal) = self.signal() {
            return 128 + signal;
        }
        // Ended by something unknown: as if killed.
        u8::try_from(self.code).unwrap_or(137)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exit(code: i32, exited: bool, status: &str) -> Exit {
        Exit { code, exited, status: status.to_owned(), error: None }
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit(0, true, "exit status 0").shell_code(), 0);
        assert_eq!(exit(7, true, "exit status 7").shell_code(), 7);
        assert_eq!(exit(-1, false, "signal: killed").shell_code(), 137);
        assert_eq!(exit(-1, false, "signal: terminated").shell_code(), 143);
        assert_eq!(exit(-1, false, "signal: segmentation fault (core dumped)").shell_code(), 139);
        assert_eq!(exit(-1, false, "signal: signal 34").shell_code(), 162);
        assert_eq!(exit(-1, false, "who knows").shell_code(), 137);
    }

    proptest! {
        #[test]
        fn never_panics(code in any::<i32>(), status in "(signal: )?\\PC{0,20}") {
            let _ = exit(code, false, &status).shell_code();
        }
    }
}
