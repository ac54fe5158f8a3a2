//! A progressive sync.

mod chores;
pub mod facts;
mod inputs;
mod random;
pub mod states;
mod stories;
mod world;
