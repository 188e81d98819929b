//! The default root filesystem, made from Debian packages.
