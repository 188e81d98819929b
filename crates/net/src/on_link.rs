//! Networks that the host is directly connected to: sandboxes may not connect to them, whatever their addresses. They are
//! read at the start, and again when addresses or routes change.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use cabana_types::address::{Class, PREFIXES, Prefix};
use cabana_types::error::chain;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, TokioSocket};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Error;
use crate::filter::Filter;
use crate::links::Links;

/// Wider ones are the ways of VPNs to the whole internet, not networks.
const WIDEST: (u8, u8) = (8, 16);

/// Multicast groups of changes to addresses and routes, IPv4 and IPv6.
const CHANGES: [u32; 4] = [5, 7, 9, 11];

/// Each slot that is made or deleted is a change: they are taken together.
const PAUSE: Duration = Duration::from_millis(500);
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(500), Duration::from_secs(5));

/// The networks of the calling thread's namespace, sorted. Those that are closed by their class are left out.
pub(crate) async fn read(links: &Links) -> Result<Vec<Prefix>, Error> {
    let mut found = BTreeSet::new();
    for message in links.address_messages().await? {
        found.extend(of_address(&message));
    }
    for message in links.all_route_messages().await? {
        found.extend(of_route(&message));
    }
    let prefixes = found.into_iter().filter_map(|(address, length)| Prefix::new(address, length));
    Ok(prefixes.filter(|prefix| !is_closed(prefix)).collect())
}

/// Whether all addresses of a range are closed by their class.
fn is_closed(prefix: &Prefix) -> bool {
    if prefix.address().is_ipv6() {
        return Class::of(prefix.address()).is_closed_to_sandboxes();
    }
    let covers = |row: &Prefix| row.length() <= prefix.length() && row.contains(prefix.address());
    PREFIXES.iter().any(|(row, class)| class.is_closed_to_sandboxes() && covers(row))
}

/// Own address, and the network or the other end.
fn of_address(message: &AddressMessage) -> Vec<(IpAddr, u8)> {
    let mut found = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Address(address) => found.push((*address, message.header.prefix_len)),
            AddressAttribute::Local(address) => found.push((*address, if address.is_ipv4() { 32 } else { 128 })),
            _ => {}
        }
    }
    let (whole, single): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(address, length)| *length < if address.is_ipv4() { 32 } else { 128 });
    // Its own address is mostly inside the network.
    let inside = |address: IpAddr| {
        whole.iter().any(|(network, length)| Prefix::new(*network, *length).is_some_and(|p| p.contains(address)))
    };
    let single: Vec<_> = single.into_iter().filter(|(address, _)| !inside(*address)).collect();
    whole.into_iter().chain(single).map(|(address, length)| masked(address, length)).collect()
}

fn masked(address: IpAddr, length: u8) -> (IpAddr, u8) {
    (Prefix::new(address, length).map_or(address, |prefix| prefix.address()), length)
}

/// The destination of a route without a gateway.
fn of_route(message: &RouteMessage) -> Option<(IpAddr, u8)> {
    if message.header.kind != RouteType::Unicast {
        return None;
    }
    let is_far = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => true,
        RouteAttribute::MultiPath(hops) => hops
            .iter()
            .all(|hop| hop.attributes.iter().any(|a| matches!(a, RouteAttribute::Gateway(_) | RouteAttribute::Via(_)))),
        _ => false,
    };
    if message.attributes.iter().any(is_far) {
        return None;
    }
    let length = message.header.destination_prefix_length;
    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(to)) if length >= WIDEST.0 => Some(masked((*to).into(), length)),
        RouteAttribute::Destination(RouteAddress::Inet6(to)) if length >= WIDEST.1 => {
            Some(masked((*to).into(), length))
        }
        _ => None,
    })
}

/// Watches for changes.
pub(crate) fn start(supervisor: &Supervisor, filter: Arc<Filter>) -> Result<(), Error> {
    // Fails here if it cannot work at all.
    let mut first = Some(listen()?);
    supervisor.restart("host network watcher", RESTART, move |stop| {
        let (socket, filter) = (first.take().map_or_else(listen, Ok), Arc::clone(&filter));
        async move {
            let socket = socket.map_err(|e| chain(&e))?;
            stop.run_until_cancelled(watch(&socket, &filter)).await.unwrap_or(Ok(()))
        }
    });
    Ok(())
}

fn listen() -> Result<TokioSocket, Error> {
    let open = || {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind_auto()?;
        CHANGES.iter().try_for_each(|group| socket.socket_mut().add_membership(*group))?;
        Ok(socket)
    };
    open().map_err(Error::io("listen for changes of the host's networks"))
}

async fn watch(socket: &TokioSocket, filter: &Arc<Filter>) -> Result<(), String> {
    let mut message = Vec::with_capacity(64 * 1024);
    loop {
        // Also before the first message: changes before a restart of this task were not seen.
        refresh(filter).await.map_err(|e| chain(&e))?;
        message.clear();
        match socket.recv(&mut message).await {
            Ok(()) => {}
            // Messages were lost, so look too.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => return Err(chain(&e)),
        }
        tokio::time::sleep(PAUSE).await;
        while timeout(Duration::ZERO, socket.recv(&mut message)).await.is_ok() {
            message.clear();
        }
    }
}

async fn refresh(filter: &Arc<Filter>) -> Result<(), Error> {
    let links = Links::open()?;
    let found = read(&links).await;
    links.close().await;
    let found = found?;
    if filter.on_link() != found {
        info!(networks = ?found.iter().map(Prefix::to_string).collect::<Vec<_>>(), "the networks of the host changed");
        if let Err(e) = filter.set_on_link(found).await {
            warn!(error = chain(&e), "closing the networks of the host to sandboxes");
            return Err(e);
        }
    }
    Ok(())
}
