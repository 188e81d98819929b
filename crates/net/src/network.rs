//! The network of one server: hands out slots from a pool that is kept full in the background.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cabana_types::error::chain;
use tokio::task::{AbortHandle, spawn_blocking};
use tracing::{info, warn};

use crate::builder::{self, Builder};
use crate::ledger::{Ledger, Offer};
use crate::links::Links;
use crate::plan::{BLOCK_PREFIX, Plan};
use crate::reaper::Reaper;
use crate::slot::Slot;
use crate::{Error, NetworkConfig, dns, namespace, netfilter, rules, sentry};

/// The largest packet where the machine has no default route to look at.
const USUAL_MTU: u32 = 1500;

/// After a slot for the pool could not be made.
const REFILL_RETRY: Duration = Duration::from_secs(2);

/// How long closing waits for slots to be deleted.
const CLOSE_PATIENCE: Duration = Duration::from_secs(20);

/// How many slots there are, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Being made.
    pub building: usize,
    /// In the pool.
    pub ready: usize,
    /// Of sandboxes.
    pub used: usize,
    /// Being deleted.
    pub dying: usize,
}

/// The network of one server. Dropping it leaves everything on the machine as it is, for the next server.
#[derive(Debug)]
pub struct Network {
    core: Arc<Core>,
    tasks: Mutex<Vec<AbortHandle>>,
}

#[derive(Debug)]
struct Core {
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
    builder: Builder,
    reaper: Reaper,
}

impl Network {
    /// Takes over the slots `in_use` that an earlier server left to sandboxes that still run, without touching them;
    /// deletes all other slots of the instance; loads the packet filter; starts the DNS forwarder; and fills the pool
    /// in the background.
    pub async fn open(config: NetworkConfig, in_use: &[u32]) -> Result<Network, Error> {
        config.check()?;
        let plan = Arc::new(Plan::new(&config));
        let ledger = Arc::new(Ledger::new(config.slots, config.spare));
        let opened = Network::set_up(config, Arc::clone(&plan), Arc::clone(&ledger), in_use).await;
        let counts = ledger.counts();
        if opened.is_err() && counts.used == 0 && counts.dying == 0 {
            for e in vanish(&plan).await {
                warn!(error = chain(&e), "cleaning up a network that could not be opened");
            }
        }
        opened
    }

    async fn set_up(
        config: NetworkConfig,
        plan: Arc<Plan>,
        ledger: Arc<Ledger>,
        in_use: &[u32],
    ) -> Result<Network, Error> {
        std::fs::create_dir_all(plan.pins()).map_err(Error::path("create", plan.pins()))?;

        let links = Links::open()?;
        let strays = take_stock(&plan, &ledger, &links, in_use).await?;
        let (used, offline) = ledger.in_use();
        // The rules come first: from here on nothing of ours can send what it should not.
        rules::load(&plan, &offline, &used).await?;
        links.fence(plan.block, BLOCK_PREFIX).await?;
        links.add_local(plan.dns()).await?;
        enable_forwarding()?;
        let mtu = links.default_mtu().await?.unwrap_or(USUAL_MTU);
        links.close().await;

        let reaper = Reaper::start(Arc::clone(&plan), Arc::clone(&ledger))?;
        if !strays.is_empty() {
            info!(count = strays.len(), "deleting network slots that an earlier server left");
            reaper.take_now(strays).await?;
        }
        let builder = Builder::start(Arc::clone(&plan), mtu)?;
        let mut tasks = dns::start(Arc::clone(&plan), Arc::clone(&ledger), config.resolvers).await?;
        let core = Arc::new(Core { plan, ledger, builder, reaper });
        tasks.push(tokio::spawn(refill(Arc::clone(&core))).abort_handle());
        tasks.push(sentry::start(Arc::clone(&core.plan), Arc::clone(&core.ledger))?);
        Ok(Network { core, tasks: Mutex::new(tasks) })
    }

    /// A slot for a new sandbox: a ready one without delay, or one made on the spot if the pool is empty.
    pub async fn acquire(&self, internet: bool) -> Result<Slot, Error> {
        let slot = self.core.obtain(internet).await?;
        if !internet {
            // If the caller goes away meanwhile, the slot must not be lost.
            let claim = Claim { core: &self.core, index: Some(slot.index) };
            self.core.block(slot.index).await?;
            claim.keep();
        }
        Ok(slot)
    }

    /// The slot of a sandbox that survived a restart of the server; `None` if its namespace is not there any more.
    pub fn adopted(&self, index: u32) -> Option<Slot> {
        self.core.ledger.used(index)
    }

    /// Gives a slot back: it is deleted in the background, and the pool filled up with a new one. A slot that is not
    /// in use is fine; but one that was given to another sandbox meanwhile is taken from that one.
    pub async fn release(&self, index: u32) -> Result<(), Error> {
        if self.core.ledger.condemn(index) { self.core.reaper.take(vec![index]) } else { Ok(()) }
    }

    /// Gives or takes the internet of a sandbox that runs; taking it cuts its connections. `false` if the slot is not
    /// in use.
    pub async fn set_internet(&self, index: u32, internet: bool) -> Result<bool, Error> {
        if !self.core.ledger.set_internet(index, internet) {
            return Ok(false);
        }
        if internet {
            self.core.unblock(index).await?
        } else {
            self.core.block(index).await?
        }
        Ok(true)
    }

    /// Bytes that went through a slot, both ways, since it was made.
    pub fn traffic(&self, index: u32) -> u64 {
        let dir = std::path::Path::new("/sys/class/net").join(self.core.plan.link(index)).join("statistics");
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
        read("rx_bytes").unwrap_or_default().saturating_add(read("tx_bytes").unwrap_or_default())
    }

    /// How many slots there are, by state.
    pub fn counts(&self) -> Counts {
        self.core.ledger.counts()
    }

    /// Waits until nothing is being made or deleted and the pool is full.
    pub async fn settled(&self) {
        self.core.ledger.until(Ledger::at_rest).await;
    }

    /// Deletes the slots that no sandbox uses and, when none is used, everything else of the instance.
    pub async fn close(&self) -> Result<(), Error> {
        let core = &self.core;
        core.ledger.close();
        core.reaper.take(core.ledger.trim())?;
        let idle = core.ledger.until(|ledger| {
            let counts = ledger.counts();
            counts.building == 0 && counts.dying == 0
        });
        let mut errors = Vec::new();
        if tokio::time::timeout(CLOSE_PATIENCE, idle).await.is_err() {
            let source = std::io::ErrorKind::TimedOut.into();
            errors.push(Error::Io { action: "delete the spare network slots", source });
        }
        self.stop();
        if errors.is_empty() && core.ledger.counts().used == 0 {
            errors.extend(vanish(&core.plan).await);
        }
        Error::collect(errors)
    }

    fn stop(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Core {
    async fn obtain(self: &Arc<Self>, internet: bool) -> Result<Slot, Error> {
        let ledger = &self.ledger;
        let _waiting = ledger.wait();
        loop {
            let change = ledger.change();
            tokio::pin!(change);
            change.as_mut().enable();
            match ledger.request(internet)? {
                Offer::Slot(slot) => return Ok(slot),
                Offer::Wait => change.await,
                Offer::Build(index) => {
                    // In a task of its own: what is begun comes to an end even if the caller goes away.
                    let core = Arc::clone(self);
                    tokio::spawn(async move { core.provide(index).await }).await.map_err(|_| Error::Closed)??;
                }
            }
        }
    }

    /// Makes a slot that the ledger calls building.
    async fn provide(&self, index: u32) -> Result<(), Error> {
        match self.builder.build(index).await {
            Ok(slot) => {
                let wanted = self.ledger.built(slot);
                if wanted { Ok(()) } else { self.reaper.take(vec![index]) }
            }
            Err(e) => {
                self.ledger.gone(index);
                Err(e)
            }
        }
    }

    /// Takes the internet from a slot. The mark on disk comes first, for a server that starts after a crash.
    async fn block(&self, index: u32) -> Result<(), Error> {
        let (mark, table, address) = (self.plan.offline_mark(index), self.plan.table(), self.plan.address(index));
        let done = spawn_blocking(move || {
            std::fs::write(&mark, []).map_err(Error::path("create", &mark))?;
            netfilter::add(&table, rules::OFFLINE, address).map_err(Error::io("take a sandbox off the internet"))
        });
        done.await.map_err(|_| Error::Closed)?
    }

    async fn unblock(&self, index: u32) -> Result<(), Error> {
        let (mark, table, address) = (self.plan.offline_mark(index), self.plan.table(), self.plan.address(index));
        let done = spawn_blocking(move || {
            netfilter::remove(&table, rules::OFFLINE, &[address]).map_err(Error::io("give a sandbox internet"))?;
            namespace::remove(&mark)
        });
        done.await.map_err(|_| Error::Closed)?
    }
}

/// A slot on its way to the caller: released if it does not arrive.
struct Claim<'a> {
    core: &'a Core,
    index: Option<u32>,
}

impl Claim<'_> {
    fn keep(mut self) {
        self.index = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some(index) = self.index.filter(|&index| self.core.ledger.condemn(index)) else { return };
        if let Err(e) = self.core.reaper.take(vec![index]) {
            warn!(index, error = chain(&e), "a network slot is left for the next server to delete");
        }
    }
}

/// Enters what is on the machine into the ledger, and returns the slots that nobody uses.
async fn take_stock(plan: &Plan, ledger: &Ledger, links: &Links, in_use: &[u32]) -> Result<Vec<u32>, Error> {
    let names = links.names().await?;
    let linked: Vec<u32> = names.iter().filter_map(|name| plan.index_of_link(name)).collect();
    let mut found = linked.clone();
    for entry in std::fs::read_dir(plan.pins()).map_err(Error::path("list", plan.pins()))? {
        let name = entry.map_err(Error::path("list", plan.pins()))?.file_name();
        found.extend(name.to_str().and_then(|name| plan.index_of_file(name)));
    }
    found.sort_unstable();
    found.dedup();
    for &index in found.iter().filter(|index| in_use.contains(index)) {
        let pinned = namespace::open(&plan.pin(index))?.filter(|_| linked.contains(&index));
        if pinned.is_none() {
            warn!(index, "the network namespace of a running sandbox is not where it was pinned");
        }
        let mark = plan.offline_mark(index);
        let offline = mark.try_exists().map_err(Error::path("look up", mark))?;
        ledger.adopt(index, pinned.map(|netns| builder::slot(plan, index, netns)), !offline);
    }
    found.retain(|index| !in_use.contains(index));
    found.iter().for_each(|&index| ledger.stray(index));
    Ok(found)
}

/// Removes what is there once per instance.
async fn vanish(plan: &Plan) -> Vec<Error> {
    let mut errors = Vec::new();
    match Links::open() {
        Ok(links) => {
            errors.extend(links.remove_local(plan.dns()).await.err());
            errors.extend(links.remove_fence(plan.block, BLOCK_PREFIX).await.err());
            links.close().await;
        }
        Err(e) => errors.push(e),
    }
    errors.extend(rules::unload(plan).await.err());
    match std::fs::remove_dir(plan.pins()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            errors.push(Error::path("remove", plan.pins())(e));
        }
        _ => {}
    }
    errors
}

/// Lets the machine pass packets on. Only written when it is off, for writing it resets other settings.
fn enable_forwarding() -> Result<(), Error> {
    let path = "/proc/sys/net/ipv4/ip_forward";
    let now = std::fs::read_to_string(path).map_err(Error::path("read", path))?;
    if now.trim() != "1" {
        namespace::set("ipv4/ip_forward", "1")?;
    }
    Ok(())
}

/// Keeps the pool at its size.
async fn refill(core: Arc<Core>) {
    loop {
        let change = core.ledger.change();
        tokio::pin!(change);
        change.as_mut().enable();
        if core.reaper.take(core.ledger.trim()).is_err() {
            return;
        }
        let Some(index) = core.ledger.refill() else {
            change.await;
            continue;
        };
        // In a task of its own, so that a slot is never left half-made in the ledger when this loop is stopped.
        let task = tokio::spawn({
            let core = Arc::clone(&core);
            async move { core.provide(index).await }
        });
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(Error::Closed)) | Err(_) => return,
            Ok(Err(e)) => {
                warn!(error = chain(&e), "making a network slot for the pool");
                tokio::time::sleep(REFILL_RETRY).await;
            }
        }
    }
}
