//! A guard that runs a function when it is dropped, also while a panic unwinds.

/// Calls a function when dropped.
#[must_use = "dropping the guard runs its function at once"]
pub struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Calls `function` when the guard is dropped.
    pub fn new(function: F) -> Self {
        Self(Some(function))
    }

    /// Drops the guard without calling the function.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> std::fmt::Debug for OnDrop<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnDrop")
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn runs_once_unless_disarmed() {
        let count = Cell::new(0);
        drop(OnDrop::new(|| count.set(count.get() + 1)));
        assert_eq!(count.get(), 1);
        OnDrop::new(|| count.set(count.get() + 1)).disarm();
        assert_eq!(count.get(), 1);
    }
}
