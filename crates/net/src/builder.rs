//! The thread that makes slots. It goes into each new namespace while it furnishes it and comes back; about 2 ms each.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cabana_types::error::chain;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::links::Links;
use crate::plan::{INSIDE, Plan, SLOT_PREFIX};
use crate::slot::Slot;
use crate::{Error, namespace};

struct Job {
    index: u32,
    reply: oneshot::Sender<Result<Slot, Error>>,
}

/// Where slots are ordered. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Builder {
    // Never more jobs than slots.
    jobs: mpsc::UnboundedSender<Job>,
}

struct Bench {
    plan: Arc<Plan>,
    mtu: u32,
    home: OwnedFd,
    host: Links,
}

impl Builder {
    /// Starts the thread in the calling thread's namespace, which becomes the host's side of all slots.
    pub(crate) fn start(plan: Arc<Plan>, mtu: u32) -> Result<Builder, Error> {
        let (jobs, orders) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("make the runtime of the slot builder"))?;
        let home = namespace::current()?;
        std::thread::Builder::new()
            .name("net-builder".to_owned())
            .spawn(move || runtime.block_on(work(plan, mtu, home, orders)))
            .map_err(Error::io("start the slot builder"))?;
        Ok(Builder { jobs })
    }

    /// Makes a slot. If it fails, nothing of it is left.
    pub(crate) async fn build(&self, index: u32) -> Result<Slot, Error> {
        let (reply, built) = oneshot::channel();
        self.jobs.send(Job { index, reply }).map_err(|_| Error::Closed)?;
        built.await.map_err(|_| Error::Closed)?
    }
}

async fn work(plan: Arc<Plan>, mtu: u32, home: OwnedFd, mut orders: mpsc::UnboundedReceiver<Job>) {
    let host = match Links::open() {
        Ok(host) => host,
        Err(e) => return error!(error = chain(&e), "the slot builder cannot start"),
    };
    let bench = Bench { plan, mtu, home, host };
    while let Some(Job { index, reply }) = orders.recv().await {
        let built = bench.build(index).await;
        // A thread in the wrong namespace must not make another slot.
        if let Err(e) = namespace::enter(&bench.home) {
            return error!(error = chain(&e), "the slot builder cannot return to the host's namespace");
        }
        // Nobody waits only when the server ends; the next one sweeps.
        let _ = reply.send(built);
    }
}

impl Bench {
    async fn build(&self, index: u32) -> Result<Slot, Error> {
        let built = self.assemble(index).await;
        if built.is_err() {
            self.undo(index).await;
        }
        built
    }

    async fn assemble(&self, index: u32) -> Result<Slot, Error> {
        namespace::leave()?;
        let furnished = self.furnish(index).await;
        namespace::enter(&self.home)?;
        let (netns, inside) = furnished?;
        let joined = self.join(index, &inside).await;
        // Its socket would keep the namespace alive.
        inside.close().await;
        joined.map(|()| slot(&self.plan, index, netns))
    }

    /// Turns the host's end on, and returns when both ends carry packets.
    async fn join(&self, index: u32, inside: &Links) -> Result<(), Error> {
        let (link, gateway) = (self.plan.link(index), self.plan.gateway(index));
        namespace::harden(&link)?;
        self.host.set_up(&link, gateway, SLOT_PREFIX).await?;
        inside.sending(INSIDE).await
    }

    /// The part that happens inside the new namespace.
    async fn furnish(&self, index: u32) -> Result<(OwnedFd, Links), Error> {
        let netns = namespace::pin(&self.plan.pin(index))?;
        namespace::furnish()?;
        self.host.add_veth(&self.plan.link(index), self.mtu, &netns).await?;
        let inside = Links::open()?;
        let done = async {
            inside.loopback_up().await?;
            inside.set_up(INSIDE, self.plan.address(index), SLOT_PREFIX).await?;
            inside.default_route(self.plan.gateway(index)).await
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
        let link = self.host.delete(&[self.plan.link(index)], self.plan.doomed_group()).await;
        let pin = namespace::unpin(&self.plan.pin(index));
        for e in [link, pin].into_iter().filter_map(Result::err) {
            warn!(index, error = chain(&e), "cleaning up a slot that could not be made");
        }
    }
}

/// A slot around its namespace.
pub(crate) fn slot(plan: &Plan, index: u32, netns: OwnedFd) -> Slot {
    Slot { index, netns: Arc::new(netns), address: plan.address(index), gateway: plan.gateway(index), dns: plan.dns() }
}
