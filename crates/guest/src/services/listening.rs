//! Waits until something listens on a port. The kernel tells nobody, so its tables are read again and again: here and not on the host,
//! for which each time would be a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cabana_types::guest::services::Listening;
use tokio::time::{Instant, sleep};

use super::{Census, blocking};
use crate::commands::Commands;
use crate::error::Problem;
use crate::guest::Guest;
use crate::tools::{Cancel, ports};

/// How often it is looked at first, and later.
const OFTEN: Duration = Duration::from_millis(25);
const SELDOM: Duration = Duration::from_millis(250);
/// Among many processes, this many times as long as a look takes passes until the next.
const REST: u32 = 4;
/// How often a listener whose process is not found is looked at again: the process may just have forked.
const MAX_UNKNOWN: usize = 3;

/// Waits for a listener on the port, or for any of the service.
pub(super) async fn wait(
    guest: &Guest,
    port: Option<u16>,
    tag: Option<&str>,
    wait: Duration,
) -> Result<Listening, Problem> {
    let deadline = Instant::now() + wait;
    let (mut interval, mut unknown) = (OFTEN, 0);
    loop {
        let began = Instant::now();
        let look = Look { commands: Arc::clone(&guest.commands), port, tag: tag.map(str::to_owned) };
        let found = blocking(move || look.look()).await?;
        let took = began.elapsed();
        unknown += usize::from(found.port.is_some() && found.pid.is_none());
        let is_known = found.pid.is_some() || tag.is_none() || unknown >= MAX_UNKNOWN;
        let is_gone = tag.is_some() && !found.alive && found.port.is_none();
        let left = deadline.saturating_duration_since(Instant::now());
        if (found.port.is_some() && is_known) || is_gone || left.is_zero() {
            return Ok(Listening { boot: guest.boot.clone(), ..found });
        }
        sleep(interval.max(took * REST).min(left)).await;
        interval = (interval * 5 / 4).min(SELDOM);
    }
}

struct Look {
    commands: Arc<Commands>,
    port: Option<u16>,
    tag: Option<String>,
}

impl Look {
    fn look(&self) -> Listening {
        let mut sockets = ports::sockets();
        sockets.retain(|(port, ..)| self.port.is_none_or(|wanted| *port == wanted));
        let runs = self.tag.as_ref().is_some_and(|tag| self.commands.tagged(tag).is_some_and(|c| c.status().is_none()));
        if sockets.is_empty() && (runs || self.tag.is_none()) {
            // The usual case while a service starts: nothing else has to be known.
            return Listening { alive: runs, ..Listening::default() };
        }
        let census = self.tag.as_ref().map(|_| Census::take(&self.commands));
        let members = match (&census, &self.tag) {
            (Some(census), Some(tag)) => census.members(tag),
            _ => HashSet::new(),
        };
        let alive = runs || !members.is_empty();
        if sockets.is_empty() || (self.port.is_none() && members.is_empty()) {
            return Listening { alive, ..Listening::default() };
        }
        let port_of: HashMap<u64, u16> = sockets.iter().map(|(port, _, inode)| (*inode, *port)).collect();
        // The lowest port of the service; on the wanted one its own process is named rather than another, and the first of several.
        let owners = ports::owners_of_sockets(&Cancel::default()).into_iter();
        let listeners = owners.filter_map(|(inode, pid)| Some((!members.contains(&pid), *port_of.get(&inode)?, pid)));
        let first = listeners.min().map(|(foreign, port, pid)| (!foreign, port, pid));
        match first {
            Some((own, port, pid)) if own || self.port.is_some() => Listening {
                port: Some(port),
                pid: Some(pid),
                process: ports::name(pid),
                own,
                alive,
                ..Listening::default()
            },
            _ => Listening { port: self.port, alive, ..Listening::default() },
        }
    }
}
