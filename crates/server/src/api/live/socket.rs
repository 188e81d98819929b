//! One socket for live updates, from the upgrade to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use cabana_store::{BuildStatus, LogLevel};
use cabana_types::error::chain;
use cabana_types::{BuildId, ChatId, TeamId};
use futures_util::StreamExt;
use futures_util::stream::{AbortHandle, BoxStream, SelectAll, abortable};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::client_frame::{self, ClientFrame};
use crate::api::{App, build_logs, server};
use crate::auth::Caller;
use crate::chats::Watcher;
use crate::chats::event::Published;
use crate::error::{ApiError, short};
use crate::live::{self, Goodbye, MAX_SILENCE, Member, Next, PING_EVERY, Peer, Sender, Subscribed, Topic};

/// How often the status of the server is sent.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// Lines of a build's log in one frame.
const LOG_LINES: u32 = 100;
const SERVER: &str = "server";

/// Serves a socket to its end.
pub(super) async fn serve(app: Arc<App>, caller: Caller, member: Member, peer: Peer, socket: WebSocket) {
    let (sink, mut stream) = socket.split();
    let sender = Sender { sink, peer: &peer };
    let mut session = Session {
        app,
        team: caller.team.clone(),
        caller,
        member: &member,
        sender,
        builds: HashMap::new(),
        chats: SelectAll::new(),
        watched: HashMap::new(),
        reports: false,
    };
    let mut ping = interval(PING_EVERY);
    let mut report = interval(STATUS_EVERY);
    for timer in [&mut ping, &mut report] {
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        timer.reset();
    }
    let mut heard = Instant::now();
    let goodbye = loop {
        let done = tokio::select! {
            biased;
            goodbye = peer.ended() => Err(goodbye),
            _ = ping.tick() => match heard.elapsed() {
                _ if !peer.is_allowed() => Err(Goodbye::SIGNED_OUT),
                silence if silence >= MAX_SILENCE => Err(Goodbye::SILENT),
                _ => session.say(live::ping()).await,
            },
            message = stream.next() => {
                heard = Instant::now();
                session.hear(message).await
            }
            _ = report.tick(), if session.reports => session.report().await,
            Some((topic, news)) = session.chats.next(), if !session.chats.is_empty() => session.tell(&topic, news).await,
            next = member.outbox.next() => session.act(next).await,
        };
        if let Err(goodbye) = done {
            break goodbye;
        }
    };
    tracing::debug!(?goodbye, "a socket for live updates ends");
    live::close(session.sender.sink, stream, goodbye).await;
}

struct Session<'a> {
    app: Arc<App>,
    team: TeamId,
    caller: Caller,
    member: &'a Member,
    sender: Sender<'a>,
    /// The builds that are followed, by topic.
    builds: HashMap<String, Followed>,
    /// Events of the chats that are watched, and how to stop.
    chats: SelectAll<BoxStream<'static, (Arc<str>, ChatNews)>>,
    watched: HashMap<String, AbortHandle>,
    /// Whether the status of the server is sent.
    reports: bool,
}

/// What is new in a chat; `None` if it cannot be read.
type ChatNews = Option<Vec<Arc<Published>>>;

/// How far the client knows a build.
struct Followed {
    build: BuildId,
    next: u32,
    status: Option<BuildStatus>,
}

impl Session<'_> {
    async fn say(&mut self, frame: Utf8Bytes) -> Result<(), Goodbye> {
        self.sender.send(Message::Text(frame)).await
    }

    async fn hear(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Goodbye> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => {
                return self.say(live::error(None, "frames are JSON texts, not binary")).await;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Close(_))) | None => return Err(Goodbye::Gone),
            Some(Err(error)) => {
                tracing::debug!(error = chain(&error), "a socket for live updates failed");
                return Err(Goodbye::TOO_LARGE);
            }
        };
        match client_frame::parse(text.as_str()) {
            Ok(ClientFrame::Pong) => Ok(()),
            Ok(ClientFrame::Presence(service)) => {
                // One that is gone is told of elsewhere.
                if let Ok(id) = service.parse() {
                    self.app.services.presence(&self.team, &id);
                }
                Ok(())
            }
            Ok(ClientFrame::Unsubscribe(name)) => {
                self.member.outbox.unsubscribe(&name);
                self.builds.remove(&name);
                self.watched.remove(&name).inspect(AbortHandle::abort);
                self.reports &= name != SERVER;
                self.say(live::unsubscribed(&short(&name))).await
            }
            Ok(ClientFrame::Subscribe { topic, after }) => match self.subscribe(&topic, after).await {
                Ok(()) => Ok(()),
                Err(Refusal::Say(message)) => self.say(live::error(Some(&short(&topic)), &message)).await,
                Err(Refusal::End(goodbye)) => Err(goodbye),
            },
            Err(problem) => self.say(live::error(None, problem)).await,
        }
    }

    async fn subscribe(&mut self, name: &str, after: Option<u64>) -> Result<(), Refusal> {
        let unknown = "there is no such topic; topics are chats, chat:ID, sandboxes, sandbox:ID, service:ID, templates, \
             build:TEMPLATE/BUILD and server";
        let topic = Topic::parse(name).ok_or_else(|| Refusal::Say(unknown.to_owned()))?;
        if after.is_some() && !matches!(topic, Topic::Build { .. } | Topic::Chat(_)) {
            return Err(Refusal::Say("`after` is for topics of builds and chats".to_owned()));
        }
        self.caller.require(topic.needs())?;
        let (mut followed, mut watched) = (None, None);
        match &topic {
            Topic::Sandbox(id) => drop(self.app.find_sandbox(&self.caller.reach, id).await?),
            Topic::Build { template, build } => {
                let build = self.app.find_build(&self.caller.reach, template, build.as_str()).await?.id;
                followed = Some(Followed {
                    build,
                    next: after.and_then(|after| u32::try_from(after).ok()).unwrap_or_default(),
                    status: None,
                });
            }
            Topic::Service(id) => {
                let unknown = || Refusal::Say("there is no such service".to_owned());
                let sandbox = self.app.services.get(&self.team, id).ok_or_else(unknown)?.sandbox.clone();
                self.app.find_sandbox(&self.caller.reach, &sandbox).await.map_err(|_| unknown())?;
            }
            Topic::Chat(id) => watched = Some(watch(&self.app, &self.caller, id, after).await?),
            Topic::Sandboxes | Topic::Templates | Topic::Chats | Topic::Server => {}
        }
        let reports = topic == Topic::Server;
        tokio::select! {
            () = self.member.listening() => {}
            goodbye = self.sender.peer.ended() => return Err(Refusal::End(goodbye)),
        }
        if self.member.outbox.subscribe(name, topic) == Subscribed::TooMany {
            let text = "the socket has 64 topics, which is the most; unsubscribe from some first";
            return Err(Refusal::Say(text.to_owned()));
        }
        self.say(live::subscribed(name)).await.map_err(Refusal::End)?;
        if let Some(followed) = followed {
            // Again from `after`, also if it was subscribed already.
            self.builds.insert(name.to_owned(), followed);
            self.member.outbox.read_build(name);
        }
        if let Some(watcher) = watched {
            self.follow_chat(name, watcher);
        }
        if reports {
            self.reports = true;
            self.report().await.map_err(Refusal::End)?;
        }
        Ok(())
    }

    fn follow_chat(&mut self, name: &str, watcher: Watcher) {
        let topic: Arc<str> = name.into();
        let events = futures_util::stream::unfold((Some(watcher), topic), |(watcher, topic)| async move {
            let mut watcher = watcher?;
            Some(match watcher.next().await {
                Ok(events) => ((Arc::clone(&topic), Some(events)), (Some(watcher), topic)),
                Err(_) => ((Arc::clone(&topic), None), (None, topic)),
            })
        });
        let (events, handle) = abortable(events);
        self.chats.push(events.boxed());
        // One that was watched already begins again from `after`.
        self.watched.insert(name.to_owned(), handle).inspect(AbortHandle::abort);
    }

    async fn tell(&mut self, topic: &str, news: ChatNews) -> Result<(), Goodbye> {
        let Some(events) = news else { return self.say(live::lagged(topic)).await };
        for event in events {
            self.say(event.frame(topic).into()).await?;
        }
        Ok(())
    }

    async fn report(&mut self) -> Result<(), Goodbye> {
        let status = server::server_status(&self.app);
        self.say(live::server_status(SERVER, &status)).await
    }

    async fn act(&mut self, next: Next) -> Result<(), Goodbye> {
        match next {
            Next::Send(frame) => self.say(frame).await,
            Next::Lagged(topic) => self.say(live::lagged(&topic)).await,
            Next::ReadBuild(topic) => self.read_build(&topic).await,
        }
    }

    /// Sends what is new of a build: at most one frame of its log at a time, so that other topics have their turn.
    async fn read_build(&mut self, topic: &str) -> Result<(), Goodbye> {
        let Some(followed) = self.builds.get_mut(topic) else { return Ok(()) };
        // The build is read before its lines: if it has ended, all lines are there.
        let read = async {
            let build = self.app.store.build(&followed.build).await?;
            let lines = self.app.store.build_log(&followed.build, followed.next, LOG_LINES, LogLevel::Debug).await?;
            Ok::<_, cabana_store::Error>((build, lines))
        };
        let (build, lines) = match read.await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not read a build for live updates");
                return self.say(live::lagged(topic)).await;
            }
        };
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        followed.next = followed.next.saturating_add(count);
        let next = followed.next;
        let status = build.as_ref().map(|build| build.status).filter(|_| count < LOG_LINES);
        let changed = status.filter(|status| followed.status != Some(*status));
        if changed.is_some() {
            followed.status = changed;
        }
        if !lines.is_empty() {
            let lines: Vec<_> = lines.into_iter().map(build_logs::shown).collect();
            self.say(live::build_log(topic, &lines, next)).await?;
        }
        if count == LOG_LINES {
            self.member.outbox.read_build(topic);
        }
        if let (Some(status), Some(build)) = (changed, build) {
            let (reason, step) = (build.error.as_deref(), build.failed_step.as_deref());
            self.say(live::build_status(topic, status.as_str(), reason, step)).await?;
        }
        Ok(())
    }
}

/// Watches a chat of the team.
async fn watch(app: &App, caller: &Caller, id: &ChatId, after: Option<u64>) -> Result<Watcher, Refusal> {
    let chat = app.find_chat(caller, id).await.map_err(|_| Refusal::Say("there is no such chat".to_owned()))?;
    Ok(app.chats.room(&chat).watch(after).await.map_err(ApiError::from)?)
}

/// Why a topic was not subscribed to.
enum Refusal {
    Say(String),
    End(Goodbye),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Say(error.message().to_owned())
    }
}
