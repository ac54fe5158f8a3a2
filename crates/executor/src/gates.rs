//! Gate evaluation and the built-in gates. The state machine handles approvals and soak times.

mod cel;
mod concurrency;
mod defined_gates;
mod definitions;
mod gate_subject;
mod http;
mod registered_gates;
mod rollout_gates;
mod window;

pub use cel::CelGate;
pub(crate) use cel::{ClusterConnection, ObjectWatches};
pub use concurrency::ConcurrencyGroup;
pub(crate) use concurrency::{CONCURRENCY_PREFIX, Groups, RecordedPlaces, Ticket};
pub(crate) use defined_gates::{GateEnvironment, watch_defined_gate};
pub(crate) use definitions::is_defined_by_name;
pub use definitions::{GateDefinitions, InvalidGate};
pub(crate) use gate_subject::GateSubject;
pub(crate) use http::HttpClient;
pub use http::{HeaderSource, HttpGate, HttpMethod};
pub(crate) use registered_gates::poll_registered_gate;
pub use rollout_gates::StepGateRequest;
pub(crate) use rollout_gates::evaluate_step_gate;
pub use window::{WINDOW_PREFIX, load_time_zone};

/// Checks that a configuration has exactly one problem, starting with `expected`.
#[cfg(test)]
fn assert_problem(problems: &[String], expected: &str, source: &serde_json::Value) {
    assert!(matches!(problems, [problem] if problem.starts_with(expected)), "{source}: {problems:?}");
}
