//! Content of a teardown request, represented by plain types.

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
    /// Applications that must be deleted.
    pub members: Vec<MemberSpec>,
    /// Applications that a user kept in an earlier deletion, by name. They are kept again, and the requester
    /// and reason are recorded.
    pub kept_members: BTreeMap<String, Attribution>,
    /// Options.
    pub options: Options,
    /// Approval of these deletions, if they were blocked because there were too many of them.
    pub approved: Option<Approval>,
}

/// Approval of deletions that were blocked because there were too many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Token for the blocked deletions. Each token is approved only once.
    pub token: String,
    /// Requester, reason and time.
    pub said: Attribution,
}

/// Application to delete.
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
