//! What exists of an instance on the machine: taken over at the start, removed at the end.

use std::collections::BTreeSet;

use tracing::warn;

use crate::addressing::{Addressing, BLOCK_PREFIX};
use crate::ledger::Ledger;
use crate::links::Links;
use crate::network::InUse;
use crate::tenant::Tenant;
use crate::{Error, builder, namespace, rules};

/// Records existing slots in the ledger, and returns the unused ones.
pub(crate) async fn take_stock(
    addressing: &Addressing,
    ledger: &Ledger,
    links: &Links,
    in_use: Vec<InUse>,
) -> Result<Vec<u32>, Error> {
    let names = links.names().await?;
    let linked: BTreeSet<u32> = names.iter().filter_map(|name| addressing.index_of_link(name)).collect();
    let mut found = linked.clone();
    for entry in std::fs::read_dir(addressing.pins()).map_err(Error::path("list", addressing.pins()))? {
        let entry = entry.map_err(Error::path("list", addressing.pins()))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        found.extend(addressing.index_of_file(name));
        if addressing.is_old_mark(name) {
            namespace::remove(&entry.path())?;
        }
    }
    for InUse { index, owner, policy } in in_use {
        if !found.remove(&index) {
            continue;
        }
        let pinned = namespace::open(&addressing.pin(index))?.filter(|_| linked.contains(&index));
        if pinned.is_none() {
            warn!(index, "the network namespace of a running sandbox is not where it was pinned");
        }
        let slot = pinned.map(|netns| builder::slot(addressing, index, netns));
        ledger.adopt(index, slot, Tenant::new(owner, policy));
    }
    found.iter().for_each(|&index| ledger.stray(index));
    Ok(found.into_iter().collect())
}

/// Removes the objects that exist once per instance.
pub(crate) async fn remove_shared(addressing: &Addressing) -> Vec<Error> {
    let mut errors = Vec::new();
    match Links::open() {
        Ok(links) => {
            errors.extend(links.remove_local(addressing.dns()).await.err());
            errors.extend(links.remove_fence(addressing.block, BLOCK_PREFIX).await.err());
            links.close().await;
        }
        Err(e) => errors.push(e),
    }
    errors.extend(rules::unload(addressing).await.err());
    match std::fs::remove_dir(addressing.pins()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            errors.push(Error::path("remove", addressing.pins())(e));
        }
        _ => {}
    }
    errors
}
