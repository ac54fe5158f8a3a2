//! Simulation of an application's whole life from a single seed: random manifests, a faulty cluster, late and
//! lost responses, crashes, and user actions. It runs in virtual time, without threads and without tokio, so
//! the same seed always yields the same run.
//!
//! The planner, the driver and the effects are the engine's own. Only the actors are replaced, by a queue of
//! possible next steps.

mod checks;
mod generate;
mod rivals;
mod rng;
mod world;

pub use checks::check_inventory as inventory_is_complete;
pub use generate::{ApplicationLife, draw_life};
pub use rivals::{RivalReport, simulate_rivals};
pub use rng::Rng;
pub use world::{SimulationReport, simulate};
