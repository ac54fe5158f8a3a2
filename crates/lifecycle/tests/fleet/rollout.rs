//! Tests of progressive syncs.

pub mod events;
mod inputs;
mod random;
mod recovery;
mod scenarios;
pub mod states;
mod world;
