//! State machine of an application's controller.
//!
//! The machine decides when to compare, sync, supersede, delete and store an application. It performs no I/O:
//! [`ApplicationMachine::decide`] takes an input and returns effects and possibly a call. The controller
//! executes them in order, and feeds the outcome of the call back before anything else. Results of effects
//! arrive as separate inputs.
//!
//! Comparisons, the operation and writes advance independently of each other, so each has a state of its own:
//!
//! | state | values |
//! |---|---|
//! | [`Phase`] of the operation | idle, preparing, running |
//! | comparison | requested, in progress, finished |
//! | write | current, delayed, in progress, failed |
//!
//! Nothing here is durable. After a restart, the machine is rebuilt from the resource, the operation log and
//! the cluster.

mod approval;
mod child_operations;
mod comparison;
mod conditions;
mod deletion;
mod inputs_and_effects;
mod operation;
mod restoration;
mod superseding;
mod wait_reasons;
mod world;
mod write_schedule;

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::argo::Application;
use tidegate_model::{OperationId, Timestamp};

use crate::AppKey;
use crate::automated_sync::{self, AutomatedStep};
use crate::operation as request;
use crate::project::project_name;
use crate::refresh::{self, RefreshLevel};
use crate::rollout_operation::Deployment;
use crate::shared_application::SharedApplication;
use crate::supersede::SupersedeDecision;

pub use self::approval::PlanReference;
pub use self::child_operations::ChildWithdrawal;
pub use self::inputs_and_effects::{
    Call, ChangedResource, ChildReport, ComparisonStart, Decision, Effect, FinishedComparison, Input,
    OperationRelation, Outcome, PendingPlan, PlanCheck, PlanFailure, RefreshId,
};
pub use self::operation::OperationBackup;
pub use self::world::{AdmissionError, World};
pub use self::write_schedule::{
    CONFLICT_OVERWRITES, OVERWRITTEN_CONDITION, WriteChange, WriteDecision, remove_write_condition,
};

use self::approval::ApprovalState;
use self::child_operations::ChildOperations;
use self::comparison::{ChangeReason, ComparisonState};
use self::superseding::SupersedeState;
use self::write_schedule::WriteSchedule;

/// Delay before retrying a failed write to the store.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Deployments that led to an application's current state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployments {
    /// Newest operation that deployed the whole application.
    pub newest: Option<Deployment>,
    /// Newest operation that deployed the whole application and finished before the published comparison
    /// started, so that the published state includes its effects.
    pub evidence: Option<Deployment>,
    /// True if this process made the published comparison.
    pub is_compared: bool,
}

/// Number of a preparation. The result of a preparation that was stopped doesn't apply to a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreparationId(u64);

/// Handover of the requested operation to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No operation, or an operation that is waiting.
    #[default]
    Idle,
    /// The revisions are being resolved, and the operation gets an ID.
    Preparing,
    /// The engine has the operation, or is receiving it.
    Running(OperationId),
}

/// Settings of the service that affect all applications.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval between comparisons of an application without known changes. Zero disables them.
    pub refresh_interval: Duration,
    /// Namespace of the control plane, if the applications are stored in a cluster.
    pub controller_namespace: Option<String>,
}

/// Continuation of a step after a call.
enum Pending {
    Handover {
        operation: Option<OperationId>,
        rejection: String,
    },
    Release,
    Confirmation {
        operation: OperationId,
        retry_count: i64,
    },
    Store {
        is_held: bool,
        superseding: SupersedeDecision,
    },
    /// The application is skipped, so only its status is stored.
    StoreSkipped,
    Supersede {
        operation: OperationId,
        start: StartConditions,
    },
    Durability {
        operation: OperationId,
    },
}

/// Conditions for starting the operation at the end of a step.
#[derive(Clone, Copy)]
struct StartConditions {
    /// True if the operation has to wait.
    is_held: bool,
    /// True if the current state is stored, or may be stored later.
    is_stored: bool,
}

/// State machine of an application's controller.
pub struct ApplicationMachine {
    key: AppKey,
    settings: Settings,
    application: SharedApplication,
    /// Reason why the specification is invalid.
    problem: Option<String>,
    phase: Phase,
    last_preparation: PreparationId,
    /// Operation that this process has prepared and not yet handed over to the engine.
    new_operation: Option<OperationId>,
    /// Commits that the operation's revisions resolved to when it was prepared. It has been waiting for
    /// dependencies since.
    prepared_revisions: Option<Vec<String>>,
    comparison: ComparisonState,
    writes: WriteSchedule,
    deployments: Deployments,
    children: ChildOperations,
    supersede: SupersedeState,
    approval: ApprovalState,
    /// Dependencies that were registered last, if any were.
    dependencies: Option<BTreeSet<AppKey>>,
    /// The awaited dependency, if it was already refreshed, and its commits at that time.
    refreshed_dependency: Option<(AppKey, Vec<String>)>,
    /// True while the deletion waits for other applications. The application is still compared in the
    /// meantime.
    is_deletion_blocked: bool,
    /// Operation whose deletions an annotation confirmed, and its retry count at that time.
    confirmed_operation: Option<(OperationId, i64)>,
    /// Deletion that was withdrawn but continues because it had already started.
    withdrawn_deletion: Option<OperationId>,
    pending: Option<Pending>,
    effects: Vec<Effect>,
    call: Option<Call>,
}

impl ApplicationMachine {
    /// Creates the machine of an application as it was read from the store. `is_own_state` is true if this
    /// process wrote it, and no client can have edited it since.
    pub fn new(
        mut application: Application,
        problem: Option<String>,
        settings: Settings,
        is_own_state: bool,
    ) -> Self {
        remove_write_condition(&mut application);
        let stored = application.operation.as_ref().and_then(request::engine_id).filter(|_| !is_own_state);
        Self {
            key: AppKey::of(&application),
            settings,
            application: application.into(),
            problem,
            phase: Phase::Idle,
            last_preparation: PreparationId::default(),
            new_operation: None,
            prepared_revisions: None,
            comparison: ComparisonState::starting(),
            writes: WriteSchedule::new(stored),
            deployments: Deployments::default(),
            children: ChildOperations::default(),
            supersede: SupersedeState::default(),
            approval: ApprovalState::default(),
            dependencies: None,
            refreshed_dependency: None,
            is_deletion_blocked: false,
            confirmed_operation: None,
            withdrawn_deletion: None,
            pending: None,
            effects: Vec::new(),
            call: None,
        }
    }

    /// Returns the key of the application.
    pub fn key(&self) -> &AppKey {
        &self.key
    }

    /// Returns the application in its current state.
    pub fn application(&self) -> &SharedApplication {
        &self.application
    }

    /// Returns the deployments that led to the current state.
    pub fn deployments(&self) -> &Deployments {
        &self.deployments
    }

    /// Returns the handover of the operation.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the ID of the current operation, once it has one.
    pub fn operation_id(&self) -> Option<OperationId> {
        self.application.operation.as_ref().and_then(request::engine_id)
    }

    /// Returns true if the operation has started or is being prepared.
    pub fn has_running_operation(&self) -> bool {
        self.phase == Phase::Preparing || self.operation_id().is_some()
    }

    /// Returns the effects of the calls since the last [`Self::decide`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Applies an input and decides on all work that is due.
    pub fn decide(&mut self, input: Input, world: &dyn World, now: Timestamp) -> Decision {
        match input {
            Input::Outcome(outcome) => self.resume(outcome, world, now),
            input => {
                self.apply(input, world, now);
                self.step(world, now);
            }
        }
        Decision { effects: self.take_effects(), call: self.call.take() }
    }

    /// Applies an input without doing the work that it makes due.
    fn apply(&mut self, input: Input, world: &dyn World, now: Timestamp) {
        match input {
            Input::Step | Input::Outcome(_) => {}
            Input::Changed(changed) => self.handle_resource_change(*changed, world, now),
            Input::Compare(level) => self.request_comparison(level),
            Input::Refresh { level, request } => self.refresh(level, request),
            Input::ObjectChanged => self.schedule_comparison(ChangeReason::ObjectChange, world, now),
            Input::Compared(finished) => self.finish_comparison(*finished, world, now),
            Input::Prepared { preparation, result } => {
                self.handle_preparation(preparation, result, world, now);
            }
            Input::Waiting { operation, reason } => self.set_wait_reason(operation, reason, now),
            Input::Progress { operation, progress } => {
                self.handle_progress(operation, *progress, world, now);
            }
            Input::PlanStale => self.mark_plan_stale(),
            Input::PlanChecked { request, check } => self.handle_plan_check(&request, check, now),
            Input::RevisionsCompared { operation, deployed, result } => {
                self.handle_compared_revisions(operation, deployed, result);
            }
            Input::Wake => self.compare_if_due(world, now),
        }
    }

    fn resume(&mut self, outcome: Outcome, world: &dyn World, now: Timestamp) {
        match (self.pending.take(), outcome) {
            (Some(Pending::Handover { operation, rejection }), Outcome::HandoverStopped { is_begun }) => {
                self.finish_withdrawal(operation, rejection, is_begun, now);
                self.continue_deletion(world, now);
            }
            (Some(Pending::Release), Outcome::Released { is_released }) => {
                self.finish_release(is_released, now);
                self.confirm(world, now);
            }
            (Some(Pending::Confirmation { operation, retry_count }), Outcome::Confirmed { is_accepted }) => {
                if is_accepted {
                    self.confirmed_operation = Some((operation, retry_count));
                }
                self.decide_next(world, now);
            }
            (Some(Pending::StoreSkipped), Outcome::Stored { is_stored }) => {
                if is_stored {
                    self.report_children();
                }
                self.answer_refreshes();
            }
            (Some(Pending::Store { is_held, superseding }), Outcome::Stored { is_stored }) => {
                let start = StartConditions { is_held, is_stored };
                if is_stored {
                    self.report_children();
                    self.supersede_operation(superseding, start, now);
                } else {
                    self.start(start, now);
                }
            }
            (Some(Pending::Supersede { operation, start }), Outcome::Superseded(result)) => {
                self.finish_superseding(operation, result);
                self.start(start, now);
            }
            (Some(Pending::Durability { operation }), Outcome::Durable { is_durable }) => {
                self.writes.durable_operation = is_durable.then_some(operation);
                if is_durable {
                    self.run_operation();
                }
                self.finish_step(now);
            }
            // Only a step that is waiting for this outcome can use it.
            (pending, _) => self.pending = pending,
        }
    }

    fn call(&mut self, call: Call, pending: Pending) {
        (self.call, self.pending) = (Some(call), Some(pending));
    }

    fn wake(&mut self, at: Timestamp) {
        self.effects.push(Effect::Wake(at));
    }

    fn step(&mut self, world: &dyn World, now: Timestamp) {
        if refresh::is_skipped(&self.application) && !self.has_running_operation() {
            // While reconciliation is skipped, an operation that a client wrote to the resource must not
            // start.
            self.schedule_child(world, now);
            return self.call(Call::Store, Pending::StoreSkipped);
        }
        self.update_conditions(world, now);
        self.update_overwrite_condition(now);
        match crate::deletion::has_deletion(&self.application) {
            true => self.progress_deletion(world, now),
            false => self.confirm(world, now),
        }
    }

    /// Decides on comparisons and operations, and stores the result.
    fn decide_next(&mut self, world: &dyn World, now: Timestamp) {
        self.schedule_child(world, now);
        self.compare_changed_health(now);
        self.compare_newer_revisions();
        if !self.application.is_deleting() {
            // Otherwise, frequent refresh requests would postpone the sync decision forever.
            if self.comparison.undecided > 1 {
                self.start_automated_sync(world, now);
            }
            self.start_comparison(world, now);
            self.start_automated_sync(world, now);
        }
        let superseding = self.decide_supersede(world, now);
        let is_held = self.should_operation_wait(world, now);
        self.compare_blocked_deletion(is_held, world, now);
        if !is_held {
            self.reset_operation_status(now);
        }
        match self.approval.is_needed {
            true => self.check_plan(now),
            false => self.drop_plan(now),
        }
        self.call(Call::Store, Pending::Store { is_held, superseding });
    }

    /// Starts the operation if it doesn't wait and a crash can't lose it.
    fn start(&mut self, start: StartConditions, now: Timestamp) {
        let StartConditions { is_held, is_stored } = start;
        let operation = self.operation_id();
        let is_durable = is_stored || operation.is_some() && operation == self.writes.durable_operation;
        match operation {
            _ if is_held => {}
            _ if is_durable => self.run_operation(),
            Some(operation) => {
                let pending = Pending::Durability { operation };
                return self.call(Call::FindOperation(operation), pending);
            }
            None => {}
        }
        self.finish_step(now);
    }

    fn finish_step(&mut self, now: Timestamp) {
        if let Some(at) = refresh::due_at(&self.application, now, self.settings.refresh_interval) {
            self.wake(at);
        }
        self.answer_refreshes();
    }

    fn handle_resource_change(&mut self, changed: ChangedResource, world: &dyn World, now: Timestamp) {
        let ChangedResource { application, problem } = changed;
        self.problem = problem;
        // New credentials may make a source readable.
        let is_same = self.application.sources() == application.sources();
        self.request_comparison(if is_same { RefreshLevel::Latest } else { RefreshLevel::Forced });
        let leaves = project_name(&self.application) != project_name(&application);
        (self.application.metadata, self.application.spec) = (application.metadata, application.spec);
        if leaves {
            // Publish first, because the check reads which applications remain in the project.
            self.effects.extend([Effect::Publish, Effect::ReleaseProjects]);
        }
        self.application.rest = application.rest;
        if let Some(request) = application.operation {
            self.handle_written_operation(request, world, now);
        }
    }

    fn start_automated_sync(&mut self, world: &dyn World, now: Timestamp) {
        if self.comparison.is_running || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        // The last observed state may be outdated. Decide once the cluster has responded.
        if world.unknown_cluster_reason(&self.application).is_some() {
            return;
        }
        self.comparison.undecided = 0;
        // An approved plan runs unchanged, even if there are newer commits.
        if self.phase != Phase::Preparing && !self.is_approved(world) {
            automated_sync::update_waiting_operation(&mut self.application, now);
        }
        let windows = world.sync_windows(&self.application);
        match automated_sync::apply_comparison(&mut self.application, &windows, now) {
            AutomatedStep::Nothing => {}
            AutomatedStep::Start(request) => self.application.operation = Some(*request),
            AutomatedStep::Wait(until) => self.wake(until),
        }
    }
}
