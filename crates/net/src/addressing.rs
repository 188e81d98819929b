//! Names and addresses of a server's network objects, derived from its instance name and address block.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::NetworkConfig;
use crate::config::MOST_SLOTS;

/// The interface inside a sandbox.
pub(crate) const INSIDE: &str = "eth0";

/// The prefix length of a slot's two addresses.
pub(crate) const SLOT_PREFIX: u8 = 30;

/// The prefix length of a server's block.
pub(crate) const BLOCK_PREFIX: u8 = 16;

const OLD_MARK: &str = ".offline";

#[derive(Debug, Clone)]
pub(crate) struct Addressing {
    pub(crate) instance: String,
    pub(crate) block: Ipv4Addr,
    pub(crate) slots: u32,
    pins: PathBuf,
}

impl Addressing {
    pub(crate) fn new(config: &NetworkConfig) -> Addressing {
        Addressing {
            instance: config.instance.clone(),
            block: config.block,
            slots: config.slots,
            pins: config.run_dir.join("net"),
        }
    }

    fn at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.block.to_bits() + offset)
    }

    /// The address of the DNS forwarder, from which the host also connects to sandboxes.
    pub(crate) fn dns(&self) -> Ipv4Addr {
        self.at(1)
    }

    /// Where a sandbox sends packets to. It is nobody's address: the host's end of a slot has none.
    pub(crate) fn gateway(&self, index: u32) -> Ipv4Addr {
        self.at(4 * index + 1)
    }

    /// The sandbox's end of a slot.
    pub(crate) fn address(&self, index: u32) -> Ipv4Addr {
        self.at(4 * index + 2)
    }

    /// The slot whose sandbox has this address.
    pub(crate) fn index_of(&self, address: Ipv4Addr) -> Option<u32> {
        let offset = address.to_bits().checked_sub(self.block.to_bits())?;
        let index = offset / 4;
        (offset % 4 == 2 && (1..=MOST_SLOTS).contains(&index)).then_some(index)
    }

    /// Name prefix of the host's ends. The final `-` makes the prefixes of different instances distinct.
    pub(crate) fn link_prefix(&self) -> String {
        format!("cb{}-", self.instance)
    }

    /// Interface name of the host's end of a slot.
    pub(crate) fn link(&self, index: u32) -> String {
        format!("cb{}-{index}", self.instance)
    }

    /// The slot of a host's end, by its interface name.
    pub(crate) fn index_of_link(&self, name: &str) -> Option<u32> {
        parse_index(name.strip_prefix(&self.link_prefix())?)
    }

    /// Name of the packet filter's table.
    pub(crate) fn table(&self) -> String {
        format!("cabana_{}", self.instance)
    }

    /// Interface group of links that are being deleted: one request deletes the whole group.
    pub(crate) fn deletion_group(&self) -> u32 {
        0x0cab_0000 | u32::from(self.block.octets()[1])
    }

    /// Directory in which namespaces are pinned.
    pub(crate) fn pins(&self) -> &Path {
        &self.pins
    }

    /// File over which a slot's namespace is mounted.
    pub(crate) fn pin(&self, index: u32) -> PathBuf {
        self.pins.join(index.to_string())
    }

    /// The slot that a file in the pin directory belongs to. Earlier versions marked slots without internet access by a file.
    pub(crate) fn index_of_file(&self, name: &str) -> Option<u32> {
        parse_index(name.strip_suffix(OLD_MARK).unwrap_or(name))
    }

    /// Whether a file in the pin directory is a mark of an earlier version.
    pub(crate) fn is_old_mark(&self, name: &str) -> bool {
        name.ends_with(OLD_MARK) && self.index_of_file(name).is_some()
    }
}

fn parse_index(text: &str) -> Option<u32> {
    let index: u32 = text.parse().ok()?;
    ((1..=MOST_SLOTS).contains(&index) && index.to_string() == text).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressing(instance: &str) -> Addressing {
        Addressing {
            instance: instance.into(),
            block: Ipv4Addr::new(100, 97, 0, 0),
            slots: 4,
            pins: "/run/x/net".into(),
        }
    }

    #[test]
    fn addresses_and_names_map_to_their_slot() {
        let addressing = addressing("abcd");
        for index in 1..=MOST_SLOTS {
            assert_eq!(addressing.index_of(addressing.address(index)), Some(index));
            assert_eq!(addressing.index_of(addressing.gateway(index)), None);
            assert_eq!(addressing.index_of_link(&addressing.link(index)), Some(index));
            assert!(addressing.link(index).len() <= 15);
        }
        assert_eq!(addressing.address(1), Ipv4Addr::new(100, 97, 0, 6));
        assert_eq!(addressing.gateway(2047), Ipv4Addr::new(100, 97, 31, 253));
        assert_eq!(addressing.index_of(addressing.dns()), None);
        assert_eq!(addressing.index_of(Ipv4Addr::new(100, 96, 0, 6)), None);
        assert_eq!(addressing.index_of(Ipv4Addr::new(100, 97, 32, 6)), None);
    }

    #[test]
    fn foreign_names_are_ignored() {
        let addressing = addressing("a");
        for name in ["cbab-1", "cba-", "cba-0", "cba-01", "cba-+1", "cba-2048", "cb-1", "eth0", "cba-1x"] {
            assert_eq!(addressing.index_of_link(name), None, "{name}");
        }
        assert_eq!(addressing.index_of_file("7.offline"), Some(7));
        assert_eq!(addressing.index_of_file("7"), Some(7));
        assert_eq!(addressing.index_of_file("7.tmp"), None);
        assert!(addressing.is_old_mark("7.offline") && !addressing.is_old_mark("7"));
        assert!(!addressing.is_old_mark("x.offline"));
    }
}
