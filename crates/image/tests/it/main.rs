//! Images against real directories, real registries and hostile ones. Unpacking needs root: owners are kept.

#![allow(clippy::unwrap_used)]

mod archive;
mod hostile_layers;
mod layers;
mod random_layers;
mod scene;
