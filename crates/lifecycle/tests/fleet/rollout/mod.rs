//! A progressive sync.

mod chores;
mod facts;
mod inputs;
mod random;
mod states;
mod stories;
mod world;
