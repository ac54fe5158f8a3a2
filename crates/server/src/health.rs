//! Liveness and readiness of the process.

use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::{Code, Problem};
use crate::route::Call;

/// Response from a healthy process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "HealthResponse")]
pub(crate) struct HealthResponse {
    /// Always true; an unhealthy process responds with a problem.
    ok: bool,
}

/// Returns success if the process is running or starting. A process that has failed exits instead.
pub(crate) async fn check_liveness(call: Call) -> Result<HealthResponse, Problem> {
    match call.state.failure_reason() {
        None => Ok(HealthResponse { ok: true }),
        Some(failure) => Err(Problem::new(Code::Internal, failure)),
    }
}

/// Returns success if the log is open and the applications have been loaded.
pub(crate) async fn check_readiness(call: Call) -> Result<HealthResponse, Problem> {
    match call.state.missing_part() {
        None => Ok(HealthResponse { ok: true }),
        Some(missing) => Err(Problem::new(Code::NotReady, missing)),
    }
}
