//! Watches over the packet filter: where somebody flushes all rules of the machine (reloading a firewall does), ours
//! are loaded again at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_types::error::chain;
use rtnetlink::sys::AsyncSocketExt;
use tokio::task::{AbortHandle, spawn_blocking};
use tracing::{error, warn};

use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::{Error, netfilter, rules};

const RETRY: Duration = Duration::from_secs(1);

pub(crate) fn start(plan: Arc<Plan>, ledger: Arc<Ledger>) -> Result<AbortHandle, Error> {
    let socket = netfilter::changes().map_err(Error::io("listen for changes of the packet filter"))?;
    let task = tokio::spawn(async move {
        let mut news = Vec::with_capacity(16 * 1024);
        loop {
            news.clear();
            match socket.recv(&mut news).await {
                Ok(()) => {}
                // Some were missed; that too is a reason to look.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => {
                    warn!(error = chain(&e), "listening for changes of the packet filter");
                    tokio::time::sleep(RETRY).await;
                }
            }
            while let Err(e) = restore(&plan, &ledger).await {
                error!(error = chain(&e), "the packet filter of the sandboxes is missing and cannot be restored");
                tokio::time::sleep(RETRY).await;
            }
        }
    });
    Ok(task.abort_handle())
}

async fn restore(plan: &Arc<Plan>, ledger: &Ledger) -> Result<(), Error> {
    let table = plan.table();
    let there = spawn_blocking(move || netfilter::has_table(&table)).await.map_err(|_| Error::Closed)?;
    if there.map_err(Error::io("look for the packet filter"))? {
        return Ok(());
    }
    warn!(table = plan.table(), "the packet filter of the sandboxes was removed by another program; restoring it");
    let (used, offline) = ledger.in_use();
    rules::load(plan, &offline, &used).await
}
