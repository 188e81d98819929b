//! Services: commands in a sandbox that people look at through a port. What a service does is computed from what is wanted and what is
//! known of its sandbox and its command, and never stored.

use jiff::{SignedDuration, Timestamp};

use crate::sandbox::State;

/// How long a service may take to open its port.
pub const START_TIME: SignedDuration = SignedDuration::from_secs(60);
/// Services of one sandbox.
pub const MAX_SERVICES: u32 = 100;
/// Links to one service that are valid at the same time.
pub const MAX_LINKS: u32 = 100;
/// Bytes of a name.
pub const MAX_NAME: usize = 40;
/// Bytes of a command.
pub const MAX_COMMAND: usize = 65_536;
/// Lines of output in a description.
pub const LAST_LINES: usize = 20;
/// Characters of one of them.
pub const MAX_LINE: usize = 500;
/// Longest life of a link in seconds (30 days).
pub const MAX_LINK_SECONDS: u64 = 30 * 24 * 3600;
/// Life of a link in seconds, unless asked otherwise.
pub const LINK_SECONDS: u64 = 3600;

word! {
    /// What a service does.
    ServiceState {
        /// Its command was started, and its port is not open yet.
        #[default]
        Starting => "starting",
        /// Its port is open.
        Running => "running",
        /// Its sandbox is paused.
        Suspended => "suspended",
        /// It was stopped, or its sandbox has ended.
        Stopped => "stopped",
        /// It ended by itself, or opens no port.
        Error => "error",
    }
}

word! {
    /// Who may see a service.
    Access {
        /// People of the team who are signed in, and programs with a key of it.
        #[default]
        Private => "private",
        /// Also whoever has a link.
        Link => "link",
        /// Everyone.
        Public => "public",
    }
}

word! {
    /// What happens when a sandbox boots again from its disk.
    OnWake {
        /// The command is started again.
        #[default]
        Restart => "restart",
        /// Nothing.
        Leave => "leave",
    }
}

word! {
    /// Which host the service's program sees.
    HostMode {
        /// `localhost:PORT`, which development servers expect.
        #[default]
        Local => "local",
        /// The one in the address.
        Public => "public",
    }
}

/// What is known of a service's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// It is to be started.
    Pending,
    /// It was started and has not ended, as far as is known.
    Alive {
        /// When it was started, or its sandbox resumed.
        since: Timestamp,
        /// Whether something listens on its port; `None` if that is not known.
        open: Option<bool>,
    },
    /// It has ended without being asked to.
    Ended {
        /// What happened.
        reason: String,
    },
}

/// A state with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub state: ServiceState,
    /// Why, if that is not obvious.
    pub reason: Option<String>,
}

/// Computes the state of a service. `up`: whether it is to run. `port`: the one that it was asked or found to use.
pub fn outcome(up: bool, sandbox: &State, run: &Run, port: Option<u16>, now: Timestamp) -> Outcome {
    let just = |state| Outcome { state, reason: None };
    let because = |state, reason: String| Outcome { state, reason: Some(reason) };
    match sandbox {
        State::Ending { cause } | State::Ended { cause } => {
            because(ServiceState::Stopped, format!("the sandbox {}", cause.describe()))
        }
        _ if !up => just(ServiceState::Stopped),
        State::Failed { cause } => because(ServiceState::Error, format!("the sandbox {}", cause.describe())),
        State::Pausing { .. } | State::Paused { .. } | State::Archiving { .. } => match run {
            // What has ended does not come back by waking.
            Run::Ended { reason } => because(ServiceState::Error, reason.clone()),
            _ => just(ServiceState::Suspended),
        },
        State::Creating | State::Resuming { .. } | State::Running => match run {
            Run::Ended { reason } => because(ServiceState::Error, reason.clone()),
            Run::Pending => just(ServiceState::Starting),
            Run::Alive { open: Some(true), .. } => just(ServiceState::Running),
            Run::Alive { since, .. } if now.duration_since(*since) < START_TIME => just(ServiceState::Starting),
            Run::Alive { .. } => because(
                ServiceState::Error,
                match port {
                    Some(port) => format!("nothing listens on port {port}"),
                    None => "it listens on no port; say which one it will use".to_owned(),
                },
            ),
        },
    }
}

/// Whether a text can be the name of a service: a word for people and URLs.
pub fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with(['-', '_'])
}

/// Names below the domain that are not given away.
const RESERVED: [&str; 16] = [
    "api", "sandbox", "www", "console", "app", "admin", "auth", "login", "mail", "static", "cdn", "docs", "status",
    "live", "mcp", "ns",
];

/// Whether a text can be the name of a public service below the domain. Names of sandboxes' ports and of grants cannot.
pub fn is_slug(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (3..=40).contains(&text.len())
        && text.bytes().all(inner)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && !text.contains("--")
        && !RESERVED.contains(&text)
        && !is_grant_label(text)
}

/// Beginning of the host name of a grant.
const GRANT_PREFIX: char = 'p';
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Whether the first label of a host name is that of a grant.
pub fn is_grant_label(label: &str) -> bool {
    label.len() == 27 && label.strip_prefix(GRANT_PREFIX).is_some_and(|rest| rest.bytes().all(|b| BASE32.contains(&b)))
}

/// The label of a grant: 130 bits of `secret`.
pub fn grant_label(secret: &[u8; 32]) -> String {
    let digits = (0..26).map(|place| {
        let bit = place * 5;
        let pair = u16::from(secret[bit / 8]) << 8 | u16::from(secret[bit / 8 + 1]);
        BASE32[usize::from(pair >> (11 - bit % 8) & 31)] as char
    });
    std::iter::once(GRANT_PREFIX).chain(digits).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sandbox::{EndCause, Kept, PauseCause};

    fn sandboxes() -> Vec<State> {
        let why = || PauseCause::Idle;
        vec![
            State::Creating,
            State::Running,
            State::Pausing { to: Kept::Ram, why: why() },
            State::Paused { kept: Kept::Disk, why: why() },
            State::Resuming { from: Kept::Ram, why: why() },
            State::Archiving { generation: 1, whole: true, why: why() },
            State::Failed { cause: EndCause::GuestDied },
            State::Ending { cause: EndCause::Killed { by: "k".into() } },
            State::Ended { cause: EndCause::Expired },
        ]
    }

    fn runs() -> impl Strategy<Value = Run> {
        prop_oneof![
            Just(Run::Pending),
            (0i64..200, prop::option::of(any::<bool>()))
                .prop_map(|(ago, open)| Run::Alive { since: at(1000 - ago), open }),
            Just(Run::Ended { reason: "exit status 1".into() }),
        ]
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("time")
    }

    proptest! {
        /// Whatever is known: nothing runs in a sandbox that does not, what is not wanted is stopped, and `starting` ends.
        #[test]
        fn states_follow_from_facts(up: bool, sandbox in prop::sample::select(sandboxes()), run in runs(), port: Option<u16>) {
            let outcome = outcome(up, &sandbox, &run, port, at(1000));
            let sandbox_runs = matches!(sandbox, State::Creating | State::Running | State::Resuming { .. });
            match outcome.state {
                ServiceState::Running => {
                    let is_open = matches!(run, Run::Alive { open: Some(true), .. });
                    prop_assert!(up && sandbox_runs && is_open);
                }
                ServiceState::Starting => {
                    let is_young = match run {
                        Run::Pending => true,
                        Run::Alive { since, .. } => at(1000).duration_since(since) < START_TIME,
                        Run::Ended { .. } => false,
                    };
                    prop_assert!(up && sandbox_runs && is_young);
                }
                ServiceState::Suspended => prop_assert!(up && !sandbox_runs && sandbox.cause().is_none()),
                ServiceState::Stopped => prop_assert!(!up || sandbox.cause().is_some()),
                ServiceState::Error => prop_assert!(up && outcome.reason.is_some()),
            }
        }

        #[test]
        fn labels_of_grants_are_recognised(secret: [u8; 32], text in "\\PC{0,40}") {
            let label = grant_label(&secret);
            prop_assert!(is_grant_label(&label) && !is_slug(&label));
            if is_slug(&text) {
                let host = format!("{text}.e.test");
                prop_assert_eq!(crate::routing::parse_host(&host), crate::routing::HostLabel::Other);
            }
        }
    }

    #[test]
    fn names() {
        for name in ["web", "a", "api-2", "my_app", "0"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "A", "a b", "a/b", "ä", "a.b", &"x".repeat(41)] {
            assert!(!is_name(name), "{name}");
        }
        for slug in ["shop", "my-shop-2"] {
            assert!(is_slug(slug), "{slug}");
        }
        for slug in ["", "ab", "api", "8080-iabc", "a--b", "a-", "-ab", "a_b", "Shop", "a.b", &"x".repeat(41)] {
            assert!(!is_slug(slug), "{slug}");
        }
    }

    #[test]
    fn every_bit_of_a_label_counts() {
        assert_eq!(grant_label(&[0; 32]), format!("p{}", "a".repeat(26)));
        assert_eq!(grant_label(&[255; 32]), format!("p{}", "7".repeat(26)));
        for bit in 0..130 {
            let mut secret = [0; 32];
            secret[bit / 8] = 128 >> (bit % 8);
            assert_ne!(grant_label(&secret), grant_label(&[0; 32]), "{bit}");
        }
    }
}
