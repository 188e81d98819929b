//! What one socket has subscribed to, and what waits to be sent to it. A client that reads too slowly loses events of a topic and
//! is told so; nothing grows.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::ws::Utf8Bytes;
use cabana_types::{BuildId, SandboxId};
use tokio::sync::Notify;

use super::topic::Topic;
use crate::auth::Reach;

/// Topics of one socket.
pub(crate) const MAX_TOPICS: usize = 64;
/// Frames that wait for one socket, and their bytes.
const MAX_FRAMES: usize = 512;
const MAX_BYTES: usize = 1 << 20;

/// The outbox of one socket.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// What its caller reaches.
    pub(super) reach: Reach,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    topics: Vec<(Arc<str>, Topic)>,
    frames: VecDeque<Utf8Bytes>,
    bytes: usize,
    /// Topics whose events were lost.
    lagged: BTreeSet<Arc<str>>,
    /// Topics of builds with news, which the socket reads from the store at its own pace.
    builds: BTreeSet<Arc<str>>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Send(Utf8Bytes),
    Lagged(Arc<str>),
    ReadBuild(Arc<str>),
}

/// The answer to a subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscribed {
    New,
    Already,
    TooMany,
}

impl Outbox {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, state: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a topic.
    pub(crate) fn subscribe(&self, name: &str, topic: Topic) -> Subscribed {
        let mut state = self.state();
        if state.topics.iter().any(|(known, _)| **known == *name) {
            return Subscribed::Already;
        }
        if state.topics.len() >= MAX_TOPICS {
            return Subscribed::TooMany;
        }
        state.topics.push((name.into(), topic));
        Subscribed::New
    }

    /// Removes a topic; what waits may still be sent.
    pub(crate) fn unsubscribe(&self, name: &str) {
        let mut state = self.state();
        state.topics.retain(|(known, _)| **known != *name);
        state.builds.remove(name);
        state.lagged.remove(name);
    }

    /// The next thing to do, oldest first; that events were lost is told after those that were not.
    pub(crate) async fn next(&self) -> Next {
        loop {
            let changed = self.changed.notified();
            if let Some(next) = self.take() {
                return next;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Next> {
        let mut state = self.state();
        if let Some(frame) = state.frames.pop_front() {
            state.bytes -= frame.len();
            return Some(Next::Send(frame));
        }
        let lagged = state.lagged.pop_first().map(Next::Lagged);
        lagged.or_else(|| state.builds.pop_first().map(Next::ReadBuild))
    }

    /// Sends a frame that `make` writes to the subscribers of topics that `chosen` accepts.
    pub(super) fn push(&self, chosen: impl Fn(&Topic) -> bool, mut make: impl FnMut(&Topic, &str) -> Utf8Bytes) {
        let mut state = self.state();
        let State { topics, frames, bytes, lagged, .. } = &mut *state;
        let mut pushed = false;
        for (name, topic) in topics.iter().filter(|(_, topic)| chosen(topic)) {
            let frame = make(topic, name);
            if frames.len() >= MAX_FRAMES || *bytes + frame.len() > MAX_BYTES {
                lagged.insert(Arc::clone(name));
            } else {
                *bytes += frame.len();
                frames.push_back(frame);
            }
            pushed = true;
        }
        drop(state);
        if pushed {
            self.changed.notify_one();
        }
    }

    /// Lets the socket look at a build again.
    pub(super) fn poke_build(&self, id: &BuildId) {
        self.poke(|topic| matches!(topic, Topic::Build { build, .. } if build == id));
    }

    /// Lets the socket look at the build of a topic for the first time.
    pub(crate) fn read_build(&self, name: &str) {
        if self.state().builds.insert(name.into()) {
            self.changed.notify_one();
        }
    }

    fn poke(&self, chosen: impl Fn(&Topic) -> bool) {
        let mut state = self.state();
        let State { topics, builds, .. } = &mut *state;
        let before = builds.len();
        builds.extend(topics.iter().filter(|(_, topic)| chosen(topic)).map(|(name, _)| Arc::clone(name)));
        let more = builds.len() > before;
        drop(state);
        if more {
            self.changed.notify_one();
        }
    }

    /// Changes were lost for all sockets. Builds lose nothing: they are read from the store.
    pub(super) fn lose_all(&self) {
        let mut state = self.state();
        let State { topics, lagged, builds, .. } = &mut *state;
        for (name, topic) in topics.iter() {
            match topic {
                Topic::Build { .. } => builds.insert(Arc::clone(name)),
                // Chats are watched by their own numbers.
                Topic::Server | Topic::Chat(_) => continue,
                Topic::Sandboxes | Topic::Sandbox(_) | Topic::Templates | Topic::Service(_) | Topic::Chats => {
                    lagged.insert(Arc::clone(name))
                }
            };
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Whether a topic would get an event of this sandbox.
    pub(super) fn wants(&self, id: &SandboxId) -> bool {
        self.state().topics.iter().any(|(_, topic)| is_about(topic, id))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a topic gets the events of a sandbox.
pub(super) fn is_about(topic: &Topic, id: &SandboxId) -> bool {
    match topic {
        Topic::Sandboxes => true,
        Topic::Sandbox(own) => own == id,
        Topic::Templates | Topic::Build { .. } | Topic::Service(_) | Topic::Chats | Topic::Chat(_) | Topic::Server => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &Outbox, text: &str) {
        outbox.push(|topic| *topic == Topic::Sandboxes, |_, _| text.to_owned().into());
    }

    #[tokio::test]
    async fn a_slow_reader_loses_events_and_is_told() {
        let outbox = Outbox::new(Reach::team("default".parse().expect("id"), cabana_types::Permissions::ALL));
        push(&outbox, "before anyone subscribed");
        assert_eq!(outbox.subscribe("sandboxes", Topic::Sandboxes), Subscribed::New);
        assert_eq!(outbox.subscribe("sandboxes", Topic::Sandboxes), Subscribed::Already);
        for number in 0..MAX_FRAMES + 10 {
            push(&outbox, &number.to_string());
        }
        for number in 0..MAX_FRAMES {
            assert_eq!(outbox.next().await, Next::Send(number.to_string().into()));
        }
        assert_eq!(outbox.next().await, Next::Lagged("sandboxes".into()), "once, whatever was lost");
        push(&outbox, "later");
        assert_eq!(outbox.next().await, Next::Send("later".into()));
        assert_eq!(outbox.take(), None);
        push(&outbox, &"x".repeat(MAX_BYTES + 1));
        assert_eq!(outbox.next().await, Next::Lagged("sandboxes".into()));
    }

    #[tokio::test]
    async fn news_of_a_build_are_one_reading() {
        let outbox = Outbox::new(Reach::team("default".parse().expect("id"), cabana_types::Permissions::ALL));
        let build = BuildId::from_random([1; 16]);
        let name = format!("build:t/{build}");
        outbox.subscribe(&name, Topic::Build { template: "t".into(), build: build.clone() });
        for _ in 0..100 {
            outbox.poke_build(&build);
        }
        outbox.lose_all();
        assert_eq!(outbox.next().await, Next::ReadBuild(name.as_str().into()));
        assert_eq!(outbox.take(), None);
        outbox.poke_build(&BuildId::from_random([2; 16]));
        assert_eq!(outbox.take(), None, "another build");
        outbox.poke_build(&build);
        outbox.unsubscribe(&name);
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn topics_are_bounded() {
        let outbox = Outbox::new(Reach::team("default".parse().expect("id"), cabana_types::Permissions::ALL));
        for number in 0..MAX_TOPICS {
            let id: SandboxId = format!("i{number}").parse().expect("id");
            assert_eq!(outbox.subscribe(&format!("sandbox:{id}"), Topic::Sandbox(id)), Subscribed::New);
        }
        assert_eq!(outbox.subscribe("sandboxes", Topic::Sandboxes), Subscribed::TooMany);
        outbox.unsubscribe("sandbox:i0");
        assert_eq!(outbox.subscribe("sandboxes", Topic::Sandboxes), Subscribed::New);
        assert!(outbox.wants(&"i99".parse().expect("id")));
    }
}
