//! Whether the process is alive and ready, for those who start it again or send others to it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::{Code, Problem};
use crate::route::Call;

/// All is well.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Well {
    /// Always true; where it is not, the answer is a problem.
    ok: bool,
}

/// The process works, or begins to; one that has failed ends by itself.
pub(crate) async fn alive(call: Call) -> Result<Well, Problem> {
    match call.site.failure() {
        None => Ok(Well { ok: true }),
        Some(failure) => Err(Problem::new(Code::Internal, failure)),
    }
}

/// The log is open, and the applications were looked at.
pub(crate) async fn ready(call: Call) -> Result<Well, Problem> {
    match call.site.missing() {
        None => Ok(Well { ok: true }),
        Some(missing) => Err(Problem::new(Code::NotReady, missing)),
    }
}
