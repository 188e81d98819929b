//! `POST /edit`: changes several files, all of them or none. Every change is checked and its new content written beside its place first;
//! then files are exchanged by renames, and what was there before is kept until the last one has succeeded.

pub(super) mod doomed;
pub(super) mod plan;
mod transaction;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cabana_types::guest::tools::{Changed, Edit, EditAnswer};
use cabana_types::tool::ToolErrorCode as Code;

use super::Cancel;
use super::place::Place;
use super::refuse::{self, Refused, about, plain};
use plan::{Act, Plan};
use transaction::Transaction;
pub(super) use transaction::{beside, rename_new};

const MAX_CHANGES: usize = 1000;

/// Held while files are put in place, or back.
static COMMIT: Mutex<()> = Mutex::new(());

/// Makes the changes.
pub(crate) fn edit(request: Edit, place: &Place, cancel: &Cancel) -> Result<EditAnswer, Refused> {
    if request.changes.is_empty() || request.changes.len() > MAX_CHANGES {
        return Err(plain(Code::InvalidArguments, format!("an edit must have 1 to {MAX_CHANGES} changes")));
    }
    let mut plans = Vec::with_capacity(request.changes.len());
    for change in request.changes {
        cancel.check()?;
        plans.push(Plan::new(change, place, cancel)?);
    }
    distinct(&plans)?;
    let mut transaction = Transaction::default();
    let staged = stage_all(&mut transaction, &plans, cancel);
    // Two edits that exchange the same file and take it back could otherwise leave the content of one that was refused.
    let _one_at_a_time = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
    match staged.and_then(|staged| commit_all(&mut transaction, &plans, staged)) {
        Ok(()) => {
            transaction.finish();
            Ok(EditAnswer { changes: plans.into_iter().map(changed).collect() })
        }
        Err(mut refused) => {
            for lost in transaction.roll_back() {
                refused.message.push_str(&format!("; {lost}"));
            }
            Err(refused)
        }
    }
}

fn changed(plan: Plan) -> Changed {
    let path = plan.path.to_string_lossy().into_owned();
    match plan.act {
        Act::Write { old, .. } => Changed { path, created: old.is_none(), removed: 0 },
        Act::Delete { count, .. } => Changed { path, created: false, removed: count },
        Act::Rename { .. } => Changed { path, created: false, removed: 0 },
    }
}

/// No path may be changed twice, or be inside another one that is changed.
fn distinct(plans: &[Plan]) -> Result<(), Refused> {
    let mut paths: Vec<&Path> = plans.iter().flat_map(Plan::places).collect();
    paths.sort_unstable();
    match paths.windows(2).find(|pair| matches!(pair, [first, second] if second.starts_with(first))) {
        Some([first, second]) if first == second => {
            Err(about(Code::InvalidArguments, second, "is changed twice; make one change of it"))
        }
        Some([first, second]) => {
            let why = format!("is inside '{}', which is changed too", first.display());
            Err(about(Code::InvalidArguments, second, &why))
        }
        _ => Ok(()),
    }
}

fn stage_all(transaction: &mut Transaction, plans: &[Plan], cancel: &Cancel) -> Result<Vec<Option<PathBuf>>, Refused> {
    let mut staged = Vec::with_capacity(plans.len());
    for plan in plans {
        cancel.check()?;
        staged.push(stage(transaction, plan)?);
    }
    cancel.check()?;
    Ok(staged)
}

/// Puts everything in place. It is not interrupted.
fn commit_all(transaction: &mut Transaction, plans: &[Plan], staged: Vec<Option<PathBuf>>) -> Result<(), Refused> {
    let mut in_place = Vec::new();
    for (plan, temporary) in plans.iter().zip(staged) {
        commit(transaction, plan, temporary, &mut in_place)?;
    }
    // Directories that cannot be moved aside are removed at the end, when nothing else can fail.
    for (path, count) in in_place {
        remove_in_place(path, count)?;
    }
    Ok(())
}

/// Writes the new content beside its place.
fn stage(transaction: &mut Transaction, plan: &Plan) -> Result<Option<PathBuf>, Refused> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause: std::io::Error| refuse::io("write", &path, &cause)
    };
    match &plan.act {
        Act::Write { target, data, executable, old } => {
            transaction.make_parents(target).map_err(failed(target))?;
            let mode = plan::mode(old.as_ref(), *executable);
            transaction.stage(target, data, mode, old.as_ref()).map(Some).map_err(failed(target))
        }
        Act::Rename { to, content, old, executable, .. } => {
            transaction.make_parents(to).map_err(failed(to))?;
            let Some(data) = content else { return Ok(None) };
            let mode = plan::mode(Some(old), *executable);
            transaction.stage(to, data, mode, Some(old)).map(Some).map_err(failed(to))
        }
        Act::Delete { .. } => Ok(None),
    }
}

fn commit<'a>(
    transaction: &mut Transaction,
    plan: &'a Plan,
    temporary: Option<PathBuf>,
    in_place: &mut Vec<(&'a Path, u64)>,
) -> Result<(), Refused> {
    let failed = |doing: &'static str, path: &'a Path| {
        move |cause: std::io::Error| match cause.raw_os_error() {
            // It was checked before: somebody else has changed it since.
            Some(libc::EEXIST | libc::ENOENT | libc::ESTALE) => about(
                Code::Interrupted,
                path,
                "was changed by somebody else meanwhile; nothing was changed by this call",
            ),
            _ => refuse::io(doing, path, &cause),
        }
    };
    match (&plan.act, temporary) {
        (Act::Write { target, old: Some(old), .. }, Some(temporary)) => {
            transaction.exchange(temporary, target, old).map_err(failed("replace", target))
        }
        (Act::Write { target, .. }, Some(temporary)) => {
            transaction.put(&temporary, target).map_err(failed("make", target))
        }
        (Act::Rename { from, to, old, .. }, Some(temporary)) => {
            transaction.put(&temporary, to).map_err(failed("make", to))?;
            transaction.set_aside(from, old).map_err(failed("remove", from))
        }
        (Act::Rename { from, to, old, executable, .. }, None) => {
            transaction.relocate(from, to, old, *executable).map_err(failed("rename", from))
        }
        (Act::Delete { target, old, recursive, count }, _) => match transaction.set_aside(target, old) {
            // An overlay cannot rename directories of its lower layer.
            Err(cause) if cause.raw_os_error() == Some(libc::EXDEV) && old.is_dir && *recursive => {
                in_place.push((target, *count));
                Ok(())
            }
            Err(cause) if cause.raw_os_error() == Some(libc::EXDEV) && old.is_dir => {
                transaction.remove_empty(target, old).map_err(failed("remove", target))
            }
            Ok(()) if old.is_dir && !recursive => transaction.is_still_empty().map_err(failed("remove", target)),
            answer => answer.map_err(failed("remove", target)),
        },
        (Act::Write { target, .. }, None) => Err(about(Code::Interrupted, target, "was not prepared")),
    }
}

fn remove_in_place(path: &Path, count: u64) -> Result<(), Refused> {
    let Err(cause) = crate::removal::remove(path) else { return Ok(()) };
    let refused = refuse::io("remove", path, &cause);
    match doomed::count(path, &Cancel::default()) {
        Ok(left) if left == count => Err(refused),
        _ => Err(about(Code::Interrupted, path, &format!("was removed only in part: {}", refused.message))),
    }
}

#[cfg(test)]
mod tests;
