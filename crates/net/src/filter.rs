//! What the packet filter holds for each slot, and its changes. Everything happens under one lock, so that a slot is
//! never changed after it was cleared.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use cabana_types::EgressPolicy;
use cabana_types::address::Prefix;
use cabana_types::egress::{Bounds, Proxied, Target};
use cabana_types::error::chain;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::warn;

use crate::Error;
use crate::addressing::Addressing;
use crate::chains::{Chains, LARGE};
use crate::egress::SharedBounds;
use crate::ledger::Ledger;
use crate::netfilter::{Batch, Session, Verdict};
use crate::ranges::{self, Decided};
use crate::rules::{self, Names, Redirect};
use crate::tenant::Tenant;

#[derive(Debug)]
pub(crate) struct Filter {
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    bounds: Arc<SharedBounds>,
    session: Session,
    held: Mutex<Held>,
}

/// What the kernel holds.
#[derive(Debug, Default)]
struct Held {
    /// For each slot; nothing for unlisted ones.
    slots: BTreeMap<u32, Applied>,
    chains: Chains,
}

/// What the kernel holds for a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Applied {
    offline: bool,
    /// The chain with what its policy decides, if it denies anything.
    chain: Option<u32>,
    redirect: Option<Redirect>,
}

/// What the kernel should hold for a slot.
#[derive(Debug, Default)]
struct Wanted {
    offline: bool,
    decided: Decided,
    redirect: Option<Redirect>,
}

impl Wanted {
    fn of(policy: &EgressPolicy, bounds: &Bounds) -> Wanted {
        if policy.is_offline() {
            return Wanted { offline: true, ..Wanted::default() };
        }
        let redirect = match policy.proxied(bounds) {
            Proxied::All => Some(Redirect::All),
            Proxied::Named => Some(Redirect::Named),
            Proxied::None => (!policy.is_open()).then_some(Redirect::Dns),
        };
        Wanted { offline: false, decided: Decided::of(policy), redirect }
    }

    /// The chain that it needs, if it denies anything.
    fn chain(&self, chains: &Chains) -> Option<u32> {
        let any = !self.decided.is_empty();
        any.then(|| chains.find(&self.decided).unwrap_or_else(|| chains.unused()))
    }
}

/// Entries of a policy that the kernel holds. Names are not among them: the egress proxy compares them.
fn entries(policy: &EgressPolicy) -> usize {
    policy.deny_out.len() + policy.allow_out.iter().filter(|target| matches!(target, Target::Address(_))).count()
}

/// Makes a chain with its sets.
fn make_chain(batch: &mut Batch, number: u32, decided: &Decided) {
    let (chain, names) = (rules::chain(number), Names::of(number));
    batch.new_set(&names.allowed);
    batch.new_map(&names.single, false);
    batch.new_map(&names.ranges, true);
    batch.new_chain(&chain);
    batch.spare(&chain, &names.allowed);
    batch.mark(&chain, &names.single, rules::REFUSE);
    batch.mark(&chain, &names.ranges, rules::REFUSE);
    batch.add(&names.allowed, &decided.allowed);
    batch.add_marks(&names.single, &decided.single);
    batch.add_ranges(&names.ranges, &decided.ranges);
}

/// Deletes a chain that no sandbox uses, with its sets.
fn drop_chain(batch: &mut Batch, number: u32) {
    batch.delete_chain(&rules::chain(number));
    let Names { allowed, single, ranges } = Names::of(number);
    [allowed, single, ranges].iter().for_each(|set| batch.delete_set(set));
}

impl Filter {
    /// The filter of the calling thread's namespace.
    pub(crate) fn open(
        addressing: Arc<Addressing>,
        ledger: Arc<Ledger>,
        bounds: Arc<SharedBounds>,
    ) -> Result<Arc<Filter>, Error> {
        let session = Session::open().map_err(Error::io("open a netfilter socket"))?;
        Ok(Arc::new(Filter { addressing, ledger, bounds, session, held: Mutex::default() }))
    }

    /// Whether the kernel holds anything for a policy.
    pub(crate) fn has_to_know(&self, policy: &EgressPolicy) -> bool {
        !policy.is_open() || self.bounds.get().names_hosts()
    }

    /// Loads the whole table for the slots in use, replacing an existing one.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let mut held = self.held.lock().await;
        let bounds = self.bounds.get();
        let mut contents = rules::Contents {
            closed: ranges::closed(&bounds),
            only: ranges::only(&bounds),
            ..rules::Contents::default()
        };
        let mut now = Held::default();
        for (index, tenant) in self.ledger.in_use() {
            let wanted = Wanted::of(&tenant.policy(), &bounds);
            let chain = wanted.chain(&now.chains);
            now.slots.insert(index, Applied { offline: wanted.offline, chain, redirect: wanted.redirect });
            contents.used.push(index);
            contents.offline.extend(wanted.offline.then_some(index));
            contents.redirects.extend(wanted.redirect.map(|redirect| (index, redirect)));
            if let Some(number) = chain {
                contents.policies.push((index, number));
                if now.chains.find(&wanted.decided).is_none() {
                    contents.decided.push((number, wanted.decided.clone()));
                }
                now.chains.join(number, wanted.decided);
            }
        }
        rules::load(&self.addressing, &contents).await?;
        *held = now;
        Ok(())
    }

    /// Applies the policy of a slot that was just allocated; a large one in the background, with nothing allowed until
    /// then: see [`Tenant::begun`]. Continues if the caller is cancelled.
    pub(crate) async fn begin(self: &Arc<Self>, index: u32, tenant: &Arc<Tenant>) -> Result<(), Error> {
        let policy = tenant.policy();
        if entries(&policy) <= LARGE || self.held.lock().await.chains.find(&Decided::of(&policy)).is_some() {
            return self.start(index, tenant, None).await.map_err(|_| Error::Closed)?;
        }
        let closed = self.start(index, tenant, Some(EgressPolicy::offline()));
        closed.await.map_err(|_| Error::Closed)??;
        tenant.begins(self.start(index, tenant, None));
        Ok(())
    }

    /// Applies a policy to a new slot, or the sandbox's own one.
    fn start(
        self: &Arc<Self>,
        index: u32,
        tenant: &Arc<Tenant>,
        other: Option<EgressPolicy>,
    ) -> JoinHandle<Result<(), Error>> {
        let (filter, tenant) = (Arc::clone(self), Arc::clone(tenant));
        spawn_blocking(move || {
            let mut held = filter.held.blocking_lock();
            if !filter.is_used_by(index, &tenant) {
                return Ok(());
            }
            let put = match other {
                Some(other) => filter.put(&mut held, index, &other),
                None => filter.put(&mut held, index, &tenant.policy()),
            };
            put.map_err(Error::io("apply the egress policy of a sandbox"))
        })
    }

    /// Changes the policy of a slot in use. Continues if the caller is cancelled. `false` if the sandbox has left the slot.
    pub(crate) async fn change(
        self: &Arc<Self>,
        index: u32,
        tenant: &Arc<Tenant>,
        policy: Arc<EgressPolicy>,
    ) -> Result<bool, Error> {
        let (filter, tenant) = (Arc::clone(self), Arc::clone(tenant));
        let changed = spawn_blocking(move || filter.change_now(index, &tenant, policy));
        changed.await.map_err(|_| Error::Closed)?.map_err(Error::io("change the egress policy of a sandbox"))
    }

    fn change_now(&self, index: u32, tenant: &Arc<Tenant>, policy: Arc<EgressPolicy>) -> io::Result<bool> {
        let mut held = self.held.blocking_lock();
        if !self.is_used_by(index, tenant) {
            return Ok(false);
        }
        // The counters of the kernel are by number of the rule, which is another one from now on.
        self.count(index, tenant);
        tenant.set_policy(Arc::clone(&policy));
        if let Err(error) = self.put(&mut held, index, &policy) {
            let offline = Arc::new(EgressPolicy::offline());
            tenant.set_policy(Arc::clone(&offline));
            if let Err(error) = self.put(&mut held, index, &offline) {
                warn!(sandbox = %tenant.owner, error = chain(&error), "a sandbox keeps its former egress policy");
            }
            return Err(error);
        }
        if held.slots.get(&index).is_none_or(|applied| applied.chain.is_none()) {
            return Ok(true);
        }
        let bounds = self.bounds.get();
        let address = self.addressing.address(index);
        let cut = self.session.cut_flows(address, |to| policy.by_address(to.into(), &bounds).allowed);
        if let Err(error) = cut {
            // The sandbox cannot send any more, but may still receive.
            warn!(sandbox = %tenant.owner, error = chain(&error), "deleting the conntrack entries of a sandbox");
        }
        Ok(true)
    }

    fn is_used_by(&self, index: u32, tenant: &Arc<Tenant>) -> bool {
        self.ledger.tenant(index).is_some_and(|current| Arc::ptr_eq(&current, tenant))
    }

    /// Makes the kernel hold what a policy needs, in one transaction.
    fn put(&self, held: &mut Held, index: u32, policy: &EgressPolicy) -> io::Result<()> {
        let before = held.slots.get(&index).copied().unwrap_or_default();
        let wanted = Wanted::of(policy, &self.bounds.get());
        let chain = wanted.chain(&held.chains);
        let after = Applied { offline: wanted.offline, chain, redirect: wanted.redirect };
        let mut batch = Batch::new(&self.addressing.table());
        let address = self.addressing.address(index);
        if after.offline && !before.offline {
            batch.add(rules::OFFLINE, &[address]);
        }
        let (mut leaving, mut surplus) = (None, Vec::new());
        if before.chain != chain {
            leaving = before.chain;
            if let Some(number) = chain.filter(|_| held.chains.find(&wanted.decided).is_none()) {
                make_chain(&mut batch, number, &wanted.decided);
            }
            if leaving.is_some() {
                batch.take(rules::POLICIES, &[address]);
            }
            if let Some(number) = chain {
                batch.send_to(rules::POLICIES, address, Verdict::Jump, &rules::chain(number));
            }
            surplus = held.chains.surplus(leaving.as_slice(), chain);
            surplus.iter().for_each(|number| drop_chain(&mut batch, *number));
        }
        if before.redirect != after.redirect {
            if before.redirect.is_some() {
                batch.take(rules::REDIRECTS, &[address]);
            }
            if let Some(redirect) = after.redirect {
                batch.send_to(rules::REDIRECTS, address, Verdict::Goto, redirect.chain());
            }
        }
        if before.offline && !after.offline {
            batch.take(rules::OFFLINE, &[address]);
        }
        self.session.commit(batch)?;
        held.slots.insert(index, after);
        if let Some(number) = chain.filter(|_| before.chain != chain) {
            held.chains.join(number, wanted.decided);
        }
        held.chains.leave(leaving.as_slice(), &surplus);
        Ok(())
    }

    /// Adds what the kernel counted since the last time to the denials of a sandbox.
    pub(crate) fn count(&self, index: u32, tenant: &Tenant) {
        let counters = match self.session.counters(&self.addressing.table(), rules::REFUSED) {
            Ok(counters) => counters,
            Err(error) => return warn!(error = chain(&error), "reading the counters of the packet filter"),
        };
        let address = self.addressing.address(index);
        let (policy, bounds) = (tenant.policy(), self.bounds.get());
        let own = counters.into_iter().filter(|(source, ..)| *source == address);
        tenant.count(own.map(|(_, rule, packets)| (rule, packets)), |rule| ranges::rule(rule, &policy, &bounds));
    }

    /// The networks of the host that are closed.
    pub(crate) fn on_link(&self) -> Vec<Prefix> {
        self.bounds.get().on_link.clone()
    }

    /// Closes other networks of the host.
    pub(crate) async fn set_on_link(self: &Arc<Self>, on_link: Vec<Prefix>) -> Result<(), Error> {
        let filter = Arc::clone(self);
        let set = move || {
            let _held = filter.held.blocking_lock();
            let before = filter.on_link();
            // The numbers of rules are other ones from now on.
            filter.ledger.in_use().iter().for_each(|(index, tenant)| filter.count(*index, tenant));
            filter.bounds.set_on_link(on_link);
            let mut batch = Batch::new(&filter.addressing.table());
            batch.empty(rules::CLOSED);
            batch.add_ranges(rules::CLOSED, &ranges::closed(&filter.bounds.get()));
            let set = filter.session.commit(batch);
            if set.is_err() {
                // So that it is tried again.
                filter.bounds.set_on_link(before);
            }
            set
        };
        let set = spawn_blocking(set).await.map_err(|_| Error::Closed)?;
        set.map_err(Error::io("close the networks of the host to sandboxes"))
    }

    /// Removes everything of a batch of slots that are not in use any more.
    pub(crate) async fn clear(&self, indexes: &[u32]) -> Result<(), Error> {
        let mut held = self.held.lock().await;
        self.clear_now(&mut held, indexes).map_err(Error::io("remove sandboxes from the packet filter"))
    }

    fn clear_now(&self, held: &mut Held, indexes: &[u32]) -> io::Result<()> {
        let table = self.addressing.table();
        let addresses: Vec<Ipv4Addr> = indexes.iter().map(|&index| self.addressing.address(index)).collect();
        for set in rules::COUNTED {
            self.session.remove(&table, set, &addresses)?;
        }
        let mut batch = Batch::new(&table);
        let mut leaving = Vec::new();
        for index in indexes {
            let Some(slot) = held.slots.get(index) else { continue };
            let address = [self.addressing.address(*index)];
            if slot.offline {
                batch.take(rules::OFFLINE, &address);
            }
            if slot.redirect.is_some() {
                batch.take(rules::REDIRECTS, &address);
            }
            if let Some(number) = slot.chain {
                batch.take(rules::POLICIES, &address);
                leaving.push(number);
            }
        }
        let surplus = if leaving.is_empty() { Vec::new() } else { held.chains.surplus(&leaving, None) };
        surplus.iter().for_each(|number| drop_chain(&mut batch, *number));
        let committed = match self.session.commit(batch) {
            // The whole table is gone; the next one will not have them.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) && !self.session.has_table(&table)? => false,
            other => other.map(|()| true)?,
        };
        held.slots.retain(|index, _| !indexes.contains(index));
        held.chains.leave(&leaving, &surplus);
        if !committed {
            return Ok(());
        }
        let mut counters = self.session.counters(&table, rules::REFUSED)?;
        counters.retain(|(source, ..)| addresses.contains(source));
        self.session.remove_counters(&table, rules::REFUSED, &counters)
    }

    /// Deletes the conntrack entries of a slot.
    pub(crate) fn forget_flows(&self, index: u32) -> Result<(), Error> {
        let forgotten = self.session.forget_flows(self.addressing.address(index));
        forgotten.map_err(Error::io("delete the conntrack entries of a sandbox"))
    }

    /// Whether the table exists.
    pub(crate) fn is_loaded(&self) -> Result<bool, Error> {
        self.session.has_table(&self.addressing.table()).map_err(Error::io("look for the packet filter"))
    }
}
