//! What the server keeps in memory about one sandbox: its lock, its one-shot events and its meter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cabana_store::Sandbox;
use cabana_types::SandboxId;
use tokio::sync::{OwnedMutexGuard, SetOnce};
use tokio_util::sync::CancellationToken;

use super::held::{Held, Host};
use super::usage::Meter;

/// A sandbox that may have resources on the host.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: SandboxId,
    pub(super) host: Host,
    /// Locked by the task that acts on the sandbox; see [`Held`].
    pub(super) lock: Lock,
    /// Set when its creation succeeded or failed.
    pub(super) created: Latch,
    /// Set when its removal was attempted once.
    pub(super) removal_attempted: Latch,
    /// Resource use since it started, or since this server adopted it.
    meter: Mutex<Option<Meter>>,
}

impl Entry {
    pub(super) fn new(id: SandboxId, host: Host) -> Self {
        Self {
            id,
            host,
            lock: Lock::default(),
            created: Latch::default(),
            removal_attempted: Latch::default(),
            meter: Mutex::default(),
        }
    }

    /// Waits for the right to act on the sandbox.
    pub(super) async fn hold(self: &Arc<Self>) -> Held {
        Held::lock(self).await
    }

    /// Waits for the right to act on the sandbox and interrupts long work of its holder.
    pub(super) async fn hold_interrupting(self: &Arc<Self>) -> Held {
        Held::lock_interrupting(self).await
    }

    /// The right to act on the sandbox, if no one has it.
    pub(super) fn try_hold(self: &Arc<Self>) -> Option<Held> {
        Held::try_lock(self)
    }

    /// Starts metering, or continues the history of a sandbox that ran before.
    pub(super) fn start_meter(&self, sandbox: &Sandbox) {
        match &mut *self.meter.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(meter) => meter.restart(sandbox),
            meter => *meter = Some(Meter::new(sandbox)),
        }
    }

    /// Applies a function to the meter, if the sandbox has started.
    pub(super) fn with_meter<T>(&self, act: impl FnOnce(&mut Meter) -> T) -> Option<T> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }
}

/// An event that happens once and can be awaited before and after.
#[derive(Debug, Default)]
pub(super) struct Latch(SetOnce<()>);

impl Latch {
    /// Sets it; setting it again has no effect.
    pub(super) fn set(&self) {
        let _ = self.0.set(());
    }

    /// Returns when it is set.
    pub(super) async fn wait(&self) {
        self.0.wait().await;
    }
}

/// The lock of one sandbox. Waiting for it can interrupt long work of its holder.
#[derive(Debug, Default)]
pub(super) struct Lock {
    mutex: Arc<tokio::sync::Mutex<()>>,
    /// Cancels long work of the holder.
    interrupt: Mutex<CancellationToken>,
    /// How many tasks wait for the lock and want long work to be interrupted.
    waiting: AtomicUsize,
    /// Cancels all work that a sandbox about to be removed does not need.
    ending: CancellationToken,
}

impl Lock {
    pub(super) async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.mutex).lock_owned().await
    }

    pub(super) fn try_lock(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.mutex).try_lock_owned().ok()
    }

    /// Waits for the lock and interrupts long work of its holder.
    pub(super) async fn lock_interrupting(&self) -> OwnedMutexGuard<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(&self.waiting);
        self.interrupt();
        let guard = self.lock().await;
        drop(waiting);
        guard
    }

    /// A token for long work. It is already cancelled if a task waits to interrupt it, or the sandbox is to be removed.
    pub(super) fn interruptible(&self) -> CancellationToken {
        let mut interrupt = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Ordering::SeqCst) == 0 && !self.ending.is_cancelled() {
            if interrupt.is_cancelled() {
                *interrupt = CancellationToken::new();
            }
        } else {
            interrupt.cancel();
        }
        interrupt.clone()
    }

    /// A token that is cancelled only when the sandbox is to be removed.
    pub(super) fn until_ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// The sandbox is to be removed: cancels all work.
    pub(super) fn end(&self) {
        self.ending.cancel();
        self.interrupt();
    }

    fn interrupt(&self) {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// Counts a task that waits for the lock, also if it gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiter_interrupts_long_work_that_begins_later() {
        let lock = Arc::new(Lock::default());
        let held = lock.lock().await;
        assert!(!lock.interruptible().is_cancelled(), "no one waits");
        let other = Arc::clone(&lock);
        let waiting = tokio::spawn(async move { drop(other.lock_interrupting().await) });
        while lock.waiting.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(lock.interruptible().is_cancelled());
        drop(held);
        waiting.await.expect("locked");
        assert!(!lock.interruptible().is_cancelled(), "the waiter is gone");
        lock.end();
        assert!(lock.interruptible().is_cancelled() && lock.until_ending().is_cancelled(), "it is to be removed");
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_interrupts_no_more() {
        let lock = Lock::default();
        let held = lock.lock().await;
        let early = lock.interruptible();
        let gave_up = tokio::time::timeout(std::time::Duration::from_millis(1), lock.lock_interrupting()).await;
        assert!(gave_up.is_err() && early.is_cancelled());
        drop(held);
        assert!(!lock.interruptible().is_cancelled());
    }
}
