//! How many sockets show the terminals of sandboxes, and who may start another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::SandboxId;

/// Terminals of one sandbox.
pub(crate) const MAX_TERMINALS: usize = 32;
/// Sockets of one terminal.
pub(crate) const MAX_VIEWERS: usize = 8;

/// The terminals that are shown.
#[derive(Debug, Default)]
pub(crate) struct Terminals(Mutex<HashMap<SandboxId, Arc<Shown>>>);

/// The terminals of one sandbox.
#[derive(Debug, Default)]
struct Shown {
    /// Held while terminals are counted and one is started.
    starting: tokio::sync::Mutex<()>,
    /// Sockets by process.
    viewers: Mutex<HashMap<u32, usize>>,
}

/// Someone who uses the terminals of a sandbox.
#[derive(Debug)]
pub(crate) struct Visit {
    terminals: Arc<Terminals>,
    id: SandboxId,
    shown: Option<Arc<Shown>>,
}

/// One socket of a terminal, until it is dropped.
#[derive(Debug)]
pub(crate) struct Viewer {
    shown: Arc<Shown>,
    pid: u32,
    _visit: Visit,
}

impl Terminals {
    /// Begins to use the terminals of a sandbox.
    pub(crate) fn visit(self: &Arc<Self>, id: &SandboxId) -> Visit {
        let shown = Arc::clone(self.all().entry(id.clone()).or_default());
        Visit { terminals: Arc::clone(self), id: id.clone(), shown: Some(shown) }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Shown>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visit {
    /// Waits for the right to count the terminals and to start one.
    pub(crate) async fn starting(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match &self.shown {
            Some(shown) => Some(shown.starting.lock().await),
            None => None,
        }
    }

    /// Shows a terminal; `None` if too many sockets do.
    pub(crate) fn view(self, pid: u32) -> Option<Viewer> {
        let shown = Arc::clone(self.shown.as_ref()?);
        {
            let mut viewers = shown.viewers();
            let count = viewers.entry(pid).or_default();
            if *count >= MAX_VIEWERS {
                return None;
            }
            *count += 1;
        }
        Some(Viewer { shown, pid, _visit: self })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut all = self.terminals.all();
        self.shown = None;
        // Nobody else uses it: the map has one reference, and a viewer's own is dropped before its visit.
        if all.get(&self.id).is_some_and(|shown| Arc::strong_count(shown) == 1) {
            all.remove(&self.id);
        }
    }
}

impl Shown {
    fn viewers(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut viewers = self.shown.viewers();
        if let Some(count) = viewers.get_mut(&self.pid) {
            *count -= 1;
            if *count == 0 {
                viewers.remove(&self.pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_bounded_and_forgotten() {
        let terminals = Arc::new(Terminals::default());
        let id: SandboxId = "ia".parse().expect("id");
        let mut viewers: Vec<_> = (0..MAX_VIEWERS).filter_map(|_| terminals.visit(&id).view(7)).collect();
        assert_eq!(viewers.len(), MAX_VIEWERS);
        assert!(terminals.visit(&id).view(7).is_none());
        assert!(terminals.visit(&id).view(8).is_some(), "another terminal");
        viewers.pop();
        viewers.extend(terminals.visit(&id).view(7));
        assert_eq!(viewers.len(), MAX_VIEWERS);
        drop(viewers);
        assert!(terminals.all().is_empty());
    }
}
