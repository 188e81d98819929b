//! What a model sees of long text: terminal codes and repetitions removed, and the middle left out.

mod collector;
mod cut;
mod fold;

#[cfg(test)]
mod tests;

pub use collector::Tail;
pub use cut::{Cut, cut};
pub use fold::fold;
