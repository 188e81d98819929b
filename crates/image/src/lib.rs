//! OCI images, Dockerfiles and Debian packages: what templates are made from. Pulls images from registries or reads them from
//! local files, unpacks their layers safely into a directory, turns a Dockerfile into a plan of steps, and installs the default
//! root filesystem. Knows nothing of sandboxes: the caller decides who runs the steps, and where.

#![forbid(unsafe_code)]

pub mod blobs;
pub mod debian;
pub mod digest;
pub mod dockerfile;
pub mod error;
pub mod image;
pub mod layout;
pub mod manifest;
pub mod reference;
pub mod registry;
pub mod sources;
pub mod stop;
pub mod unpack;

mod compression;

pub use digest::Digest;
pub use error::{Error, Result};
pub use image::Image;
pub use reference::Reference;
pub use stop::Stop;
