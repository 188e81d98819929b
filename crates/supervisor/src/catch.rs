//! Panics as values.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A panic, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(String);

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

impl Panicked {
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(text.unwrap_or("no message").to_owned())
    }
}

/// Runs a future and returns its panic instead of unwinding. State that it shares with others may be inconsistent after
/// a panic, so only use this where the caller discards or rebuilds that state, or where it is behind a lock that
/// handles poison.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(payload) => Poll::Ready(Err(Panicked::new(&*payload))),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_become_errors_with_their_message() {
        assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        let text = format!("{}", 42);
        let formatted = catch_panic(async { panic!("{text}") }).await;
        assert_eq!(formatted.map_err(|e| e.to_string()), Err::<(), _>("panicked: 42".to_owned()));
        let plain = catch_panic(async { panic!("plain") }).await;
        assert_eq!(plain.map_err(|e| e.to_string()), Err::<(), _>("panicked: plain".to_owned()));
        let odd = catch_panic(async { std::panic::panic_any(3u8) }).await;
        assert_eq!(odd.map_err(|e: Panicked| e.to_string()), Err::<(), _>("panicked: no message".to_owned()));
    }
}
