//! Content of a teardown request.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::order::Order;
use crate::fleet::{Attribution, Labels};

/// Request for an ordered deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// ApplicationSet, as `namespace/name`.
    pub set: String,
    /// `metadata.uid` of the ApplicationSet.
    pub uid: String,
    /// Requester and reason, as one string ([`Requester`](tidegate_model::Requester)).
    pub by: String,
    /// Order of deletion.
    pub order: Order,
    /// Applications to delete.
    pub members: Vec<MemberSpec>,
    /// Applications that a user kept in an earlier deletion, by name, with the requester and the reason. They
    /// are kept again.
    pub kept_members: BTreeMap<String, Attribution>,
    /// Options.
    pub options: Options,
    /// Approval of these deletions, if they exceeded the deletion limit.
    pub approved: Option<Approval>,
}

/// Approval of deletions that were blocked because they exceeded the deletion limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Token that identifies the blocked deletions. Each token is approved only once.
    pub token: String,
    /// Requester, reason and time.
    pub said: Attribution,
}

/// Application in a teardown request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Name, unique within the ApplicationSet. Includes the namespace if it differs from the
    /// ApplicationSet's.
    pub name: String,
    /// `metadata.uid` of the Application. Another object with the same name is never deleted.
    pub uid: String,
    /// Labels of the Application in the cluster.
    pub labels: Labels,
}

/// Options for a teardown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Maximum duration of a step. `None` means no limit.
    pub deadline: Option<Duration>,
    /// Action to take when a step takes longer than `deadline`.
    pub on_late: OnDeadline,
}

/// Action to take when a step exceeds its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDeadline {
    /// The teardown keeps waiting for the step, with a warning.
    #[default]
    Hold,
    /// The teardown ends without starting any more deletions.
    Abort,
}
