//! The edge against a fake guest and servers on loopback.

mod crowd;
mod ending;
mod front;
mod hostile;
mod leftovers;
mod ports;
mod preview;
mod preview_pages;
mod preview_waking;
mod preview_world;
mod routing;
mod smuggling;
mod streams;
mod tls;
mod traffic;
mod world;
