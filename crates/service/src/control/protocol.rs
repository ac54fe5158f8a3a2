//! What is asked, and what is answered. The names in JSON stay: processes of two versions may meet.

use serde::{Deserialize, Serialize};
use tidegate_applicationset::policy::Options;
use tidegate_executor::Output;
use tidegate_executor::effects::ObjectDifference;
use tidegate_lifecycle::operation::{Event, Fact, OperationView, Scope};
use tidegate_model::argo::{Application, ApplicationSet, OperationRequest};
use tidegate_model::{
    Cascade, OperationId, Override, Plan, ResourceSelector, StreamId, Warning, reason_line,
};

use crate::documents::deletion::DeletionPlan;
use crate::documents::runs::{Run, RunLine};
use crate::documents::{ExplanationDocument, SummaryDocument};
use crate::lines::{PlanLine, WindowLine};
use crate::operations::Listed;
use crate::sets::{SetDeletion, SetExplanation, SetWish};

/// The longest request; replies hold whole operations and may be longer.
pub(super) const REQUEST_BYTES_MAX: u64 = 256 << 10;
/// The longest reply, in bytes. One that is longer is no usable answer.
pub(super) const REPLY_BYTES_MAX: u64 = 1 << 30;
/// The longest reply that tells a line of a hook, in bytes: in JSON a sign may take six.
pub(super) const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Summaries of operations: of all, of one application, of those that are not over.
    List {
        /// Only of this application.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<String>,
        /// Only those that are not over.
        #[serde(default)]
        open: bool,
    },
    /// Summaries of the operations a person may mean.
    Find {
        /// An id, the beginning of one, or the name of an application.
        text: String,
    },
    /// How an operation stands.
    Inspect {
        /// Which.
        operation: OperationId,
    },
    /// Everything recorded about an operation.
    Facts {
        /// Which.
        operation: OperationId,
    },
    /// Events of an operation.
    Events {
        /// Which.
        operation: OperationId,
        /// Only those after this number.
        after: u64,
        /// Wait for a while, where there are none yet.
        #[serde(default)]
        wait: bool,
    },
    /// What the hooks of an operation write while they run. It is answered with as many replies as there is to tell.
    Output {
        /// Which.
        operation: OperationId,
    },
    /// Rollouts and deletions of ApplicationSets: of one, or of all.
    Runs {
        /// The name of the set, or `NAMESPACE/NAME`. It may be gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
    },
    /// The rollouts and deletions a person may mean.
    FindRuns {
        /// An id, the beginning of one, or the name of an ApplicationSet.
        text: String,
    },
    /// A rollout or a deletion, and everything recorded about it.
    Run {
        /// Which.
        id: StreamId,
    },
    /// A person's wish.
    Wish {
        /// For which operation.
        operation: OperationId,
        /// Who wishes.
        by: String,
        /// What.
        wish: Wish,
    },
    /// Applications that are served: all, or those that are meant.
    Applications {
        /// The name of one, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An operation of an application.
    SyncApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// What is asked for; who asks is told by the system.
        operation: Box<OperationRequest>,
    },
    /// That the operation of an application end.
    TerminateApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// That an application be deleted.
    DeleteApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// What becomes of its objects.
        #[serde(default)]
        cascade: Cascade,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// What the deletion of an application would do.
    PlanDeletion {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// What would become of its objects.
        #[serde(default)]
        cascade: Cascade,
    },
    /// That an application go back to a sync of its history.
    RollbackApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// Which sync; the one before the last if not said.
        #[serde(default)]
        id: Option<i64>,
        /// Whether what was not there then is deleted.
        #[serde(default)]
        prune: bool,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// What a sync of an application would change.
    DiffApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// Branch, tag or commit, instead of the application's.
        #[serde(default)]
        revision: Option<String>,
        /// The same of several sources, one for each; an empty one is that of its source.
        #[serde(default)]
        revisions: Vec<String>,
    },
    /// Whether sync windows let an application be synced now.
    SyncWindow {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// That an application be compared now.
    RefreshApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// With manifests that are read anew.
        #[serde(default)]
        hard: bool,
    },
    /// ApplicationSets that are served: all, or those that are meant.
    ApplicationSets {
        /// The name of one, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Where an ApplicationSet stands, and why.
    ExplainApplicationSet {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// In which order the Applications of an ApplicationSet would be deleted with it.
    PlanApplicationSetDeletion {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// A person's wish for the rollout or the deletion of an ApplicationSet.
    WishApplicationSet {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// What.
        wish: SetWish,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// That the generators of an ApplicationSet be asked now.
    RefreshApplicationSet {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// That an ApplicationSet be deleted.
    DeleteApplicationSet {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// Whether its Applications outlive it.
        #[serde(default)]
        orphan: bool,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Kept plans: all, or those of an application.
    Plans {
        /// Its name, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Who asks; told by the system.
        #[serde(default)]
        by: String,
    },
    /// A kept plan.
    KeptPlan {
        /// The name of its application, or `NAMESPACE/NAME`.
        name: String,
        /// Its hash, or the beginning of it.
        hash: String,
        /// Who asks; told by the system.
        #[serde(default)]
        by: String,
    },
    /// What a kept plan would change now.
    DiffPlan {
        /// The name of its application, or `NAMESPACE/NAME`.
        name: String,
        /// Its hash, or the beginning of it.
        hash: String,
    },
    /// That a sync of an application be planned, and the plan kept.
    PlanApplication {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// What is asked for, as by [`Self::SyncApplication`].
        operation: Box<OperationRequest>,
    },
    /// Somebody's approval of a kept plan.
    ApprovePlan {
        /// The name of its application, or `NAMESPACE/NAME`.
        name: String,
        /// Its hash, or the beginning of it.
        hash: String,
        /// Who approves; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// That an application carry out a kept plan, and nothing else.
    SyncPlan {
        /// Its name, or `NAMESPACE/NAME`.
        name: String,
        /// Its hash, or the beginning of it.
        hash: String,
        /// Also where unrelated fields have changed since.
        #[serde(default)]
        allow_drift: bool,
        /// Who wishes; told by the system.
        #[serde(default)]
        by: String,
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// That an object of the simulated cluster be deleted.
    DeleteSimulated {
        /// Which; not in words that match several.
        object: ResourceSelector,
    },
}

impl Request {
    /// What there is to do, and so whether anybody is there.
    pub fn open() -> Self {
        Self::List { app: None, open: true }
    }

    /// The same, as the wish of `user`, whatever it says itself.
    pub(super) fn asked_by(mut self, user: String) -> Self {
        match &mut self {
            Self::Wish { by, .. }
            | Self::TerminateApplication { by, .. }
            | Self::DeleteApplication { by, .. }
            | Self::RollbackApplication { by, .. }
            | Self::WishApplicationSet { by, .. }
            | Self::Plans { by, .. }
            | Self::KeptPlan { by, .. }
            | Self::ApprovePlan { by, .. }
            | Self::SyncPlan { by, .. }
            | Self::DeleteApplicationSet { by, .. } => *by = user,
            Self::SyncApplication { operation, .. } | Self::PlanApplication { operation, .. } => {
                operation.initiated_by.username = user
            }
            _ => {}
        }
        self
    }
}

/// What people may ask of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "kebab-case")]
pub enum Wish {
    /// End it.
    Terminate {
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Hold it.
    Pause {
        /// Why; may be empty.
        reason: String,
    },
    /// Let it go on.
    Unpause {
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Approve its prunes.
    Confirm {
        /// Why; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Approve a wave.
    Approve {
        /// Its number, from 1; the one that waits for it if not said.
        #[serde(default)]
        wave: Option<u32>,
        /// Why; may be empty.
        reason: String,
    },
    /// Skip a task or what is not done of a wave, mark it as done, or have it tried again.
    Override {
        /// Which of these.
        what: Override,
        /// Which task, or wave.
        scope: Scope,
        /// Why; may be empty only where something is tried again.
        reason: String,
    },
}

impl Wish {
    /// The same, with its reason as it is recorded.
    pub(crate) fn with_reason_line(mut self) -> Self {
        let (Self::Terminate { reason }
        | Self::Pause { reason }
        | Self::Unpause { reason }
        | Self::Confirm { reason }
        | Self::Approve { reason, .. }
        | Self::Override { reason, .. }) = &mut self;
        *reason = reason_line(reason);
        self
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::List`] and [`Request::Find`].
    Operations(Vec<Listed>),
    /// To [`Request::Inspect`].
    Operation(Box<Inspected>),
    /// To [`Request::Facts`].
    Facts {
        /// In order.
        facts: Vec<Fact>,
        /// Number of the first, or that after the last where there are none; more than 1 where older ones were compacted.
        #[serde(default = "first_of_all")]
        first: u64,
        /// What is damaged of the operation.
        damage: Option<String>,
    },
    /// To [`Request::Events`].
    Events(Told),
    /// To [`Request::Runs`] and [`Request::FindRuns`].
    Runs(Vec<RunLine>),
    /// To [`Request::Run`].
    Run(Box<Run>),
    /// To [`Request::Output`]: something is told, and more may follow. [`Reply::Done`] when nothing will.
    Output(Output),
    /// To [`Request::Applications`].
    Applications {
        /// By name.
        applications: Vec<Application>,
        /// What cannot be read and belongs to none.
        problems: Vec<String>,
    },
    /// To [`Request::DiffApplication`] and [`Request::DiffPlan`].
    Differences {
        /// In the order of a sync; values of Secrets are masked.
        objects: Vec<ObjectDifference>,
        /// What was found beside.
        findings: Vec<Warning>,
    },
    /// To [`Request::ApplicationSets`].
    ApplicationSets {
        /// By name.
        sets: Vec<ApplicationSet>,
        /// What cannot be read and belongs to none.
        problems: Vec<String>,
        /// What is decided for all of them; an older process says nothing of it.
        #[serde(default)]
        options: Options,
    },
    /// To [`Request::ExplainApplicationSet`].
    ApplicationSet(Box<SetExplanation>),
    /// To [`Request::PlanApplicationSetDeletion`].
    Deletion(Box<SetDeletion>),
    /// To [`Request::PlanDeletion`].
    DeletionPlan(Box<DeletionPlan>),
    /// To [`Request::SyncWindow`].
    SyncWindow(WindowLine),
    /// To [`Request::Plans`], and to [`Request::ApprovePlan`] and [`Request::SyncPlan`], whose wish is durable.
    Plans(Vec<PlanLine>),
    /// To [`Request::KeptPlan`] and [`Request::PlanApplication`].
    Plan {
        /// How it stands.
        line: Box<PlanLine>,
        /// What it does; without values of Secrets.
        plan: Box<Plan>,
    },
    /// The wish is durable, and the process works on the operation.
    Done,
    /// The wish is durable; nobody works on the operation.
    Recorded,
    /// The state of things does not allow it.
    Refused(String),
    /// What was asked for is not there, or means nothing.
    BadInput(String),
    /// Something went wrong.
    Failed(String),
    /// The process is about to end; ask again, somebody else or the log.
    Leaving,
}

/// Events of an operation after a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// In order.
    pub events: Vec<Event>,
    /// What is not there any more.
    pub missed: Option<String>,
    /// To go on, ask for those after this number.
    pub last: u64,
    /// None will follow.
    pub is_over: bool,
    /// Whether a process works on the operation; `None` where that cannot be told.
    pub at_work: Option<bool>,
}

fn first_of_all() -> u64 {
    1
}

/// How an operation stands, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspected {
    /// How.
    pub operation: OperationView,
    /// Why.
    pub explanation: ExplanationDocument,
    /// Of one whose facts were all compacted: what the log has kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<SummaryDocument>,
}
