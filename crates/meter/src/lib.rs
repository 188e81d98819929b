//! What running sandboxes use and what that costs: which intervals a state asks for, pieces of intervals within hours, and
//! amounts of money that are exact over any number of roundings. Pure: no IO, no clock.

#![forbid(unsafe_code)]

mod demand;
mod price;
mod split;

pub use demand::{Demand, Sizes, demand};
pub use price::{Bill, Prices};
pub use split::{HOUR, Piece, hour_of, split};
