//! Tests of ordered deletions.

mod order;
mod random;
mod scenarios;
pub mod table;
mod world;
