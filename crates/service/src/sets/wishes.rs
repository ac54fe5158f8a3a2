//! What people ask of an ApplicationSet, and what they are told: over the socket and HTTP, so the names in JSON stay.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::fleet::Explanation;
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_lifecycle::teardown::TeardownView;
use tidegate_model::{StreamId, Timestamp};

/// What a person asks of the rollout or the teardown that is under way. Steps are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "wish", rename_all = "kebab-case")]
pub enum SetWish {
    /// A step may begin.
    Approve {
        /// The one that waits for it now, if not said.
        #[serde(default)]
        step: Option<u32>,
    },
    /// Delete the Applications whose deletion is held because they are too many.
    ApproveDeletions {
        /// Stands for what is generated now, as the message about them has it.
        token: String,
    },
    /// Go on without an Application, or all of a step that are not done.
    Skip {
        /// Which step.
        #[serde(default)]
        step: Option<u32>,
        /// Which Application.
        #[serde(default)]
        member: Option<String>,
    },
    /// Bring an Application to its target once more, or all of a step that have failed; with neither, begin a rollout again
    /// that has ended.
    Retry {
        /// Which step.
        #[serde(default)]
        step: Option<u32>,
        /// Which Application.
        #[serde(default)]
        member: Option<String>,
    },
    /// Begin nothing more.
    Pause,
    /// Go on.
    Resume,
    /// Stop what is at work, and end.
    Terminate,
}

/// Where an ApplicationSet stands, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetExplanation {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// The whole answer in one line.
    pub line: String,
    /// Its newest rollout; absent without one.
    pub rollout: Option<RolloutView>,
    /// Its id, by which `tidegate appset show-run` shows it.
    pub rollout_id: Option<StreamId>,
    /// The deletion that is under way, or the last one; absent without one.
    pub teardown: Option<TeardownView>,
    /// Its id.
    pub teardown_id: Option<StreamId>,
    /// What is waited for; absent where nothing is under way.
    pub explanation: Option<Explanation>,
    /// Applications that no step selects, by name.
    pub outside: Vec<String>,
    /// Applications that are not made or not changed, and why.
    pub refused: BTreeMap<String, String>,
    /// Deletions that wait until somebody approves them, because they are too many; absent where none does.
    pub held: Option<HeldDeletions>,
    /// Who has asked for what has ended to be begun again, until it is; absent where nobody has.
    pub retry: Option<AskedRetry>,
}

/// That somebody has asked for what has ended to be begun again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedRetry {
    /// Who.
    pub by: String,
    /// Why; absent where nobody has said so.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Deletions of Applications that are held because they are too many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldDeletions {
    /// Stands for what is generated now: whoever approves the deletions gives it.
    pub token: String,
    /// The Applications that would be deleted, by name.
    pub applications: Vec<String>,
    /// Those of them whose objects would stay.
    pub keep_objects: Vec<String>,
    /// How many Applications the set has.
    pub members: usize,
    /// How many of them may be deleted at once without an approval.
    pub at_once: usize,
}
