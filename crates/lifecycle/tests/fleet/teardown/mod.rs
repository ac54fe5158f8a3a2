//! An ordered deletion.

mod order;
mod random;
mod stories;
pub mod table;
mod world;
