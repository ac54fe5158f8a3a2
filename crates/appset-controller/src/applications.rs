//! Test environment of the Application controller.

pub use tidegate_app_controller::*;

#[path = "../../app-controller/src/testing.rs"]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
#[allow(dead_code, reason = "the other items are used by the Application controller")]
pub mod testing;
