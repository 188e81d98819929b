//! What cuts a stream through the edge: the end of its sandbox, and of the right to see it.

use futures_util::future::{BoxFuture, select_all};
use tokio_util::sync::CancellationToken;

/// A stream ends when one of these is cancelled.
#[derive(Clone)]
pub(crate) struct Cuts {
    /// The sandbox is gone.
    gone: CancellationToken,
    /// The client may no longer see it. Usually none.
    until: Vec<CancellationToken>,
}

impl Cuts {
    pub(crate) fn new(gone: CancellationToken, until: Vec<CancellationToken>) -> Self {
        Self { gone, until }
    }

    /// Resolves when the stream must end.
    pub(crate) fn cancelled(self) -> BoxFuture<'static, ()> {
        let gone = self.gone.cancelled_owned();
        if self.until.is_empty() {
            return Box::pin(gone);
        }
        Box::pin(async move {
            tokio::select! {
                biased;
                () = any(&self.until) => {}
                () = gone => {}
            }
        })
    }
}

/// Resolves when one of the tokens is cancelled; never without tokens.
pub(crate) async fn any(tokens: &[CancellationToken]) {
    if tokens.is_empty() {
        return std::future::pending().await;
    }
    select_all(tokens.iter().map(|token| Box::pin(token.cancelled()))).await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_token_cuts_alone() {
        for cancelled in 0..3 {
            let tokens: Vec<CancellationToken> = (0..3).map(|_| CancellationToken::new()).collect();
            let cuts = Cuts::new(tokens[0].clone(), tokens[1..].to_vec());
            assert!(cuts.clone().cancelled().now_or_never().is_none());
            tokens[cancelled].cancel();
            cuts.cancelled().await;
        }
        assert!(any(&[]).now_or_never().is_none());
    }
}
