//! Simulation of the whole life of an application from one seed: random manifests, a faulty cluster, late and
//! lost responses, crashes, user actions. It runs on virtual time, without threads and without tokio, so the
//! same seed always produces the same run.
//!
//! The engine's own parts are used unchanged: the planner, the driver and the effects. Only the actors are replaced, by a queue
//! of possible next steps.

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
