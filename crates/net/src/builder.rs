//! The thread that creates slots. It enters each new namespace to configure it; a slot takes about 2 ms.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::addressing::{Addressing, INSIDE, SLOT_PREFIX};
use crate::links::Links;
use crate::slot::Slot;
use crate::{Error, namespace};
use cabana_types::error::chain;

/// Creations wait while the thread is restarted, so the delays are short.
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(100), Duration::from_secs(5));

struct Job {
    index: u32,
    reply: oneshot::Sender<Result<Slot, Error>>,
}

/// Sends jobs to the thread, which ends with the supervisor's scope.
#[derive(Debug)]
pub(crate) struct Builder {
    // Bounded by the number of slots.
    jobs: mpsc::UnboundedSender<Job>,
}

impl Builder {
    /// Starts the thread. The calling thread's namespace becomes the host's side of all slots.
    pub(crate) fn start(supervisor: &Supervisor, addressing: Arc<Addressing>, mtu: u32) -> Result<Builder, Error> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (queue, home) = (Arc::new(Mutex::new(queue)), Arc::new(namespace::current()?));
        supervisor.restart_thread("network slot builder", RESTART, move |stop| {
            let (queue, home, addressing) = (Arc::clone(&queue), Arc::clone(&home), Arc::clone(&addressing));
            async move {
                let mut queue = queue.lock().await;
                // A restarted thread inherits the namespace of the thread that started it.
                let opened = namespace::enter(&home).and_then(|()| Links::open());
                let host = opened.map_err(|e| chain(&e))?;
                let worker = Worker { addressing, mtu, home, host };
                worker.run(&mut queue, &stop).await.map_err(|e| chain(&e))
            }
        });
        Ok(Builder { jobs })
    }

    /// Creates a slot. If it fails, nothing of it is left, except after [`Error::Interrupted`].
    pub(crate) async fn build(&self, index: u32) -> Result<Slot, Error> {
        let (reply, built) = oneshot::channel();
        self.jobs.send(Job { index, reply }).map_err(|_| Error::Closed)?;
        built.await.map_err(|_| Error::Interrupted)?
    }
}

/// State of the thread.
struct Worker {
    addressing: Arc<Addressing>,
    mtu: u32,
    home: Arc<OwnedFd>,
    host: Links,
}

impl Worker {
    /// Creates slots until it is stopped.
    async fn run(&self, queue: &mut mpsc::UnboundedReceiver<Job>, stop: &CancellationToken) -> Result<(), Error> {
        while let Some(Job { index, reply }) = next(queue, stop).await {
            let built = self.build(index).await;
            // The thread must not create another slot in the wrong namespace.
            namespace::enter(&self.home)?;
            // If the caller is gone, the server is ending and the next start deletes the slot.
            let _ = reply.send(built);
        }
        Ok(())
    }

    async fn build(&self, index: u32) -> Result<Slot, Error> {
        let built = self.assemble(index).await;
        if built.is_err() {
            self.undo(index).await;
        }
        built
    }

    async fn assemble(&self, index: u32) -> Result<Slot, Error> {
        namespace::leave()?;
        let configured = self.configure(index).await;
        namespace::enter(&self.home)?;
        let (netns, inside) = configured?;
        let joined = self.join(index, &inside).await;
        // Its socket would keep the namespace alive.
        inside.close().await;
        joined.map(|()| slot(&self.addressing, index, netns))
    }

    /// Brings up the host's end, and returns when both ends carry packets.
    async fn join(&self, index: u32, inside: &Links) -> Result<(), Error> {
        let link = self.addressing.link(index);
        namespace::harden(&link)?;
        self.host.route_to(&link, self.addressing.address(index), self.addressing.dns()).await?;
        inside.sending(INSIDE).await
    }

    /// Configures the new namespace from inside.
    async fn configure(&self, index: u32) -> Result<(OwnedFd, Links), Error> {
        let netns = namespace::pin(&self.addressing.pin(index))?;
        namespace::configure()?;
        self.host.add_veth(&self.addressing.link(index), self.mtu, &netns).await?;
        let inside = Links::open()?;
        let done = async {
            inside.loopback_up().await?;
            inside.set_up(INSIDE, self.addressing.address(index), SLOT_PREFIX).await?;
            inside.neighbour(INSIDE, self.addressing.gateway(index)).await?;
            inside.default_route(self.addressing.gateway(index)).await
        }
        .await;
        match done {
            Ok(()) => Ok((netns, inside)),
            Err(error) => {
                inside.close().await;
                Err(error)
            }
        }
    }

    async fn undo(&self, index: u32) {
        let link = self.host.delete(&[self.addressing.link(index)], self.addressing.deletion_group()).await;
        let pin = namespace::unpin(&self.addressing.pin(index));
        for e in [link, pin].into_iter().filter_map(Result::err) {
            warn!(index, error = chain(&e), "cleaning up a slot that could not be created");
        }
    }
}

/// The next message of a queue; `None` if `stop` is cancelled and the queue is empty.
pub(crate) async fn next<T>(queue: &mut mpsc::UnboundedReceiver<T>, stop: &CancellationToken) -> Option<T> {
    let message = tokio::select! {
        biased;
        message = queue.recv() => message,
        () = stop.cancelled() => None,
    };
    if message.is_none() {
        // If all senders are gone, the network is being dropped, which cancels the token too.
        stop.cancelled().await;
    }
    message
}

/// Makes a slot of its namespace.
pub(crate) fn slot(addressing: &Addressing, index: u32, netns: OwnedFd) -> Slot {
    Slot {
        index,
        netns: Arc::new(netns),
        address: addressing.address(index),
        gateway: addressing.gateway(index),
        dns: addressing.dns(),
    }
}
