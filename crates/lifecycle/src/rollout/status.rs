use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{Member, Progress};

/// The status of an Application in a progressive sync, in Argo CD's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutStatus")]
pub enum MemberStatus {
    /// Its turn has not come.
    Waiting,
    /// Its turn has come; its sync has not begun.
    Pending,
    /// Its sync has begun. It stays so when that fails, until somebody sees to it.
    Progressing,
    /// It is at its target, Synced and Healthy. Also one that is not awaited any more; its message says why.
    Healthy,
}

impl Member {
    /// The status that users see.
    pub fn status(&self) -> MemberStatus {
        match self.progress {
            Progress::Waiting | Progress::Gone | Progress::Late => MemberStatus::Waiting,
            Progress::Promoted | Progress::Named { .. } => MemberStatus::Pending,
            Progress::Running { .. }
            | Progress::Settling { .. }
            | Progress::Stopping { .. }
            | Progress::Failed { .. } => MemberStatus::Progressing,
            Progress::Healthy { .. }
            | Progress::RolledBack { .. }
            | Progress::Assumed
            | Progress::Skipped(_) => MemberStatus::Healthy,
        }
    }
}
