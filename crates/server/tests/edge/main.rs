//! The edge against a fake guest and servers on loopback.
