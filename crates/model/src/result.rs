use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Overridden, Phase};

/// Where an operation, or one of its tasks, stands. The words are Argo CD's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OperationPhase {
    /// At work, or waiting.
    Running,
    /// A person asked for its end; hooks are being stopped.
    Terminating,
    /// The cluster or a hook refused.
    Failed,
    /// The engine could not judge.
    Error,
    /// Ended, and all that was asked for is done.
    Succeeded,
}

impl OperationPhase {
    /// Whether it is over.
    pub fn is_completed(self) -> bool {
        matches!(self, Self::Failed | Self::Error | Self::Succeeded)
    }

    /// Whether it is over and not well.
    pub fn is_unsuccessful(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

impl fmt::Display for OperationPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What was done to one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResultCode {
    /// It was applied, or is a hook that was run.
    Synced,
    /// The apply, prune or hook was refused.
    SyncFailed,
    /// Deleted, or on its way out.
    Pruned,
    /// Would have to be pruned, and was not.
    PruneSkipped,
    /// A person had the operation go on without it.
    Skipped,
    /// A person took it for done.
    MarkedDone,
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One line of an operation's result. Field names follow Argo CD's `syncResult.resources`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceResult {
    /// API group, empty for the core API.
    pub group: String,
    /// API version of the manifest, without the group.
    pub version: String,
    /// `kind` of the object.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// Phase in which it was written, run or pruned.
    pub sync_phase: Phase,
    /// Wave in which it was synced.
    pub wave: i64,
    /// Its phase again when it is a hook, else absent.
    pub hook_type: Option<Phase>,
    /// Whether it was written, pruned, left alone or refused; nothing until then.
    pub status: Option<ResultCode>,
    /// Where it stands; for resources as well as hooks.
    pub hook_phase: Option<OperationPhase>,
    /// The cluster's words, or the health message.
    pub message: String,
    /// The images of its containers, without those of init containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Order of first recording, from 1, without gaps.
    pub order: u32,
    /// Why it is not well, as its pods tell: `api-7f is crash-looping (exit 1, restarted 4 times)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the cluster warned of when it took the manifest: that its version is deprecated, for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What a person decided about it while the operation was at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
}
