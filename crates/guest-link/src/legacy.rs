//! Guests of servers before two sockets were introduced: they serve control and traffic on one socket, and match
//! control paths exactly. The edge must not forward these. Delete this file and [`crate::GuestLink::UnixShared`] when
//! no sandbox launched by such a server can still be running, that is one release after the one that introduced the
//! control socket.

/// Every path that such a guest treats as control.
pub(crate) const CONTROL_PATHS: [&str; 11] = [
    "/init",
    "/freeze",
    "/unfreeze",
    "/fsfreeze",
    "/fsthaw",
    "/collapse",
    "/bridge",
    "/journal",
    "/activity",
    "/ready",
    "/stop",
];
