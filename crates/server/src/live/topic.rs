//! What a socket can subscribe to.

use cabana_types::{BuildId, ChatId, Permission, SandboxId, ServiceId};

/// Bytes of a topic's name.
const MAX_NAME: usize = 300;

/// A topic. Its name is what the client wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Events of all sandboxes of the team.
    Sandboxes,
    /// Events of one sandbox.
    Sandbox(SandboxId),
    /// Changes of templates that the team may use.
    Templates,
    /// Log and status of a build.
    Build { template: String, build: BuildId },
    /// What a service does.
    Service(ServiceId),
    /// What chats of the team do.
    Chats,
    /// Events of a chat.
    Chat(ChatId),
    /// The status of the server, from time to time.
    Server,
}

impl Topic {
    /// What a caller needs to subscribe to it.
    pub(crate) fn needs(&self) -> Permission {
        match self {
            Self::Sandboxes | Self::Sandbox(_) | Self::Service(_) | Self::Server => Permission::SandboxesRead,
            Self::Templates | Self::Build { .. } => Permission::TemplatesRead,
            Self::Chats | Self::Chat(_) => Permission::Chats,
        }
    }

    /// Reads a name; `None` if there is no such topic. Whether the team has what it names is not known here.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME {
            return None;
        }
        match name.split_once(':') {
            None => match name {
                "sandboxes" => Some(Self::Sandboxes),
                "chats" => Some(Self::Chats),
                "templates" => Some(Self::Templates),
                "server" => Some(Self::Server),
                _ => None,
            },
            Some(("sandbox", id)) => id.parse().ok().map(Self::Sandbox),
            Some(("chat", id)) => id.parse().ok().map(Self::Chat),
            Some(("service", id)) => id.parse().ok().map(Self::Service),
            Some(("build", rest)) => {
                let (template, build) = rest.rsplit_once('/')?;
                (!template.is_empty()).then_some(())?;
                Some(Self::Build { template: template.to_owned(), build: build.parse().ok()? })
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_read() {
        assert_eq!(Topic::parse("sandboxes"), Some(Topic::Sandboxes));
        assert_eq!(Topic::parse("sandbox:iabc"), "iabc".parse().ok().map(Topic::Sandbox));
        let build = BuildId::from_random([7; 16]);
        let expected = Topic::Build { template: "team/mine".into(), build: build.clone() };
        assert_eq!(Topic::parse(&format!("build:team/mine/{build}")), Some(expected));
        for wrong in ["", "sandbox", "sandbox:", "sandbox:..", "build:x", "build:/", "Sandboxes", "servers", "a:b"] {
            assert_eq!(Topic::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Topic::parse(&format!("build:{}/{build}", "x".repeat(MAX_NAME))), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,400}") {
            let _ = Topic::parse(&text);
            let _ = Topic::parse(&format!("build:{text}"));
            let _ = Topic::parse(&format!("sandbox:{text}"));
        }
    }
}
