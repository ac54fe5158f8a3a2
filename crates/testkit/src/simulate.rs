//! A whole life of an application from one seed: random manifests, a faulty cluster, late and lost answers, crashes,
//! people. Driven without threads and without tokio, on virtual time; the same seed gives the same run.
//!
//! The engine's own pieces are used unchanged: the planner, the driver and the effects. Only the actors are replaced by
//! a queue of things that may happen next.

mod checks;
mod generate;
mod rivals;
mod rng;
mod world;

pub use checks::inventory as inventory_is_complete;
pub use generate::{Life, life};
pub use rivals::{RivalReport, rivals};
pub use rng::Rng;
pub use world::{Report, simulate};
