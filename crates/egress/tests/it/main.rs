//! The proxy between a client that plays the sandbox and servers on loopback. Only the redirect is imitated: public
//! addresses lead to servers of the test.

mod cuts;
mod hostile;
mod kernel;
mod logs;
mod names;
mod placeholders;
mod requests;
mod rules;
mod socks;
mod support;
