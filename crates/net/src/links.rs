//! Links, addresses and routes over rtnetlink. The kernel handles a request synchronously on the sending thread, which
//! may take tens of milliseconds: slow requests belong on dedicated threads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use futures::TryStreamExt;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage, State};
use rtnetlink::packet_route::neighbour::NeighbourState;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType};
use rtnetlink::{Handle, LinkDelRequest, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::Error;
use crate::addressing::INSIDE;

/// Index of the loopback, the same in every namespace.
const LOOPBACK: u32 = 1;

/// Hardware address of the host's end of every slot, a local one. Each is alone on its link.
const HOST_MAC: [u8; 6] = [0x02, 0xca, 0xba, 0x4a, 0x00, 0x01];

/// Timeout and poll interval until an interface is operational; mostly one poll is enough.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// A netlink connection to the namespace in which it was opened. Its socket keeps that namespace alive.
pub(crate) struct Links {
    handle: Handle,
    driver: JoinHandle<()>,
}

/// An IPv4 route of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: Ipv4Addr,
    pub(crate) prefix: u8,
}

fn failed(action: &'static str, subject: impl ToString) -> impl FnOnce(rtnetlink::Error) -> Error {
    let subject = subject.to_string();
    move |source| Error::Netlink { action, subject, source: Box::new(source) }
}

fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => Some(-message.raw_code()),
        _ => None,
    }
}

fn unless(wanted: &[i32], result: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    match result {
        Err(e) if errno(&e).is_some_and(|code| wanted.contains(&code)) => Ok(()),
        other => other,
    }
}

impl Links {
    /// Opens a connection in the calling thread's namespace; its driver runs on the current runtime.
    pub(crate) fn open() -> Result<Links, Error> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(Error::io("open a netlink socket"))?;
        Ok(Links { handle, driver: tokio::spawn(connection) })
    }

    /// Closes the socket before returning.
    pub(crate) async fn close(mut self) {
        self.driver.abort();
        // The driver has ended either way.
        let _ = (&mut self.driver).await;
    }

    /// Index of an interface; `None` if there is none with that name.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<u32>, Error> {
        let mut found = self.handle.link().get().match_name(name).execute();
        match found.try_next().await {
            Ok(message) => Ok(message.map(|m| m.header.index)),
            Err(e) if errno(&e) == Some(libc::ENODEV) => Ok(None),
            Err(e) => Err(failed("look up", name)(e)),
        }
    }

    /// The names of all interfaces.
    pub(crate) async fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut all = self.handle.link().get().execute();
        while let Some(message) = all.try_next().await.map_err(failed("list", "links"))? {
            names.extend(name_of(&message));
        }
        Ok(names)
    }

    /// Creates a veth pair: `name` here, the other end inside `netns`.
    pub(crate) async fn add_veth(&self, name: &str, mtu: u32, netns: &OwnedFd) -> Result<(), Error> {
        let inside = LinkUnspec::new_with_name(INSIDE).mtu(mtu).setns_by_fd(netns.as_raw_fd()).build();
        let pair = LinkVeth::new(name, INSIDE)
            .mtu(mtu)
            .address(HOST_MAC.to_vec())
            .set_info_data(InfoData::Veth(InfoVeth::Peer(inside)))
            .build();
        self.handle.link().add(pair).execute().await.map_err(failed("make link", name))
    }

    /// Assigns an address to an interface and brings it up.
    pub(crate) async fn set_up(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let gone = || rtnetlink::Error::RequestFailed;
        let index = self.find(name).await?.ok_or_else(gone).map_err(failed("look up", name))?;
        let added = self.handle.address().add(index, IpAddr::V4(address), prefix).execute().await;
        added.map_err(failed("add address", address))?;
        self.turn_on(index).await.map_err(failed("turn on", name))
    }

    /// Brings the host's end of a slot up and routes the sandbox's address to it. The host sends from `source`, an address that it has
    /// anyway: one of its own for each slot would be a change of the machine's addresses, after which browsers drop their connections.
    pub(crate) async fn route_to(&self, name: &str, address: Ipv4Addr, source: Ipv4Addr) -> Result<(), Error> {
        let gone = || rtnetlink::Error::RequestFailed;
        let index = self.find(name).await?.ok_or_else(gone).map_err(failed("look up", name))?;
        self.turn_on(index).await.map_err(failed("turn on", name))?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, 32)
            .output_interface(index)
            .scope(RouteScope::Link)
            .pref_source(source)
            .build();
        self.handle.route().add(route).execute().await.map_err(failed("add route to", address))
    }

    /// Where a sandbox finds its gateway, an address that nobody has: at the host's end.
    pub(crate) async fn neighbour(&self, name: &str, gateway: Ipv4Addr) -> Result<(), Error> {
        let gone = || rtnetlink::Error::RequestFailed;
        let index = self.find(name).await?.ok_or_else(gone).map_err(failed("look up", name))?;
        let added = self
            .handle
            .neighbours()
            .add(index, IpAddr::V4(gateway))
            .link_layer_address(&HOST_MAC)
            .state(NeighbourState::Permanent)
            .execute()
            .await;
        added.map_err(failed("add neighbour", gateway))
    }

    /// Waits until an interface that is up is operational. The kernel completes that in the background when the other
    /// end comes up; packets sent before are lost and retransmitted only after a second.
    pub(crate) async fn sending(&self, name: &str) -> Result<(), Error> {
        let sends = |message: &LinkMessage| message.attributes.contains(&LinkAttribute::OperState(State::Up));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let message = self.handle.link().get().match_name(name).execute().try_next().await;
            if message.map_err(failed("look up", name))?.as_ref().is_some_and(sends) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                warn!(name, "a link is not operational yet; its first packets may be lost");
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Brings the loopback up.
    pub(crate) async fn loopback_up(&self) -> Result<(), Error> {
        self.turn_on(LOOPBACK).await.map_err(failed("turn on", "lo"))
    }

    async fn turn_on(&self, index: u32) -> Result<(), rtnetlink::Error> {
        self.handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await
    }

    /// Adds the default route.
    pub(crate) async fn default_route(&self, gateway: Ipv4Addr) -> Result<(), Error> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(gateway).build();
        self.handle.route().add(route).execute().await.map_err(failed("add default route by", gateway))
    }

    /// Adds an address to the loopback, unless it exists.
    pub(crate) async fn add_local(&self, address: Ipv4Addr) -> Result<(), Error> {
        let added = self.handle.address().add(LOOPBACK, IpAddr::V4(address), 32).execute().await;
        unless(&[libc::EEXIST], added).map_err(failed("add address", address))
    }

    /// Removes an address from the loopback, if it exists.
    pub(crate) async fn remove_local(&self, address: Ipv4Addr) -> Result<(), Error> {
        let mut message = self.handle.address().add(LOOPBACK, IpAddr::V4(address), 32);
        let removed = self.handle.address().del(message.message_mut().clone()).execute().await;
        unless(&[libc::EADDRNOTAVAIL], removed).map_err(failed("remove address", address))
    }

    /// Adds an unreachable route for a block, so that packets to a removed sandbox never leave the machine by the
    /// default route.
    pub(crate) async fn fence(&self, block: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let added = self.handle.route().add(fence(block, prefix)).replace().execute().await;
        added.map_err(failed("add unreachable route", block))
    }

    /// Removes the unreachable route, if it exists.
    pub(crate) async fn remove_fence(&self, block: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let removed = self.handle.route().del(fence(block, prefix)).execute().await;
        unless(&[libc::ESRCH], removed).map_err(failed("remove unreachable route", block))
    }

    /// Deletes links by name with one request. Missing names are ignored.
    pub(crate) async fn delete(&self, names: &[String], group: u32) -> Result<(), Error> {
        // Deleting a link makes the kernel wait about 20 ms, but no longer for a whole group.
        let mut any = false;
        for name in names {
            let Some(index) = self.find(name).await? else { continue };
            let message = LinkUnspec::new_with_index(index).link_group(group).build();
            let set = self.handle.link().set(message).execute().await;
            unless(&[libc::ENODEV], set).map_err(failed("mark for deletion", name))?;
            any = true;
        }
        if !any {
            return Ok(());
        }
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(group));
        let deleted = LinkDelRequest::new_with_message(self.handle.clone(), message).execute().await;
        unless(&[libc::ENODEV], deleted).map_err(failed("delete links of group", group))
    }

    /// MTU of the default route's interface.
    pub(crate) async fn default_mtu(&self) -> Result<Option<u32>, Error> {
        let mut best: Option<(u32, u32)> = None;
        for message in self.route_messages().await? {
            let main = message.header.table == RouteHeader::RT_TABLE_MAIN;
            if !main || message.header.destination_prefix_length != 0 || message.header.kind != RouteType::Unicast {
                continue;
            }
            let (mut metric, mut oif) = (0, None);
            for attribute in message.attributes {
                match attribute {
                    RouteAttribute::Priority(value) => metric = value,
                    RouteAttribute::Oif(index) => oif = Some(index),
                    _ => {}
                }
            }
            if let Some(index) = oif.filter(|_| best.is_none_or(|(known, _)| metric < known)) {
                best = Some((metric, index));
            }
        }
        let Some((_, index)) = best else { return Ok(None) };
        let mut found = self.handle.link().get().match_index(index).execute();
        let message = found.try_next().await.map_err(failed("look up the link of the default route", index))?;
        let mtu = |a| if let LinkAttribute::Mtu(mtu) = a { Some(mtu) } else { None };
        Ok(message.and_then(|m| m.attributes.into_iter().find_map(mtu)))
    }

    /// All IPv4 routes but the default ones, in all tables.
    pub(crate) async fn routes(&self) -> Result<Vec<Route>, Error> {
        let route = |message: RouteMessage| {
            let prefix = message.header.destination_prefix_length;
            message.attributes.into_iter().find_map(|a| match a {
                RouteAttribute::Destination(RouteAddress::Inet(destination)) => Some(Route { destination, prefix }),
                _ => None,
            })
        };
        Ok(self.route_messages().await?.into_iter().filter_map(route).filter(|r| r.prefix > 0).collect())
    }

    /// The IPv4 and IPv6 routes of all tables.
    pub(crate) async fn all_route_messages(&self) -> Result<Vec<RouteMessage>, Error> {
        let mut routes = self.route_messages().await?;
        let query = RouteMessageBuilder::<Ipv6Addr>::new().build();
        // A kernel without IPv6 has none.
        let listed: Result<Vec<RouteMessage>, _> = self.handle.route().get(query).execute().try_collect().await;
        match listed {
            Ok(more) => routes.extend(more),
            Err(e) if errno(&e) == Some(libc::EOPNOTSUPP) || errno(&e) == Some(libc::EAFNOSUPPORT) => {}
            Err(e) => return Err(failed("list", "IPv6 routes")(e)),
        }
        Ok(routes)
    }

    /// The addresses of all interfaces.
    pub(crate) async fn address_messages(&self) -> Result<Vec<AddressMessage>, Error> {
        self.handle.address().get().execute().try_collect().await.map_err(failed("list", "addresses"))
    }

    async fn route_messages(&self) -> Result<Vec<RouteMessage>, Error> {
        let query = RouteMessageBuilder::<Ipv4Addr>::new().build();
        self.handle.route().get(query).execute().try_collect().await.map_err(failed("list", "routes"))
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn fence(block: Ipv4Addr, prefix: u8) -> RouteMessage {
    RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(block, prefix).kind(RouteType::Unreachable).build()
}

fn name_of(message: &LinkMessage) -> Option<String> {
    message.attributes.iter().find_map(|a| if let LinkAttribute::IfName(name) = a { Some(name.clone()) } else { None })
}
