//! Images against real directories, real registries and hostile ones. Unpacking needs root: owners are kept.

#![allow(clippy::unwrap_used)]

mod archive;
mod copies;
mod dockerfiles;
mod fuzz;
mod hostile_layers;
mod hostile_registries;
mod layers;
mod local_images;
mod plain_http;
mod pulls;
mod random_layers;
mod sample;
mod scene;
