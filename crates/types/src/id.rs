//! Identifiers. They are validated when parsed, so that it is safe to use them in host names, paths and log lines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind}: expected {expected}")]
pub struct InvalidId {
    /// Kind of id.
    pub kind: &'static str,
    /// Expected form.
    pub expected: &'static str,
}

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Spells 20 characters of `[0-9a-z]` from random bytes: 103 bits.
fn spell(random: [u8; 20]) -> String {
    // 36 does not divide 256; the bias (7 values instead of 8 for four letters) costs 0.02 bits a character.
    random.iter().map(|b| ALPHABET[usize::from(*b) % 36] as char).collect()
}

fn is_spelled(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
}

/// Spells a version 4 UUID from random bytes.
fn spell_uuid(mut random: [u8; 16]) -> String {
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    let hex: String = random.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}

/// Crockford's base 32 in lower case: no letters that look like others.
const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Spells 128 bits as 26 characters of base 32, so that the order of the texts is the order of the bits.
fn spell_base32(bits: [u8; 16]) -> String {
    let bits = u128::from_be_bytes(bits);
    (0..26).rev().map(|place| BASE32[usize::try_from(bits >> (5 * place) & 31).unwrap_or_default()] as char).collect()
}

fn is_base32(text: &str) -> bool {
    // 26 characters have two bits more than there are: the first one is at most 7.
    text.len() == 26 && text.as_bytes()[0] <= b'7' && text.bytes().all(|b| BASE32.contains(&b))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $expected:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { kind: $kind, expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Ids that are a prefix and 20 random characters.
macro_rules! random_id {
    ($name:ident, $prefix:literal) => {
        impl $name {
            /// Makes an id from random bytes.
            pub fn from_random(random: [u8; 20]) -> Self {
                Self(format!(concat!($prefix, "{}"), spell(random)))
            }
        }
    };
}

id!(
    /// A sandbox: `i` and 20 characters. It is part of host names (`port-id.domain`), so it contains no `-`.
    SandboxId, "sandbox id", "1 to 32 characters of a-z and 0-9",
    |t| (1..=32).contains(&t.len()) && is_spelled(t)
);
id!(
    /// A template: 20 characters.
    TemplateId, "template id", "20 characters of a-z and 0-9",
    |t| t.len() == 20 && is_spelled(t)
);
id!(
    /// One build of a template: a UUID in lower case.
    BuildId, "build id", "a lower-case UUID",
    is_uuid
);
id!(
    /// A team, the owner of sandboxes, keys and templates.
    TeamId, "team id", "1 to 36 characters of a-z, 0-9 and -",
    |t| (1..=36).contains(&t.len()) && t.bytes().all(|b| b == b'-' || b.is_ascii_digit() || b.is_ascii_lowercase())
);
id!(
    /// A project of a team: `prj_` and 20 characters, or the id of the team for its default project.
    ProjectId, "project id", "prj_ and 20 characters of a-z and 0-9, or a team id",
    |t| match t.strip_prefix("prj_") {
        Some(rest) => rest.len() == 20 && is_spelled(rest),
        None => t.parse::<TeamId>().is_ok(),
    }
);

impl ProjectId {
    /// The default project of a team.
    pub fn default_of(team: &TeamId) -> Self {
        Self(team.as_str().to_owned())
    }

    /// Makes an id from random bytes.
    pub fn from_random(random: [u8; 20]) -> Self {
        Self(format!("prj_{}", spell(random)))
    }

    /// Whether it is the default project of its team.
    pub fn is_default(&self) -> bool {
        !self.0.starts_with("prj_")
    }
}
random_id!(TeamId, "team-");
id!(
    /// An invitation: `inv_` and 20 characters.
    InvitationId, "invitation id", "inv_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("inv_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(InvitationId, "inv_");
id!(
    /// Public id of an API key (never the key itself).
    KeyId, "key id", "a lower-case UUID",
    is_uuid
);
id!(
    /// A webhook.
    WebhookId, "webhook id", "a lower-case UUID",
    is_uuid
);

id!(
    /// A secret: a TypeID, so that a text is never both an id and a name.
    SecretId, "secret id", "sec_ and 26 characters of base 32",
    |t| t.strip_prefix(SecretId::PREFIX).is_some_and(is_base32)
);

impl SecretId {
    /// Beginning of every id.
    pub const PREFIX: &str = "sec_";

    /// Makes an id from a UUID; those of version 7 sort by time.
    pub fn from_uuid(uuid: [u8; 16]) -> Self {
        Self(format!("{}{}", Self::PREFIX, spell_base32(uuid)))
    }
}

id!(
    /// A call of a tool: `call_` and 20 characters.
    CallId, "call id", "call_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("call_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(CallId, "call_");

id!(
    /// A person who signs in: `usr_` and 20 characters.
    UserId, "user id", "usr_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("usr_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(UserId, "usr_");

id!(
    /// Public id of a session (never its token): `ses_` and 20 characters.
    SessionId, "session id", "ses_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("ses_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(SessionId, "ses_");

id!(
    /// A service: `svc_` and 20 characters.
    ServiceId, "service id", "svc_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("svc_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(ServiceId, "svc_");

id!(
    /// Public id of a grant (never its name): `grt_` and 20 characters.
    GrantId, "grant id", "grt_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("grt_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(GrantId, "grt_");

impl SandboxId {
    /// Makes an id from random bytes.
    pub fn from_random(random: [u8; 20]) -> Self {
        Self(format!("i{}", spell(random)))
    }
}

impl TemplateId {
    /// Makes an id from random bytes.
    pub fn from_random(random: [u8; 20]) -> Self {
        Self(spell(random))
    }
}

impl KeyId {
    /// Makes a version 4 UUID from random bytes.
    pub fn from_random(random: [u8; 16]) -> Self {
        Self(spell_uuid(random))
    }
}

impl WebhookId {
    /// Makes a version 4 UUID from random bytes.
    pub fn from_random(random: [u8; 16]) -> Self {
        Self(spell_uuid(random))
    }
}

impl BuildId {
    /// Makes a version 4 UUID from random bytes.
    pub fn from_random(random: [u8; 16]) -> Self {
        Self(spell_uuid(random))
    }
}

id!(
    /// A chat: `chat_` and 20 characters.
    ChatId, "chat id", "chat_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("chat_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(ChatId, "chat_");

id!(
    /// A message of a chat: `msg_` and 20 characters.
    MessageId, "message id", "msg_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("msg_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(MessageId, "msg_");

id!(
    /// A turn of a chat: `turn_` and 20 characters.
    TurnId, "turn id", "turn_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("turn_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(TurnId, "turn_");

id!(
    /// A file of a chat: an upload or an artifact: `att_` and 20 characters.
    AttachmentId, "attachment id", "att_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("att_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(AttachmentId, "att_");

id!(
    /// A configured agent: `agent_` and 20 characters.
    AgentId, "agent id", "agent_ and 20 characters of a-z and 0-9",
    |t| t.strip_prefix("agent_").is_some_and(|rest| rest.len() == 20 && is_spelled(rest))
);

random_id!(AgentId, "agent_");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secret_ids_are_type_ids() {
        // The example of the TypeID specification, 01890a5d-ac96-774b-bcce-b302099a8057.
        let uuid = 0x0189_0a5d_ac96_774b_bcce_b302_099a_8057_u128.to_be_bytes();
        assert_eq!(SecretId::from_uuid(uuid).as_str(), "sec_01h455vb4pex5vsknk084sn02q");
        for text in
            ["sec_", "sec_81h455vb4pex5vsknk084sn02q", "sec_01h455vb4pex5vsknk084sn02l", "01h455vb4pex5vsknk084sn02q"]
        {
            assert!(text.parse::<SecretId>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn made_ids_parse_back(a in any::<[u8; 20]>(), b in any::<[u8; 16]>()) {
            let sandbox = SandboxId::from_random(a);
            prop_assert_eq!(sandbox.as_str().parse::<SandboxId>(), Ok(sandbox.clone()));
            prop_assert_eq!(sandbox.as_str().len(), 21);
            let secret = SecretId::from_uuid(b);
            prop_assert_eq!(secret.as_str().parse::<SecretId>(), Ok(secret.clone()));
            let build = BuildId::from_random(b);
            prop_assert_eq!(build.as_str().parse::<BuildId>(), Ok(build.clone()));
        }

        #[test]
        fn secret_ids_sort_like_their_uuids(a in any::<[u8; 16]>(), b in any::<[u8; 16]>()) {
            prop_assert_eq!(SecretId::from_uuid(a).cmp(&SecretId::from_uuid(b)), a.cmp(&b));
        }

        #[test]
        fn a_sandbox_id_is_safe_in_a_path_and_a_host_name(text in "\\PC{0,40}") {
            if let Ok(id) = text.parse::<SandboxId>() {
                prop_assert!(!id.as_str().is_empty());
                prop_assert!(id.as_str().bytes().all(|b| b.is_ascii_alphanumeric()));
            }
        }
    }
}
