//! Users and groups of the image, parsed from `/etc/passwd` and `/etc/group`: the static binary has no NSS. The files
//! are untrusted, so they are read with limits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::open;

const MAX_FILE: usize = 1 << 20;
/// Limit on groups per user; the kernel's own limit is 65,536.
const MAX_GROUPS: usize = 1024;

/// A user of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    /// Primary group.
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
}

impl Account {
    /// Root, for an image without a usable `/etc/passwd`.
    fn root() -> Self {
        Self { name: "root".to_owned(), uid: 0, gid: 0, home: PathBuf::from("/root") }
    }
}

/// Finds an account by name or number, with an optional group, as in an image's `USER`: `user`, `1000:staff`.
pub(crate) fn find(name: &str) -> Option<Account> {
    find_in(&read("/etc/passwd"), &read("/etc/group"), name)
}

/// The default account: the configured user, or root if the image lacks it.
pub(crate) fn find_or_root(name: &str) -> Account {
    let passwd = read("/etc/passwd");
    let group = read("/etc/group");
    find_in(&passwd, &group, name).or_else(|| find_in(&passwd, &group, "root")).unwrap_or_else(Account::root)
}

fn find_in(passwd: &str, group: &str, name: &str) -> Option<Account> {
    if let Some(found) = accounts(passwd).find(|a| a.name == name) {
        return Some(found);
    }
    if name == "root" {
        return Some(Account::root());
    }
    let (user, chosen) = match name.split_once(':') {
        Some((user, chosen)) => (user, Some(chosen)),
        None => (name, None),
    };
    let gid = match chosen {
        Some(chosen) => Some(gid_in(group, chosen)?),
        None => None,
    };
    let mut account = match accounts(passwd).find(|a| a.name == user) {
        Some(account) => account,
        None if user == "root" => Account::root(),
        None => {
            let uid = id(user)?;
            let known = accounts(passwd).find(|a| a.uid == uid);
            known.unwrap_or_else(|| Account { name: uid.to_string(), uid, gid: 0, home: PathBuf::from("/") })
        }
    };
    account.gid = gid.unwrap_or(account.gid);
    Some(account)
}

/// Group id by name or number.
fn gid_in(group: &str, name: &str) -> Option<u32> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        id(fields.nth(1)?)
    };
    group.lines().find_map(of).or_else(|| id(name))
}

/// All groups of the account, the primary one first.
pub(crate) fn groups_of(account: &Account) -> Vec<u32> {
    groups_in(&read("/etc/group"), account)
}

fn groups_in(group: &str, account: &Account) -> Vec<u32> {
    let mut gids = vec![account.gid];
    for line in group.lines() {
        let mut fields = line.split(':');
        let gid = fields.nth(2).and_then(id);
        let (Some(gid), Some(members)) = (gid, fields.next()) else { continue };
        if gids.len() < MAX_GROUPS && !gids.contains(&gid) && members.split(',').any(|m| m.trim() == account.name) {
            gids.push(gid);
        }
    }
    gids
}

/// Names of ids, for listings; read once per request.
pub(crate) struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    /// Reads both files.
    pub(crate) fn read() -> Self {
        let mut users = HashMap::new();
        for account in accounts(&read("/etc/passwd")) {
            users.entry(account.uid).or_insert(account.name);
        }
        let mut groups = HashMap::new();
        for line in read("/etc/group").lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(gid)) = (fields.next(), fields.nth(1).and_then(id)) {
                groups.entry(gid).or_insert_with(|| name.to_owned());
            }
        }
        Self { users, groups }
    }

    /// The user's name, or the id as text.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The group's name, or the id as text.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.groups.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
    }
}

fn accounts(passwd: &str) -> impl Iterator<Item = Account> {
    passwd.lines().filter_map(account)
}

fn account(line: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|n| !n.is_empty() && !n.starts_with('#'))?;
    let _password = fields.next()?;
    let uid = id(fields.next()?)?;
    let gid = id(fields.next()?)?;
    let _comment = fields.next()?;
    let home = fields.next().filter(|h| h.starts_with('/')).unwrap_or("/");
    Some(Account { name: name.to_owned(), uid, gid, home: PathBuf::from(home) })
}

/// Parses an id. `u32::MAX` is not an id: the kernel treats it as "unchanged".
fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| *n != u32::MAX)
}

fn read(path: &str) -> String {
    open::read_small(Path::new(path), MAX_FILE)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n# note\nbroken\nuser:x:1000:1001:,,,:/home/user:/bin/bash\n\
                          odd:x:4294967295:0::/:/bin/sh\nnohome:x:7:7:::\n";
    const GROUP: &str =
        "root:x:0:\nsudo:x:27:user,other\nuser:x:1001:\ndocker:x:999: user \nbad:x:z:user\nsudo2:x:27:user\n";

    #[test]
    fn finds_by_name_and_number() {
        let user = find_in(PASSWD, GROUP, "user").unwrap();
        assert_eq!((user.uid, user.gid, user.home.to_str().unwrap()), (1000, 1001, "/home/user"));
        assert_eq!(find_in(PASSWD, GROUP, "1000").unwrap(), user);
        assert_eq!(find_in(PASSWD, GROUP, "1000:5").unwrap().gid, 5);
        assert_eq!(find_in(PASSWD, GROUP, "4242").unwrap().home, PathBuf::from("/"));
        assert_eq!(find_in(PASSWD, GROUP, "nohome").unwrap().home, PathBuf::from("/"));
        for (name, ids) in
            [("user:sudo", (1000, 27)), ("1000:docker", (1000, 999)), ("user:5", (1000, 5)), ("root:user", (0, 1001))]
        {
            let found = find_in(PASSWD, GROUP, name).unwrap();
            assert_eq!((found.uid, found.gid), ids, "{name}");
        }
        assert_eq!(find_in("", "", "root").unwrap().uid, 0);
        for missing in ["nobody-here", "odd", "4294967295", "", "-1", "1:", ":", "user:nogroup", "nobody:user"] {
            assert_eq!(find_in(PASSWD, GROUP, missing), None, "{missing}");
        }
    }

    #[test]
    fn supplementary_groups() {
        assert_eq!(groups_in(GROUP, &find_in(PASSWD, GROUP, "user").unwrap()), [1001, 27, 999]);
        assert_eq!(groups_in(GROUP, &find_in(PASSWD, GROUP, "root").unwrap()), [0]);
    }

    proptest! {
        #[test]
        fn any_text_never_panics(passwd in "\\PC{0,200}", name in "\\PC{0,20}") {
            if let Some(account) = find_in(&passwd, "", &name) {
                prop_assert!(account.home.is_absolute());
                prop_assert_ne!(account.uid, u32::MAX);
                groups_in(&passwd, &account);
            }
        }
    }
}
