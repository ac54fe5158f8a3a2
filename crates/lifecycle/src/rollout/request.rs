//! What is asked for, in plain types: whoever reads the ApplicationSet makes them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId};

use crate::fleet::{Expression, Labels, MaxUpdate};

/// A progressive sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// What tells this set of targets from every other: the identity of the rollout among those of its set.
    pub targets: Digest,
    /// Who asks, and why, as one text ([`Wisher`](tidegate_model::Wisher)).
    pub by: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// All Applications of the set, also those that no step selects.
    pub members: Vec<MemberSpec>,
    /// What is to be done in cases.
    pub options: Options,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Whom it selects: all of these must be met.
    pub expressions: Vec<Expression>,
    /// So many of its members at once.
    pub max_update: MaxUpdate,
    /// Opened before it begins: `approval`, `soak:10m`, or the name of a gate that is asked.
    pub gates: Vec<String>,
    /// So long it may take from its opening on. `None`: as long as it takes.
    pub deadline: Option<Duration>,
    /// So many of its members may fail, and the rollout goes on without them. `None`: a member that fails keeps its place,
    /// and the step open, until somebody sees to it.
    pub max_failures: Option<u32>,
    /// What follows when more fail, or the deadline passes.
    pub on_failure: OnFailure,
}

/// What follows when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The rollout is paused until a person lets it go on.
    #[default]
    Pause,
    /// The rollout ends; what is at work ends by itself, but for a step that is too late: there it is stopped.
    Abort,
    /// The members of this step are brought back to what they had before, and the rollout ends.
    RollBack,
}

/// What is to be done in cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// So long a member may be Pending: chosen, and its operation not begun. Time in which a sync window keeps it is not
    /// counted.
    pub pending_timeout: Option<Duration>,
    /// What follows then.
    pub on_pending: OnPending,
    /// What new targets do to this rollout.
    pub on_new_targets: OnNewTargets,
}

/// What becomes of a member that is Pending for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnPending {
    /// It is awaited, with a warning.
    #[default]
    Hold,
    /// Its operation is withdrawn, and it counts as failed.
    Fail,
    /// Its operation is withdrawn, and it counts as Healthy, as in Argo CD 3.2.
    Healthy,
}

/// What new targets of the same set do to a rollout that is not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnNewTargets {
    /// Operations at work are stopped, no further one is begun, and the rollout ends. One that a person holds ends when it is
    /// let go on.
    #[default]
    Supersede,
    /// It is finished first.
    Finish,
}

/// An Application of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Its name, in its namespace where that is not the set's: unique in the set.
    pub name: String,
    /// Its labels, as the set generates them.
    pub labels: Labels,
    /// What it is brought to.
    pub target: Target,
    /// What it has now; `None` where nothing was ever deployed.
    pub before: Option<Deployed>,
    /// The operation that has brought it to this very target, if it was seen Synced and Healthy since: nothing is to be done.
    pub done_by: Option<OperationId>,
}

/// What an Application had when the rollout began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployed {
    /// The newest operation that has succeeded, if one is known: neither it nor one before it is evidence of this rollout.
    pub operation: Option<OperationId>,
    /// What it has deployed.
    pub target: Target,
}

/// What an Application is brought to, exactly: branches and version ranges are resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    /// A revision for each source, in order.
    pub revisions: Vec<String>,
    /// The Application's generated spec. A change of that alone is a change.
    pub spec: Digest,
}

impl Step {
    /// Whom it selects, in words: `env in (dev) and tier not in (db)`.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.expressions.iter().map(Expression::to_string).collect();
        if words.is_empty() { "every Application".to_owned() } else { words.join(" and ") }
    }
}
