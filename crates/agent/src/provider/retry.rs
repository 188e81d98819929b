//! Calls a model again after failures that pass.

use std::time::Duration;

use rand::Rng;
use tokio::sync::mpsc;

use crate::model::{Answer, Model, ModelError, ModelRequest, Piece};

/// How often a failed call is repeated.
pub const MAX_RETRIES: u32 = 5;
/// The first delay; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay, also if the provider asks for more.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Callers who were told the same time do not come back at the same moment.
const SPREAD: Duration = Duration::from_secs(1);
/// Pieces on their way.
const PIECES: usize = 16;

/// A call failed and will be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrying {
    pub error: ModelError,
    /// From 1.
    pub attempt: u32,
    /// How long it is waited before.
    pub delay: Duration,
}

/// Calls a model. Failures that may pass are tried again, unless the caller has got a piece of the answer.
pub async fn call(
    model: &dyn Model,
    request: &ModelRequest,
    pieces: &mpsc::Sender<Piece>,
    notices: &mpsc::Sender<Retrying>,
) -> Result<Answer, ModelError> {
    let mut attempt = 0;
    loop {
        let (done, begun) = once(model, request, pieces).await;
        let error = match done {
            Err(error) if error.code.is_retryable() && !begun && attempt < MAX_RETRIES => error,
            done => return done,
        };
        let delay = delay(attempt, error.retry_after);
        attempt += 1;
        let _ = notices.send(Retrying { error, attempt, delay }).await;
        tokio::time::sleep(delay).await;
    }
}

/// Calls a model once, and tells whether the caller has got a piece.
async fn once(
    model: &dyn Model,
    request: &ModelRequest,
    pieces: &mpsc::Sender<Piece>,
) -> (Result<Answer, ModelError>, bool) {
    let (sender, mut receiver) = mpsc::channel(PIECES);
    let mut begun = false;
    let mut calling = model.call(request, &sender);
    let done = loop {
        tokio::select! {
            biased;
            Some(piece) = receiver.recv() => {
                begun = true;
                let _ = pieces.send(piece).await;
            }
            done = &mut calling => break done,
        }
    };
    drop(calling);
    while let Ok(piece) = receiver.try_recv() {
        begun = true;
        let _ = pieces.send(piece).await;
    }
    (done, begun)
}

fn delay(attempt: u32, retry_after: Option<Duration>) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << attempt.min(16));
    let own = full.mul_f64(rand::rng().random_range(0.5..1.0));
    let asked = retry_after.map(|after| after.saturating_add(SPREAD.mul_f64(rand::rng().random_range(0.0..1.0))));
    own.max(asked.unwrap_or_default()).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use tokio::time::Instant;

    use super::*;
    use crate::model::ModelErrorCode as Code;

    /// What a call does: pieces, then its end.
    type Script = (Vec<&'static str>, Result<&'static str, (Code, Option<u64>)>);

    struct Scripted(Mutex<VecDeque<Script>>);

    #[async_trait]
    impl Model for Scripted {
        async fn call(&self, _: &ModelRequest, pieces: &mpsc::Sender<Piece>) -> Result<Answer, ModelError> {
            let (texts, end) = self.0.lock().unwrap().pop_front().expect("one call too many");
            for text in texts {
                pieces.send(Piece::Text(text.into())).await.unwrap();
            }
            end.map(|text| Answer { text: text.into(), ..Answer::default() }).map_err(|(code, after)| ModelError {
                code,
                message: String::new(),
                hint: String::new(),
                retry_after: after.map(Duration::from_secs),
            })
        }
    }

    async fn run(script: Vec<Script>) -> (Result<Answer, ModelError>, Vec<Piece>, Vec<Retrying>, Duration) {
        let model = Scripted(Mutex::new(script.into()));
        let (pieces, mut got) = mpsc::channel(100);
        let (notices, mut told) = mpsc::channel(100);
        let begin = Instant::now();
        let done = call(&model, &ModelRequest::default(), &pieces, &notices).await;
        drop((pieces, notices));
        let (mut all_pieces, mut all_notices) = (Vec::new(), Vec::new());
        while let Some(piece) = got.recv().await {
            all_pieces.push(piece);
        }
        while let Some(notice) = told.recv().await {
            all_notices.push(notice);
        }
        assert!(model.0.lock().unwrap().is_empty(), "calls are missing");
        (done, all_pieces, all_notices, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_pass_are_tried_again() {
        let failing = || (vec![], Err((Code::Overloaded, None)));
        let (done, pieces, notices, took) = run(vec![failing(), failing(), (vec!["a", "b"], Ok("ab"))]).await;
        assert_eq!(done.unwrap().text, "ab");
        assert_eq!(pieces, [Piece::Text("a".into()), Piece::Text("b".into())]);
        assert_eq!(notices.iter().map(|notice| notice.attempt).collect::<Vec<_>>(), [1, 2]);
        assert!(took >= Duration::from_millis(1500) && took <= Duration::from_millis(3100), "{took:?}");
        let (done, _, notices, took) = run((0..6).map(|_| failing()).collect()).await;
        assert_eq!(done.unwrap_err().code, Code::Overloaded);
        assert_eq!(notices.len(), 5);
        assert!(took <= Duration::from_secs(32), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_provider_says_when() {
        let (_, _, notices, took) = run(vec![(vec![], Err((Code::Overloaded, Some(20)))), (vec![], Ok(""))]).await;
        assert!(took >= Duration::from_secs(20) && took <= Duration::from_millis(21_100), "{took:?}");
        assert!(notices[0].delay >= Duration::from_secs(20));
        let (_, _, _, took) = run(vec![(vec![], Err((Code::Unavailable, Some(4000)))), (vec![], Ok(""))]).await;
        assert!(took <= Duration::from_millis(60_100), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_end_the_call() {
        let (done, _, notices, took) = run(vec![(vec![], Err((Code::KeyRefused, None)))]).await;
        assert_eq!((done.unwrap_err().code, notices.len(), took), (Code::KeyRefused, 0, Duration::ZERO));
        let (done, pieces, notices, _) = run(vec![(vec!["a"], Err((Code::CutOff, None)))]).await;
        assert_eq!((done.unwrap_err().code, notices.len()), (Code::CutOff, 0), "a piece was given");
        assert_eq!(pieces, [Piece::Text("a".into())]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_pieces_than_fit_on_the_way() {
        let (done, pieces, _, _) = run(vec![(vec!["x"; 3 * PIECES], Ok("x"))]).await;
        assert_eq!((done.is_ok(), pieces.len()), (true, 3 * PIECES));
    }
}
