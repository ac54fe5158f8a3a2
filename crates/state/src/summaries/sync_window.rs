//! Summary of an Application's sync windows.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sync windows that currently apply to an Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncWindowSummary {
    /// True if automated syncs are allowed.
    pub automated: bool,
    /// True if manual syncs are allowed.
    pub manual: bool,
    /// Windows that deny a sync, with their end times. Absent if no window denies it.
    pub reason: Option<String>,
}

/// Uses the same terms as Argo CD's command line.
impl fmt::Display for SyncWindowSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.automated, self.manual) {
            (true, _) => "Sync Allowed",
            (false, true) => "Manual Allowed",
            (false, false) => "Sync Denied",
        })?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}
