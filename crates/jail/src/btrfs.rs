//! Btrfs subvolumes and quotas by ioctl.
