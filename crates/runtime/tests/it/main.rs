//! Tests of the pool on a real kernel; they need root.

mod pool;
