//! What callers may do: permissions, the roles of people in a team, and the scopes of API keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::code_enum::code_enum;

code_enum! {
    /// What a request needs, and what a role or the scopes of an API key give.
    Permission, "What a role or an API key may do.", {
        /// See sandboxes, their events, logs and metrics.
        SandboxesRead => "sandboxes:read",
        /// Create, change and kill sandboxes; secrets and webhooks.
        SandboxesWrite => "sandboxes:write",
        /// Work inside sandboxes: tools, files, terminals.
        Tools => "tools",
        /// See templates, builds and snapshots.
        TemplatesRead => "templates:read",
        /// Build, change and delete templates.
        TemplatesWrite => "templates:write",
        /// Chats with models, agents and model providers.
        Chats => "chats",
        /// Services of sandboxes, and who may see them.
        ServicesPublish => "services:publish",
        /// What the team has used.
        UsageRead => "usage:read",
        /// The team's API keys.
        Keys => "keys",
        /// Members, their roles, and invitations.
        Members => "members",
        /// Who did what in the team.
        AuditRead => "audit:read",
        /// The server itself: teams, users, checks of the machine.
        Admin => "admin",
    }
}

code_enum! {
    /// The role of a person in a team.
    Role, "The role of a person in a team.", {
        /// May do everything in the team; a team always has one.
        Owner => "owner",
        /// Like an owner, but cannot change owners.
        Admin => "admin",
        /// Works with sandboxes, templates, chats and keys.
        Developer => "developer",
        /// Sees what the team has used.
        Billing => "billing",
        /// Sees sandboxes and templates, and changes nothing.
        Viewer => "viewer",
    }
}

/// A text that names no permission or role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what}; choose from: {choices}")]
pub struct UnknownName {
    what: &'static str,
    choices: String,
}

impl FromStr for Permission {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName { what: "scope", choices: Permissions::ALL.to_string() };
        Self::ALL.iter().copied().find(|permission| permission.as_str() == text).ok_or_else(unknown)
    }
}

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let names: Vec<_> = Self::ALL.iter().map(|role| role.as_str()).collect();
        let unknown = || UnknownName { what: "role", choices: names.join(", ") };
        Self::ALL.iter().copied().find(|role| role.as_str() == text).ok_or_else(unknown)
    }
}

impl Role {
    /// What people of this role may do in their team. Changing the server is no matter of roles.
    pub fn permissions(self) -> Permissions {
        use Permission::{SandboxesRead, TemplatesRead, UsageRead};
        match self {
            Self::Owner | Self::Admin => Permissions::ALL.without(Permission::Admin),
            Self::Developer => {
                Permissions::ALL.without(Permission::Admin).without(Permission::Members).without(Permission::AuditRead)
            }
            Self::Billing => Permissions::of(&[UsageRead]),
            Self::Viewer => Permissions::of(&[SandboxesRead, TemplatesRead, UsageRead]),
        }
    }

    /// Whether somebody of this role may give another role to a person, or take it away.
    pub fn may_grant(self, role: Role) -> bool {
        self == Self::Owner || (self == Self::Admin && role != Self::Owner)
    }
}

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Permission>", into = "Vec<Permission>")]
pub struct Permissions(u16);

impl Permissions {
    /// What somebody without a role or scope may do.
    pub const NONE: Self = Self(0);
    /// What the server's own key may do.
    pub const ALL: Self = Self((1 << Permission::ALL.len()) - 1);
    /// What a key gets that names no scopes: all that E2B's keys can do. Changing people or the
    /// server, and reading the audit log, must be asked for.
    pub const PLAIN_KEY: Self =
        Self::ALL.without(Permission::Admin).without(Permission::Members).without(Permission::AuditRead);

    /// The set of some permissions.
    pub fn of(permissions: &[Permission]) -> Self {
        permissions.iter().copied().collect()
    }

    /// The set and one more.
    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Self(self.0 | 1 << permission as u16)
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, permission: Permission) -> Self {
        Self(self.0 & !(1 << permission as u16))
    }

    /// Whether it has a permission.
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u16) != 0
    }

    /// What both sets have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What it has that another one does not.
    #[must_use]
    pub const fn beyond(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its permissions, in the order of their definition.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |permission| self.has(*permission))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<T: IntoIterator<Item = Permission>>(permissions: T) -> Self {
        permissions.into_iter().fold(Self::NONE, Self::with)
    }
}

impl From<Vec<Permission>> for Permissions {
    fn from(permissions: Vec<Permission>) -> Self {
        permissions.into_iter().collect()
    }
}

impl From<Permissions> for Vec<Permission> {
    fn from(permissions: Permissions) -> Self {
        permissions.iter().collect()
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Permission::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn roles_give_what_the_documentation_says() {
        let list = |role: Role| role.permissions().to_string();
        let everything = "sandboxes:read, sandboxes:write, tools, templates:read, templates:write, chats, services:publish, \
                          usage:read, keys";
        assert_eq!(list(Role::Owner), format!("{everything}, members, audit:read"));
        assert_eq!(list(Role::Admin), list(Role::Owner));
        assert_eq!(list(Role::Developer), everything);
        assert_eq!(list(Role::Billing), "usage:read");
        assert_eq!(list(Role::Viewer), "sandboxes:read, templates:read, usage:read");
        assert_eq!(Permissions::PLAIN_KEY.to_string(), everything);
        assert!(Role::ALL.iter().all(|role| !role.permissions().has(Permission::Admin)));
    }

    #[test]
    fn nobody_grants_a_role_above_their_own() {
        for (by, granted) in Role::ALL.iter().flat_map(|by| Role::ALL.iter().map(move |granted| (*by, *granted))) {
            if by.may_grant(granted) {
                assert!(granted.permissions().beyond(by.permissions()).is_empty(), "{by} {granted}");
                assert!(by.permissions().has(Permission::Members), "{by}");
            }
        }
        assert!(Role::Owner.may_grant(Role::Owner) && !Role::Admin.may_grant(Role::Owner));
        assert!(Role::Admin.may_grant(Role::Admin) && !Role::Developer.may_grant(Role::Viewer));
    }

    #[test]
    fn names_are_parsed() {
        for permission in Permission::ALL {
            assert_eq!(permission.as_str().parse(), Ok(*permission));
        }
        assert_eq!("owner".parse(), Ok(Role::Owner));
        assert!("boss".parse::<Role>().expect_err("no role").to_string().contains("developer, billing"));
        assert!("Tools".parse::<Permission>().is_err());
    }

    proptest! {
        #[test]
        fn sets_are_sets(a in 0u16..4096, b in 0u16..4096) {
            let (a, b) = (Permissions(a), Permissions(b));
            prop_assert_eq!(a.iter().collect::<Permissions>(), a);
            prop_assert_eq!(a.and(b).beyond(a), Permissions::NONE);
            prop_assert_eq!(a.beyond(b).and(b), Permissions::NONE);
            for permission in Permission::ALL {
                prop_assert_eq!(a.and(b).has(*permission), a.has(*permission) && b.has(*permission));
                prop_assert!(a.with(*permission).has(*permission) && !a.without(*permission).has(*permission));
            }
        }
    }
}
