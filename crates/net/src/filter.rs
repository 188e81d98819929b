//! What the packet filter holds for each slot, and its changes. Everything happens under one lock, so that a slot is
//! never changed after it was cleared.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use cabana_types::EgressPolicy;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::addressing::Addressing;
use crate::ledger::Ledger;
use crate::tenant::Tenant;
use crate::{Error, netfilter, rules};

#[derive(Debug)]
pub(crate) struct Filter {
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    /// Slots without internet access.
    offline: Mutex<BTreeSet<u32>>,
}

impl Filter {
    pub(crate) fn new(addressing: Arc<Addressing>, ledger: Arc<Ledger>) -> Arc<Filter> {
        Arc::new(Filter { addressing, ledger, offline: Mutex::default() })
    }

    /// Loads the whole table for the slots in use, replacing an existing one.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let mut offline = self.offline.lock().await;
        let in_use = self.ledger.in_use();
        let used: Vec<u32> = in_use.iter().map(|(index, _)| *index).collect();
        let wanted = in_use.iter().filter(|(_, tenant)| is_offline(&tenant.policy())).map(|(index, _)| *index);
        let wanted: BTreeSet<u32> = wanted.collect();
        rules::load(&self.addressing, &wanted.iter().copied().collect::<Vec<_>>(), &used).await?;
        *offline = wanted;
        Ok(())
    }

    /// Applies a policy to a slot in use. Continues if the caller is cancelled. `false` if the sandbox has left the slot.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        index: u32,
        tenant: &Arc<Tenant>,
        policy: Arc<EgressPolicy>,
    ) -> Result<bool, Error> {
        let (filter, tenant) = (Arc::clone(self), Arc::clone(tenant));
        spawn_blocking(move || filter.apply_now(index, &tenant, policy)).await.map_err(|_| Error::Closed)?
    }

    fn apply_now(&self, index: u32, tenant: &Arc<Tenant>, policy: Arc<EgressPolicy>) -> Result<bool, Error> {
        let mut offline = self.offline.blocking_lock();
        if !self.ledger.tenant(index).is_some_and(|current| Arc::ptr_eq(&current, tenant)) {
            return Ok(false);
        }
        let (table, address) = (self.addressing.table(), self.addressing.address(index));
        let is_offline = is_offline(&policy);
        tenant.set_policy(policy);
        if is_offline && !offline.contains(&index) {
            netfilter::add(&table, rules::OFFLINE, address)
                .map_err(Error::io("disable a sandbox's internet access"))?;
            offline.insert(index);
        } else if !is_offline && offline.contains(&index) {
            netfilter::remove(&table, rules::OFFLINE, &[address])
                .map_err(Error::io("enable a sandbox's internet access"))?;
            offline.remove(&index);
        }
        Ok(true)
    }

    /// Removes everything of a batch of slots that are not in use any more.
    pub(crate) async fn clear(&self, batch: &[u32]) -> Result<(), Error> {
        let mut offline = self.offline.lock().await;
        let table = self.addressing.table();
        let leave = |set, indexes: &mut dyn Iterator<Item = &u32>| {
            let addresses: Vec<Ipv4Addr> = indexes.map(|&index| self.addressing.address(index)).collect();
            netfilter::remove(&table, set, &addresses).map_err(Error::io("remove sandboxes from the packet filter"))
        };
        leave(rules::FLOWS, &mut batch.iter())?;
        leave(rules::QUERIES, &mut batch.iter())?;
        leave(rules::OFFLINE, &mut batch.iter().filter(|index| offline.contains(index)))?;
        offline.retain(|index| !batch.contains(index));
        Ok(())
    }
}

/// Policies other than the open one are not enforced yet, so they allow nothing.
fn is_offline(policy: &EgressPolicy) -> bool {
    !policy.is_open()
}
