//! Watches the packet filter: if another program flushes all rules (as reloading a firewall does), ours are
//! reloaded at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use rtnetlink::sys::AsyncSocketExt;
use tokio::task::spawn_blocking;
use tracing::{error, warn};

use crate::addressing::Addressing;
use crate::filter::Filter;
use crate::{Error, netfilter};
use cabana_types::error::chain;

const RETRY: Duration = Duration::from_secs(1);
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(50), Duration::from_secs(1));

pub(crate) fn start(supervisor: &Supervisor, addressing: Arc<Addressing>, filter: Arc<Filter>) -> Result<(), Error> {
    // Fails here if it cannot work at all.
    let mut first = Some(listen()?);
    supervisor.restart("packet filter watcher", RESTART, move |stop| {
        let socket = first.take().map_or_else(listen, Ok);
        let (addressing, filter) = (Arc::clone(&addressing), Arc::clone(&filter));
        async move {
            let socket = socket.map_err(|e| chain(&e))?;
            stop.run_until_cancelled(watch(&socket, &addressing, &filter)).await;
            Ok::<(), String>(())
        }
    });
    Ok(())
}

fn listen() -> Result<rtnetlink::sys::TokioSocket, Error> {
    netfilter::changes().map_err(Error::io("listen for changes of the packet filter"))
}

async fn watch(socket: &rtnetlink::sys::TokioSocket, addressing: &Arc<Addressing>, filter: &Arc<Filter>) {
    // Larger than any message of the kernel.
    let mut message = Vec::with_capacity(64 * 1024);
    loop {
        // Also before the first message: changes before a restart of this task were not seen.
        while let Err(e) = restore(addressing, filter).await {
            error!(error = chain(&e), "the packet filter of the sandboxes is missing and cannot be restored");
            tokio::time::sleep(RETRY).await;
        }
        loop {
            message.clear();
            match socket.recv(&mut message).await {
                Ok(()) if netfilter::deletes_table(&message) => break,
                // Other changes are many, and mostly our own.
                Ok(()) => {}
                // Messages were lost, so check too.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(e) => {
                    warn!(error = chain(&e), "listening for changes of the packet filter");
                    tokio::time::sleep(RETRY).await;
                    break;
                }
            }
        }
    }
}

async fn restore(addressing: &Arc<Addressing>, filter: &Arc<Filter>) -> Result<(), Error> {
    let asked = Arc::clone(filter);
    if spawn_blocking(move || asked.is_loaded()).await.map_err(|_| Error::Closed)?? {
        return Ok(());
    }
    warn!(
        table = addressing.table(),
        "the packet filter of the sandboxes was removed by another program; restoring it"
    );
    filter.load().await
}
