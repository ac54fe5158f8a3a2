//! What all sets of a process share.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_applicationset::policy::Options;
use tidegate_lifecycle::rollout::Options as Cases;

use super::board::SetBoard;
use super::store::SetStore;
use crate::applications::{Shared, SupervisorMessage};

/// What all sets of a process share.
pub(crate) struct SetShared {
    /// What their Applications share.
    pub applications: Arc<Shared>,
    /// Whoever looks after their Applications.
    pub supervisor: ActorRef<SupervisorMessage>,
    pub store: Arc<dyn SetStore>,
    /// What is decided for all of them.
    pub options: Options,
    /// The same, for cases in a progressive sync.
    pub cases: Cases,
    /// How patterns of Git files are read.
    pub generating: tidegate_generate::Options,
    pub board: SetBoard,
}
