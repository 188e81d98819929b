//! The network of one server: allocates slots from a pool that is refilled in the background.

use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Backoff, OnDrop, Restart, Supervisor};
use cabana_types::egress::{Bounds, Denials};
use cabana_types::error::chain;
use cabana_types::{EgressPolicy, SandboxId};
use tracing::{info, warn};

use crate::addressing::{Addressing, BLOCK_PREFIX};
use crate::builder::Builder;
use crate::egress::{Egress, Gate, SharedBounds};
use crate::filter::Filter;
use crate::ledger::{Ledger, Offer};
use crate::links::Links;
use crate::reaper::Reaper;
use crate::slot::Slot;
use crate::stock::{remove_shared, take_stock};
use crate::tenant::Tenant;
use crate::{Error, NetworkConfig, dns, namespace, on_link, sentry};

/// MTU if the machine has no default route.
const USUAL_MTU: u32 = 1500;

/// Backoff after a slot for the pool could not be created.
const REFILL_RETRY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// Attempts to create a slot if the builder thread fails.
const TRIES: u32 = 3;

/// How long closing waits for slots to be deleted.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long closing waits for tasks after that.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of slots by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Being created.
    pub building: usize,
    /// In the pool.
    pub ready: usize,
    /// Used by sandboxes.
    pub used: usize,
    /// Being deleted.
    pub dying: usize,
}

/// A slot of a sandbox that an earlier server left running.
#[derive(Debug, Clone)]
pub struct InUse {
    /// Its index.
    pub index: u32,
    /// The sandbox.
    pub owner: SandboxId,
    /// Its policy.
    pub policy: Arc<EgressPolicy>,
}

/// The network of one server. Dropping it leaves everything in place for the next server.
#[derive(Debug)]
pub struct Network {
    core: Arc<Core>,
    /// Stops the tasks and threads when dropped.
    tasks: Supervisor,
}

#[derive(Debug)]
struct Core {
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    filter: Arc<Filter>,
    gate: Arc<Gate>,
    builder: Builder,
    reaper: Reaper,
}

impl Network {
    /// Adopts the slots `in_use` of running sandboxes from an earlier server without changing them;
    /// deletes all other slots of the instance; loads the packet filter; starts the DNS forwarder; and fills the pool
    /// in the background. Its tasks run in their own scope of the supervisor.
    pub async fn open(config: NetworkConfig, in_use: Vec<InUse>, supervisor: &Supervisor) -> Result<Network, Error> {
        config.check()?;
        let addressing = Arc::new(Addressing::new(&config));
        let ledger = Arc::new(Ledger::new(config.slots, config.spare));
        let tasks = supervisor.scope();
        let opened = Network::set_up(config, Arc::clone(&addressing), Arc::clone(&ledger), in_use, tasks).await;
        let counts = ledger.counts();
        if opened.is_err() && counts.used == 0 && counts.dying == 0 {
            for e in remove_shared(&addressing).await {
                warn!(error = chain(&e), "cleaning up a network that could not be opened");
            }
        }
        opened
    }

    async fn set_up(
        config: NetworkConfig,
        addressing: Arc<Addressing>,
        ledger: Arc<Ledger>,
        in_use: Vec<InUse>,
        tasks: Supervisor,
    ) -> Result<Network, Error> {
        std::fs::create_dir_all(addressing.pins()).map_err(Error::path("create", addressing.pins()))?;

        let links = Links::open()?;
        let strays = take_stock(&addressing, &ledger, &links, in_use).await?;
        let on_link = on_link::read(&links).await?;
        let bounds = SharedBounds::new(Bounds { on_link, ..config.bounds });
        let filter = Filter::open(Arc::clone(&addressing), Arc::clone(&ledger), Arc::clone(&bounds))?;
        // The rules come first: from here on no slot is unfiltered.
        filter.load().await?;
        links.fence(addressing.block, BLOCK_PREFIX).await?;
        links.add_local(addressing.dns()).await?;
        enable_forwarding()?;
        let mtu = links.default_mtu().await?.unwrap_or(USUAL_MTU);
        links.close().await;

        let reaper = Reaper::start(&tasks, Arc::clone(&addressing), Arc::clone(&ledger), Arc::clone(&filter))?;
        if !strays.is_empty() {
            info!(count = strays.len(), "deleting network slots that an earlier server left");
            reaper.take_now(strays).await?;
        }
        let builder = Builder::start(&tasks, Arc::clone(&addressing), mtu)?;
        let lookup =
            dns::start(&tasks, Arc::clone(&addressing), Arc::clone(&ledger), Arc::clone(&bounds), config.resolvers)
                .await?;
        sentry::start(&tasks, Arc::clone(&addressing), Arc::clone(&filter))?;
        on_link::start(&tasks, Arc::clone(&filter))?;
        let gate = Gate { addressing: Arc::clone(&addressing), ledger: Arc::clone(&ledger), bounds, lookup };
        let core = Arc::new(Core { addressing, ledger, filter, gate: Arc::new(gate), builder, reaper });
        let refilled = Arc::clone(&core);
        tasks.restart("network slot pool", Restart::forever(), move |stop| {
            let refill = refill(Arc::clone(&refilled));
            async move { stop.run_until_cancelled(refill).await.unwrap_or(Ok(())) }
        });
        Ok(Network { core, tasks })
    }

    /// Allocates a slot for a sandbox: a ready one without delay, or a new one if the pool is empty. A large policy is
    /// applied in the background, and the sandbox can connect nowhere until [`Network::ready`] returns.
    pub async fn acquire(&self, owner: &SandboxId, policy: Arc<EgressPolicy>) -> Result<Slot, Error> {
        let has_to_know = self.core.filter.has_to_know(&policy);
        let tenant = Tenant::new(owner.clone(), policy);
        let slot = self.core.obtain(&tenant).await?;
        if has_to_know {
            // If the caller is cancelled before the end, the slot is released.
            let claim = Claim { core: &self.core, index: Some(slot.index) };
            self.core.filter.begin(slot.index, &tenant).await?;
            claim.keep();
        }
        Ok(slot)
    }

    /// Waits until the policy of a slot that was just allocated is applied.
    pub async fn ready(&self, index: u32) -> Result<(), Error> {
        match self.core.ledger.tenant(index) {
            Some(tenant) => tenant.begun().await,
            None => Ok(()),
        }
    }

    /// The slot of a sandbox that survived a restart of the server; `None` if its namespace is gone.
    pub fn adopted(&self, index: u32) -> Option<Slot> {
        self.core.ledger.used(index)
    }

    /// Releases a slot: it is deleted in the background, and the pool is refilled. A slot that is not
    /// in use is ignored; the caller must own it.
    pub async fn release(&self, index: u32) -> Result<(), Error> {
        if self.core.ledger.release(index) { self.core.reaper.take(vec![index]) } else { Ok(()) }
    }

    /// Changes the policy of a running sandbox. Connections that it does not allow any more are cut; others continue.
    /// `false` if the slot is not in use. After an error the sandbox may connect nowhere until the next change.
    pub async fn set_policy(&self, index: u32, policy: Arc<EgressPolicy>) -> Result<bool, Error> {
        let Some(tenant) = self.core.ledger.tenant(index) else { return Ok(false) };
        self.core.filter.change(index, &tenant, policy).await
    }

    /// What the policy of a slot's sandbox denied.
    pub fn denials(&self, index: u32) -> Denials {
        let Some(tenant) = self.core.ledger.tenant(index) else { return Denials::default() };
        self.core.filter.count(index, &tenant);
        tenant.denials()
    }

    /// What the egress proxy needs of the network.
    pub fn egress(&self) -> Arc<dyn Egress> {
        Arc::clone(&self.core.gate) as Arc<dyn Egress>
    }

    /// Bytes sent and received through a slot since it was created.
    pub fn traffic(&self, index: u32) -> u64 {
        let dir = std::path::Path::new("/sys/class/net").join(self.core.addressing.link(index)).join("statistics");
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
        read("rx_bytes").unwrap_or_default().saturating_add(read("tx_bytes").unwrap_or_default())
    }

    /// Number of slots by state.
    pub fn counts(&self) -> Counts {
        self.core.ledger.counts()
    }

    /// Waits until nothing is being created or deleted and the pool is full.
    pub async fn settled(&self) {
        self.core.ledger.until(Ledger::at_rest).await;
    }

    /// Deletes the unused slots and, if none is used, everything else of the instance.
    pub async fn close(&self) -> Result<(), Error> {
        let core = &self.core;
        core.ledger.close();
        core.reaper.take(core.ledger.trim())?;
        let idle = core.ledger.until(|ledger| {
            let counts = ledger.counts();
            counts.building == 0 && counts.dying == 0
        });
        let mut errors = Vec::new();
        if tokio::time::timeout(CLOSE_TIMEOUT, idle).await.is_err() {
            let source = std::io::ErrorKind::TimedOut.into();
            errors.push(Error::Io { action: "delete the spare network slots", source });
        }
        self.tasks.stop(STOP_TIMEOUT).await;
        if errors.is_empty() && core.ledger.counts().used == 0 {
            errors.extend(remove_shared(&core.addressing).await);
        }
        Error::collect(errors)
    }
}

impl Core {
    async fn obtain(self: &Arc<Self>, tenant: &Arc<Tenant>) -> Result<Slot, Error> {
        let ledger = &self.ledger;
        let _waiting = ledger.wait();
        let mut tries = 0;
        loop {
            let change = ledger.change();
            tokio::pin!(change);
            change.as_mut().enable();
            match ledger.request(tenant)? {
                Offer::Slot(slot) => return Ok(slot),
                Offer::Wait => change.await,
                Offer::Build(index) => {
                    // In its own task, so that the slot is finished even if the caller is cancelled.
                    let core = Arc::clone(self);
                    let made = tokio::spawn(async move { core.provide(index).await }).await;
                    tries += 1;
                    match made.unwrap_or(Err(Error::Interrupted)) {
                        Err(Error::Interrupted) if tries < TRIES => {}
                        made => made?,
                    }
                }
            }
        }
    }

    /// Creates a slot that is marked as building.
    async fn provide(&self, index: u32) -> Result<(), Error> {
        // If this panics, the slot must not stay `building`.
        let abandoned = OnDrop::new(|| self.abandon(index));
        let built = self.builder.build(index).await;
        let outcome = match built {
            Ok(slot) => {
                let wanted = self.ledger.built(slot);
                if wanted { Ok(()) } else { self.reaper.take(vec![index]) }
            }
            // What the thread had created so far still exists.
            Err(Error::Interrupted) => {
                self.abandon(index);
                Err(Error::Interrupted)
            }
            Err(e) => {
                self.ledger.gone(index);
                Err(e)
            }
        };
        abandoned.disarm();
        outcome
    }

    /// Deletes the remains of an unfinished slot.
    fn abandon(&self, index: u32) {
        self.ledger.abandon(index);
        if let Err(e) = self.reaper.take(vec![index]) {
            warn!(index, error = chain(&e), "a network slot is left for the next start to delete");
        }
    }
}

/// A slot that has not been handed to the caller yet; released when dropped.
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
        let Some(index) = self.index.filter(|&index| self.core.ledger.release(index)) else { return };
        if let Err(e) = self.core.reaper.take(vec![index]) {
            warn!(index, error = chain(&e), "a network slot is left for the next start to delete");
        }
    }
}

/// Enables IP forwarding. Written only if it is off, because writing it resets other settings.
fn enable_forwarding() -> Result<(), Error> {
    let path = "/proc/sys/net/ipv4/ip_forward";
    let now = std::fs::read_to_string(path).map_err(Error::path("read", path))?;
    if now.trim() != "1" {
        namespace::set("ipv4/ip_forward", "1")?;
    }
    Ok(())
}

/// Keeps the pool at its size.
async fn refill(core: Arc<Core>) -> Result<(), &'static str> {
    let mut backoff = Backoff::new(REFILL_RETRY.0, REFILL_RETRY.1);
    loop {
        let change = core.ledger.change();
        tokio::pin!(change);
        change.as_mut().enable();
        core.reaper.take(core.ledger.trim()).map_err(|_| "the slot reaper does not run")?;
        let Some(index) = core.ledger.refill() else {
            change.await;
            continue;
        };
        // In its own task, so that no slot stays half-made when this loop is stopped.
        let task = tokio::spawn({
            let core = Arc::clone(&core);
            async move { core.provide(index).await }
        });
        match task.await.map_err(|_| "creating a network slot panicked")? {
            Ok(()) => backoff = Backoff::new(REFILL_RETRY.0, REFILL_RETRY.1),
            Err(e) => {
                warn!(error = chain(&e), "creating a network slot for the pool");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
