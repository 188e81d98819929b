//! Tests of pool, packing and cold storage on a real kernel; they need root.

mod cold;
mod layers;
mod merge;
mod pack;
mod pool;
mod s3;
mod tree;
