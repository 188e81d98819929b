//! Watches the packet filter: if another program flushes all rules (as reloading a firewall does), ours are
//! reloaded at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use rtnetlink::sys::AsyncSocketExt;
use tokio::task::spawn_blocking;
use tracing::{error, warn};

use crate::addressing::Addressing;
use crate::ledger::Ledger;
use crate::{Error, netfilter, rules};
use cabana_types::error::chain;

const RETRY: Duration = Duration::from_secs(1);
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(50), Duration::from_secs(1));

pub(crate) fn start(supervisor: &Supervisor, addressing: Arc<Addressing>, ledger: Arc<Ledger>) -> Result<(), Error> {
    // Fails here if it cannot work at all.
    let mut first = Some(listen()?);
    supervisor.restart("packet filter watcher", RESTART, move |stop| {
        let socket = first.take().map_or_else(listen, Ok);
        let (addressing, ledger) = (Arc::clone(&addressing), Arc::clone(&ledger));
        async move {
            let socket = socket.map_err(|e| chain(&e))?;
            stop.run_until_cancelled(watch(&socket, &addressing, &ledger)).await;
            Ok::<(), String>(())
        }
    });
    Ok(())
}

fn listen() -> Result<rtnetlink::sys::TokioSocket, Error> {
    netfilter::changes().map_err(Error::io("listen for changes of the packet filter"))
}

async fn watch(socket: &rtnetlink::sys::TokioSocket, addressing: &Arc<Addressing>, ledger: &Ledger) {
    let mut message = Vec::with_capacity(16 * 1024);
    loop {
        // Also before the first message: changes before a restart of this task were not seen.
        while let Err(e) = restore(addressing, ledger).await {
            error!(error = chain(&e), "the packet filter of the sandboxes is missing and cannot be restored");
            tokio::time::sleep(RETRY).await;
        }
        message.clear();
        match socket.recv(&mut message).await {
            Ok(()) => {}
            // Messages were lost, so check too.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => {
                warn!(error = chain(&e), "listening for changes of the packet filter");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn restore(addressing: &Arc<Addressing>, ledger: &Ledger) -> Result<(), Error> {
    let table = addressing.table();
    let exists = spawn_blocking(move || netfilter::has_table(&table)).await.map_err(|_| Error::Closed)?;
    if exists.map_err(Error::io("look for the packet filter"))? {
        return Ok(());
    }
    warn!(
        table = addressing.table(),
        "the packet filter of the sandboxes was removed by another program; restoring it"
    );
    let (used, offline) = ledger.in_use();
    rules::load(addressing, &offline, &used).await
}
