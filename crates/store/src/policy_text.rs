//! The text of egress policies in the database. A large one takes longer to read and write than everything else of its
//! row, and every step of a sandbox reads the row: so the last large ones are kept, and rows with the same text share
//! one policy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::egress::EgressPolicy;

use crate::{Error, column};

/// Texts that are kept: less than 50 MB, because a policy has a limited number of entries of limited length.
const KEPT: usize = 32;
/// Bytes of a text that is worth keeping.
const LARGE: usize = 1024;

const COLUMN: &str = "egress";

#[derive(Debug, Clone)]
struct Known {
    text: Arc<str>,
    policy: Arc<EgressPolicy>,
}

/// The large policies that were used last, the latest in front.
static RECENT: Mutex<VecDeque<Known>> = Mutex::new(VecDeque::new());

fn recent() -> MutexGuard<'static, VecDeque<Known>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds one and moves it to the front.
fn find(wanted: impl Fn(&Known) -> bool) -> Option<Known> {
    let mut recent = recent();
    let position = recent.iter().position(wanted)?;
    let known = recent.remove(position)?;
    recent.push_front(known.clone());
    Some(known)
}

/// Keeps a policy, unless it may have credentials: those are forgotten with their sandbox.
fn keep(text: &Arc<str>, policy: &Arc<EgressPolicy>) {
    if policy.may_have_credentials() {
        return;
    }
    let mut recent = recent();
    recent.truncate(KEPT - 1);
    recent.push_front(Known { text: Arc::clone(text), policy: Arc::clone(policy) });
}

/// The policy of a text.
pub(crate) fn read(text: &str) -> Result<Arc<EgressPolicy>, Error> {
    let parse = || serde_json::from_str(text).map(Arc::new).map_err(|e| Error::decode(COLUMN, e));
    if text.len() < LARGE {
        return parse();
    }
    if let Some(known) = find(|known| *known.text == *text) {
        return Ok(known.policy);
    }
    let policy = parse()?;
    keep(&text.into(), &policy);
    Ok(policy)
}

/// The text of a policy.
pub(crate) fn write(policy: &Arc<EgressPolicy>) -> Result<Arc<str>, Error> {
    let is_large = policy.allow_out.len() + policy.deny_out.len() > LARGE / 16;
    let same = |known: &Known| Arc::ptr_eq(&known.policy, policy) || known.policy == *policy;
    if is_large && let Some(known) = find(same) {
        return Ok(known.text);
    }
    let text: Arc<str> = column::json(COLUMN, policy.as_ref())?.into();
    if is_large {
        keep(&text, policy);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(first: usize) -> Arc<EgressPolicy> {
        let allow_out = (first..first + 200).map(|n| format!("host{n}.example.com").parse().unwrap()).collect();
        Arc::new(EgressPolicy { allow_out, ..EgressPolicy::offline() })
    }

    /// One test, because all threads share what is kept.
    #[test]
    fn equal_texts_share_a_policy_until_it_is_forgotten() {
        let policy = large(0);
        let text = write(&policy).unwrap();
        assert!(Arc::ptr_eq(&read(&text).unwrap(), &policy));
        assert!(Arc::ptr_eq(&write(&large(0)).unwrap(), &text), "an equal one");
        let other = write(&large(1)).unwrap();
        assert_eq!(read(&other).unwrap(), large(1));
        assert_ne!(read(&other).unwrap(), policy);

        let text = write(&large(1000)).unwrap();
        for n in 0..2 * KEPT {
            write(&large(2000 + n)).unwrap();
        }
        assert!(recent().len() <= KEPT);
        assert_eq!(read(&text).unwrap(), large(1000));
    }

    #[test]
    fn small_ones_are_not_kept() {
        let text = write(&Arc::new(EgressPolicy::offline())).unwrap();
        assert_eq!(&*text, r#"{"denyOut":["0.0.0.0/0"]}"#);
        assert_eq!(*read(&text).unwrap(), EgressPolicy::offline());
        assert!(recent().iter().all(|known| known.text != text));
        assert!(read("5").is_err());
    }
}
