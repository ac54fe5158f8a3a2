//! Requests for an ApplicationSet and their responses. Both travel over the control socket and HTTP, so their
//! JSON names are stable.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_applicationset::preview::DeletionPreview;
use tidegate_applicationset::retry::RetryAnnotation;
use tidegate_lifecycle::NextAction;
use tidegate_lifecycle::fleet::Explanation;
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_lifecycle::teardown::TeardownView;
use tidegate_model::{StreamId, Timestamp};

/// User request that acts on a running rollout or deletion. Step numbers start at 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum AppSetAction {
    /// Approves a step.
    Approve {
        /// Step to approve. The default is the step that is currently waiting for approval.
        #[serde(default)]
        step: Option<u32>,
    },
    /// Approves the deletion of Applications that was blocked because it exceeds the limit.
    ApproveDeletions {
        /// Token for the currently generated Applications, as shown in the message about the blocked
        /// deletions.
        token: String,
    },
    /// Skips an Application, or all unfinished Applications in a step.
    Skip {
        /// Step number.
        #[serde(default)]
        step: Option<u32>,
        /// Name of the Application.
        #[serde(default)]
        member: Option<String>,
    },
    /// Retries an Application, or all failed Applications in a step. If neither `step` nor `member` is
    /// specified, restarts a finished rollout.
    Retry {
        /// Step number.
        #[serde(default)]
        step: Option<u32>,
        /// Name of the Application.
        #[serde(default)]
        member: Option<String>,
    },
    /// Prevents new operations from starting until the run is resumed.
    Pause,
    /// Resumes the rollout.
    Resume,
    /// Stops the running operations and ends the rollout.
    Terminate,
}

/// An ApplicationSet's status, and the reasons for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ApplicationSetExplanation")]
pub struct AppSetExplanation {
    /// The ApplicationSet, as `namespace/name`.
    #[serde(rename = "applicationSet")]
    pub set: String,
    /// One-line summary.
    #[serde(rename = "summary")]
    pub line: String,
    /// Newest rollout; absent if there is none.
    pub rollout: Option<RolloutView>,
    /// ID of the rollout, for `tidegate appset show-run`.
    pub rollout_id: Option<StreamId>,
    /// Running or last deletion; absent if there is none.
    #[serde(rename = "deletion")]
    pub teardown: Option<TeardownView>,
    /// ID of the deletion.
    #[serde(rename = "deletionId")]
    pub teardown_id: Option<StreamId>,
    /// Explanation of what the run is waiting for; absent if no run is in progress.
    pub explanation: Option<Explanation>,
    /// Names of Applications that no step selects.
    #[serde(rename = "unselected")]
    pub outside: Vec<String>,
    /// Applications that aren't created or updated, each with the reason.
    pub refused: BTreeMap<String, String>,
    /// Deletions that are waiting for approval because they exceed the limit; absent if there are none.
    #[serde(rename = "heldDeletions")]
    pub held: Option<HeldDeletions>,
    /// Next action for the user.
    pub next_action: NextAction,
    /// Pending request to restart a finished rollout or deletion; absent if there is none.
    pub retry: Option<RequestedRetry>,
}

/// Request to restart a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RequestedRetry")]
pub struct RequestedRetry {
    /// Name of the requester.
    pub by: String,
    /// Reason for the request; absent if the requester did not provide one.
    pub reason: Option<String>,
    /// Time of the request.
    pub at: Timestamp,
}

impl From<&RetryAnnotation> for RequestedRetry {
    fn from(retry: &RetryAnnotation) -> Self {
        let requester = retry.requester();
        Self { by: requester.name.to_owned(), reason: requester.reason_text(), at: retry.requested_at() }
    }
}

/// Deletions of Applications that are blocked because they exceed the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldDeletions {
    /// Token that an approval of these deletions must contain.
    pub token: String,
    /// Names of the Applications to delete.
    pub applications: Vec<String>,
    /// Names of the Applications whose objects would be kept.
    #[serde(rename = "applicationsKeepingObjects")]
    pub keep_objects: Vec<String>,
    /// Number of Applications in the ApplicationSet.
    #[serde(rename = "total")]
    pub members: usize,
    /// Maximum number of Applications that may be deleted at once without approval.
    #[serde(rename = "maximum")]
    pub at_once: usize,
}

/// Preview of an ApplicationSet's deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApplicationSetDeletion")]
pub struct AppSetDeletionPreview {
    /// True if the deletion also removes the ApplicationSet's document from the apps folder. Absent in
    /// responses from older versions of Tidegate.
    #[serde(default)]
    pub removes_file: bool,
    /// Applications that are deleted together with the ApplicationSet, in order, and Applications that are
    /// kept.
    #[serde(flatten)]
    pub preview: DeletionPreview,
}
