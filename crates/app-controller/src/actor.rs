//! Actor that manages one Application's resource and the work in progress.

mod change_debounce;
mod child_operations;
mod compare;
mod delete;
mod deletion_confirmation;
mod operation;
mod persistence;
mod plan_approval;
mod refresh_requests;
mod superseding;
mod wait_reasons;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_application::approval;
use tidegate_application::automated_sync::{self, AutomatedStep};
use tidegate_application::comparison;
use tidegate_application::conditions;
use tidegate_application::history as remembered;
use tidegate_application::ignored::{SPEC_WARNING_CONDITION, ignored_annotations};
use tidegate_application::operation as request;
use tidegate_application::refresh::{self, RefreshLevel};
use tidegate_application::rollout_operation as runs;
use tidegate_application::supersede::is_sync_request;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::{Application, ConditionType};
use tidegate_model::{OperationId, Requester, Timestamp};
use tokio::task::{AbortHandle, JoinSet};

use self::change_debounce::{ChangeReason, PendingChange};
use self::child_operations::ChildOperations;
pub use self::child_operations::end_in_engine;
pub use self::persistence::persist_remaining;
use tidegate_application::AppKey;
use tidegate_stores::applications::StoredApplication;

use self::persistence::{FailedWrite, OverwriteTracker, PendingWrite};
use self::plan_approval::ApprovalState;
use self::refresh_requests::RefreshWaiter;
use self::superseding::SupersedeState;
use super::application_cache::Deployments;
use super::comparison_cache::ComparisonCache;
use super::messages::{AppMessage, PlanReference, SupervisorMessage};
use super::operation_history;
use super::projects;
use super::shared_application::SharedApplication;
use super::shared_state::SharedState;

/// Delay before retrying a failed write to the store.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Condition types that are specific to Tidegate.
const UNKNOWN_FIELD_CONDITION: &str = "UnknownFieldWarning";
const UNWATCHABLE_CONDITION: &str = "WatchWarning";
/// Maximum number of unwatchable kinds to list in a condition.
const UNWATCHABLE_KINDS_MAX: usize = 5;

/// A scheduled message, canceled on drop so that at most one is pending.
struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub struct ApplicationActor;

/// Startup arguments for the actor.
pub struct ActorArguments {
    pub shared: Arc<SharedState>,
    pub stored: Box<StoredApplication>,
    /// True if `stored` was written by this process and can't have been edited since.
    pub is_own_state: bool,
    /// First operation of this Application. Anything older was run for a deleted Application of the same
    /// name.
    pub first_operation: Option<OperationId>,
    pub supervisor: ActorRef<SupervisorMessage>,
}

pub struct ActorState {
    shared: Arc<SharedState>,
    supervisor: ActorRef<SupervisorMessage>,
    key: AppKey,
    application: SharedApplication,
    problem: Option<String>,
    /// Last persisted state, and when it was persisted.
    persisted: Option<Arc<Application>>,
    persisted_at: Timestamp,
    /// Duration of the last write.
    write_duration: Duration,
    /// Time of the oldest unpersisted change. With `is_urgent` set, the write must not be delayed.
    unpersisted_since: Option<Timestamp>,
    is_urgent: bool,
    /// Deployments that led to the current state, and the deployments that were last published.
    deployments: Deployments,
    published_deployments: Deployments,
    /// Operation that has been persisted together with its ID.
    durable_operation: Option<OperationId>,
    /// Write in progress.
    pending_write: Option<Box<PendingWrite>>,
    /// State that could not be persisted.
    failed_write: Option<FailedWrite>,
    /// Overwrites of this actor's persisted state by other clients.
    overwrites: OverwriteTracker,
    requested_level: Option<RefreshLevel>,
    /// Callers waiting for a comparison.
    refresh_waiters: Vec<RefreshWaiter>,
    is_comparing: bool,
    /// Number of comparisons that have finished since the last sync decision.
    undecided_comparisons: u32,
    /// Reusable results of the last comparison, and the number of operations that had finished before it
    /// started.
    comparison_cache: ComparisonCache,
    ended_operations: u64,
    is_preparing: bool,
    /// Commits that the operation's revisions resolved to when it was prepared. It has been waiting for
    /// dependencies since.
    prepared_revisions: Option<Vec<String>>,
    /// True while the deletion waits for other Applications. The Application is still compared in the
    /// meantime.
    is_deletion_blocked: bool,
    /// The awaited dependency, if it was already refreshed, and its commits at that time.
    refreshed_dependency: Option<(AppKey, Vec<String>)>,
    /// Operations requested by progressive syncs.
    child_operations: ChildOperations,
    running_operation: Option<OperationId>,
    /// Requests that wait for the current operation to finish.
    supersede_state: SupersedeState,
    /// Plan that is waiting for approval, and the state of its checks.
    approval_state: ApprovalState,
    /// Operation whose deletions an annotation confirmed, and its retry count at that time.
    confirmed_operation: Option<(OperationId, i64)>,
    /// Deletion that was withdrawn but continues because it had already started.
    withdrawn_deletion: Option<OperationId>,
    pending_change: Option<PendingChange>,
    /// Next time an object's health changes without a watch event.
    next_health_change: Option<Timestamp>,
    /// End of the pause during which object changes don't start a comparison.
    quiet_until: Timestamp,
    /// The pending alarm, and when it goes off.
    alarm: Option<(Timestamp, Alarm)>,
    /// All work in progress, aborted when the actor stops.
    tasks: JoinSet<()>,
    /// Tasks that prepare or follow the operation.
    operation_tasks: JoinSet<()>,
}

impl Actor for ApplicationActor {
    type Msg = AppMessage;
    type State = ActorState;
    type Arguments = ActorArguments;

    async fn pre_start(
        &self,
        _: ActorRef<AppMessage>,
        arguments: ActorArguments,
    ) -> Result<ActorState, ActorProcessingErr> {
        let ActorArguments { shared, stored, is_own_state, first_operation, supervisor } = arguments;
        let StoredApplication { mut application, problem, lost_state } = *stored;
        persistence::remove_write_condition(&mut application);
        let written = application.operation.as_ref().and_then(request::engine_id).filter(|_| !is_own_state);
        let mut state = ActorState {
            key: AppKey::of(&application),
            shared,
            supervisor,
            application: application.into(),
            problem,
            persisted: None,
            persisted_at: Timestamp::default(),
            write_duration: Duration::ZERO,
            unpersisted_since: None,
            is_urgent: false,
            deployments: Deployments::default(),
            published_deployments: Deployments::default(),
            durable_operation: written,
            pending_write: None,
            failed_write: None,
            overwrites: OverwriteTracker::default(),
            requested_level: Some(RefreshLevel::Latest),
            refresh_waiters: Vec::new(),
            is_comparing: false,
            undecided_comparisons: 0,
            comparison_cache: ComparisonCache::default(),
            ended_operations: 0,
            is_preparing: false,
            prepared_revisions: None,
            is_deletion_blocked: false,
            refreshed_dependency: None,
            child_operations: ChildOperations::default(),
            running_operation: None,
            supersede_state: SupersedeState::default(),
            approval_state: ApprovalState::default(),
            confirmed_operation: None,
            withdrawn_deletion: None,
            pending_change: None,
            next_health_change: None,
            quiet_until: Timestamp::default(),
            alarm: None,
            tasks: JoinSet::new(),
            operation_tasks: JoinSet::new(),
        };
        let to_end = persistence::requested_end(&state.application);
        Box::pin(state.restore_logged_operations(lost_state, is_own_state, first_operation)).await;
        if let Some(to_end) = to_end {
            Box::pin(state.end_as_recorded(to_end)).await;
        }
        if !refresh::is_skipped(&state.application) {
            state.update_conditions(state.now());
        }
        state.publish();
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<AppMessage>,
        message: AppMessage,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        state.shared.count_step();
        // Boxed, so that an idle actor doesn't reserve memory for its message handler.
        Box::pin(state.handle_message(&myself, message)).await;
        Ok(())
    }
}

impl ActorState {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Handles a message, and then runs a step.
    async fn handle_message(&mut self, myself: &ActorRef<AppMessage>, message: AppMessage) {
        while self.tasks.try_join_next().is_some() {}
        while self.operation_tasks.try_join_next().is_some() {}
        match message {
            AppMessage::Begin => {}
            AppMessage::Changed(stored) => self.handle_resource_change(*stored),
            AppMessage::StateOverwritten(ended) => self.handle_overwrite(ended).await,
            AppMessage::Compare(level) => self.request_comparison(level),
            AppMessage::Refresh { level, reply } => self.refresh(level, reply),
            AppMessage::Flush { reply } => {
                self.step(myself).await;
                return drop(reply.send(Ok(())));
            }
            AppMessage::ObjectChanged => self.schedule_comparison(myself, ChangeReason::ObjectChange),
            // The `step` call below checks the dependencies.
            AppMessage::RelatedChanged => {}
            AppMessage::ComparisonDone { result, start, began_at } => {
                self.finish_comparison(myself, *result, *start, began_at);
            }
            AppMessage::OperationPrepared(prepared) => self.handle_preparation(prepared),
            AppMessage::OperationWaits { operation, reason: why } => self.set_wait_reason(operation, why),
            AppMessage::OperationProgress { operation, progress } => {
                self.handle_progress(operation, *progress)
            }
            AppMessage::Sync { request, plan, reply } => {
                let answer = self.request_operation(myself, *request, plan).await;
                drop(reply.send(answer));
            }
            AppMessage::Approve { hash, approval, reply } => {
                let answer = self.approve(myself, hash, approval).await;
                // Run a step before replying, so that the caller doesn't see the approved plan still waiting.
                self.step(myself).await;
                return drop(reply.send(answer));
            }
            AppMessage::MarkPlanStale => self.mark_plan_stale(),
            AppMessage::PlanChecked { request, check } => self.handle_plan_check(&request, check),
            AppMessage::Rollback { id, prune, by, reason, reply } => {
                let answer = match request::rollback_operation(&self.application, id, prune) {
                    _ if self.application.is_deleting() => {
                        Err(format!("application {} is deleting", self.key))
                    }
                    Ok(mut asked) => {
                        asked.initiated_by.username = by;
                        request::set_reason(&mut asked, &reason);
                        self.request_operation(myself, asked, None).await
                    }
                    Err(refused) => Err(refused.to_string()),
                };
                drop(reply.send(answer));
            }
            AppMessage::Delete { options, by, reason, reply } => {
                let requester = Requester { name: &by, reason: &reason };
                drop(reply.send(self.request_deletion(options, requester).await));
            }
            AppMessage::Terminate { operation, by, reply } => {
                drop(reply.send(self.terminate_operation(operation, &by).await));
            }
            AppMessage::RunChild { operation, child } => self.request_child(operation, *child).await,
            AppMessage::RevisionsCompared { operation, deployed, result } => {
                self.handle_compared_revisions(operation, deployed, result);
            }
            AppMessage::WithdrawChild { operation } => self.withdraw_child(operation, self.now()).await,
            AppMessage::StopChild { operation, by, reply } => {
                self.stop_child(myself, operation, by, reply).await;
            }
            AppMessage::Wake => {
                self.alarm = None;
                self.compare_if_due(myself);
            }
        }
        self.step(myself).await;
    }

    fn request_comparison(&mut self, level: RefreshLevel) {
        self.requested_level = self.requested_level.max(Some(level));
    }

    /// Restores operations that are in the operation log but not in the status, so that no operation runs
    /// twice.
    async fn restore_logged_operations(
        &mut self,
        lost: Option<String>,
        is_own: bool,
        own_since: Option<OperationId>,
    ) {
        let now = self.now();
        let (unknown, lines) =
            match operation_history::load_history(&self.shared, &self.application, own_since).await {
                Ok(known) => known,
                Err(error) => {
                    self.problem = Some(format!(
                        "cannot read the operation log, so the application is not managed: {error}"
                    ));
                    return;
                }
            };
        let request = self.application.operation.clone().filter(is_sync_request);
        if request.is_some() {
            remembered::restore_operation(&mut self.application, &lines);
        }
        let taken = remembered::apply_history(&mut self.application, unknown);
        if let Some(request) = request.filter(|request| self.application.operation.as_ref() != Some(request))
        {
            // A client wrote this operation while the service was stopped, and according to the log, a
            // different operation is still running.
            self.handle_written_operation(request);
        }
        if is_own {
            self.restore_child(now).await;
        } else {
            let plan = self.application.operation.as_ref().and_then(PlanReference::from_request);
            // Without a Lease, another service may still be running the operation.
            if !self.shared.destinations.is_fenced()
                || !remembered::is_interrupted(&self.application, &lines, now)
            {
                remembered::verify_operation(&mut self.application, &lines, now);
            }
            self.restore_plan(plan);
            runs::current_rollout_operation(&self.application)
                .into_iter()
                .for_each(|placed| self.record_child_begin(placed));
        }
        self.load_pending_plan().await;
        self.deployments.newest = match runs::last_deployment(&self.application) {
            None if !lines.is_empty() => {
                operation_history::newest_deployment(&self.shared, &self.application, own_since).await
            }
            deployed => deployed,
        };
        let from = match taken {
            0 if lost.is_none() => return,
            0 => "the operation log contains no operations of this application".to_owned(),
            1 => "the application's last operation was restored from the operation log".to_owned(),
            taken => {
                format!("the application's last {taken} operations were restored from the operation log")
            }
        };
        let reason = lost.unwrap_or_else(|| "no current status was stored".to_owned());
        let message = format!("{reason}; {from}");
        tracing::warn!(application = %self.key, message, "application status rebuilt");
        remembered::set_rebuilt_condition(&mut self.application, Some(message), now);
    }

    fn handle_resource_change(&mut self, stored: StoredApplication) {
        let StoredApplication { application, problem, .. } = stored;
        self.problem = problem;
        // New credentials may make a source readable.
        let is_same = self.application.sources() == application.sources();
        self.request_comparison(if is_same { RefreshLevel::Latest } else { RefreshLevel::Forced });
        let leaves = projects::project_name(&self.application) != projects::project_name(&application);
        (self.application.metadata, self.application.spec) = (application.metadata, application.spec);
        if leaves {
            // Publish first, because the handler checks which Applications remain in the project.
            self.publish();
            drop(self.supervisor.send_message(SupervisorMessage::ReleaseProjects));
        }
        self.application.rest = application.rest;
        if let Some(request) = application.operation {
            self.handle_written_operation(request);
        }
        self.request_comparison(RefreshLevel::Latest);
    }

    /// Schedules a wake-up at `at`, unless an earlier alarm is already set.
    fn set_alarm(&mut self, myself: &ActorRef<AppMessage>, at: Timestamp) {
        if self.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || AppMessage::Wake).abort_handle());
        self.alarm = Some((at, alarm));
    }

    /// Returns the reason why the cluster's availability is still unknown, if it is.
    fn unknown_cluster_reason(&self) -> Option<String> {
        self.shared.destinations.unchecked_reason(&self.application.spec.destination)
    }

    /// Does all work that is due. Starts an operation only after the operation has been persisted together
    /// with its ID.
    async fn step(&mut self, myself: &ActorRef<AppMessage>) {
        let now = self.now();
        if refresh::is_skipped(&self.application) && !self.has_running_operation() {
            // While reconciliation is skipped, an operation that a client wrote to the resource must not
            // start.
            self.schedule_child(myself, now);
            if self.persist(myself).await.is_ok() {
                self.report_children();
            }
            return self.answer_refreshes();
        }
        self.update_conditions(now);
        self.update_overwrite_condition(myself, now);
        self.progress_deletion(myself, now).await;
        self.confirm_deletions().await;
        self.schedule_child(myself, now);
        self.compare_changed_health(myself, now);
        self.compare_newer_revisions();
        if !self.application.is_deleting() {
            // Otherwise, frequent refresh requests would postpone the sync decision forever.
            if self.undecided_comparisons > 1 {
                self.start_automated_sync(myself, now);
            }
            self.start_comparison(myself, now);
            self.start_automated_sync(myself, now);
        }
        let superseding = self.decide_supersede(now);
        let is_held = self.should_operation_wait(now);
        let waited =
            std::mem::replace(&mut self.is_deletion_blocked, is_held && self.application.is_deleting());
        if self.is_deletion_blocked {
            if !waited {
                // Comparison results were discarded until the deletion was blocked, so compare now.
                self.request_comparison(if self.refresh_waiters.is_empty() {
                    RefreshLevel::Latest
                } else {
                    RefreshLevel::Forced
                });
            }
            self.start_comparison(myself, now);
        }
        if !is_held {
            self.reset_operation_status(now);
        }
        self.check_plan(myself, now);
        let is_persisted = self.persist(myself).await.is_ok();
        if is_persisted {
            self.report_children();
            self.supersede_operation(myself, superseding).await;
        }
        if !is_held && (is_persisted || self.is_operation_durable().await) {
            self.run_operation(myself);
        }
        if let Some(at) = refresh::due_at(&self.application, now, self.shared.interval) {
            self.set_alarm(myself, at);
        }
        self.answer_refreshes();
    }

    /// Returns true if one of the Application's operations has started or is being prepared.
    fn has_running_operation(&self) -> bool {
        self.is_preparing
            || self
                .application
                .operation
                .as_ref()
                .is_some_and(|request| request::engine_id(request).is_some())
    }

    /// Sets the conditions that don't depend on a comparison.
    fn update_conditions(&mut self, now: Timestamp) {
        if let Some(problem) = self.problem.clone() {
            comparison::record_invalid_spec(&mut self.application, problem, now);
        } else if self.application.is_deleting() && !self.is_deletion_blocked {
            // The Application is no longer compared, so no comparison would remove this condition.
            let kind = ConditionType::InvalidSpecError;
            conditions::set_conditions(&mut self.application.status.conditions, &[kind], None, now);
        }
        let mut unknown = Vec::new();
        let own = self.application.unknown_fields();
        // A source with unknown fields is rejected when it is read, because its manifests could be wrong.
        let (sources, others): (Vec<_>, Vec<_>) = own.into_iter().partition(|one| is_source_field(one));
        for (what, fields) in [("these fields have no effect", others), ("these fields are unknown", sources)]
        {
            if !fields.is_empty() {
                unknown.push(format!("{what}: {}", fields.join(", ")));
            }
        }
        unknown.extend(self.shared.projects.unknown_fields(&self.application));
        self.set_condition(UNKNOWN_FIELD_CONDITION, &unknown, now);
        let mut warnings = ignored_annotations(&self.application);
        warnings.extend(self.shared.projects.warnings(&self.application));
        self.set_condition(SPEC_WARNING_CONDITION, &warnings, now);
        let approvals = self.shared.approval_policy(&self.application).unwrap_or_default();
        self.set_condition(approval::APPROVAL_WARNING_CONDITION, approvals.problems(), now);
        let mut unseen = self.shared.watches.forbidden_messages(&self.key);
        let more = unseen.len().saturating_sub(UNWATCHABLE_KINDS_MAX);
        unseen.truncate(UNWATCHABLE_KINDS_MAX);
        unseen.extend((more > 0).then(|| format!("and {more} more like this")));
        self.set_condition(UNWATCHABLE_CONDITION, &unseen, now);
    }

    /// Sets a condition that is specific to Tidegate. An empty `text` removes the condition.
    fn set_condition(&mut self, kind: &str, text: &[String], now: Timestamp) {
        let kind = ConditionType::Other(kind.to_owned());
        let found = (!text.is_empty()).then(|| (kind.clone(), text.join("; ")));
        conditions::set_conditions(&mut self.application.status.conditions, &[kind], found, now);
    }

    fn start_automated_sync(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.is_comparing || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        // The last observed state may be outdated. Decide once the cluster has responded.
        if self.unknown_cluster_reason().is_some() {
            return;
        }
        self.undecided_comparisons = 0;
        // An approved plan runs unchanged, even if there are newer commits.
        if !self.is_preparing && !self.is_approved() {
            automated_sync::update_waiting_operation(&mut self.application, now);
        }
        let windows = self.shared.sync_windows(&self.application);
        match automated_sync::apply_comparison(&mut self.application, &windows, now) {
            AutomatedStep::Nothing => {}
            AutomatedStep::Start(request) => self.application.operation = Some(*request),
            AutomatedStep::Wait(until) => {
                self.set_alarm(myself, until);
            }
        }
    }
}

/// Returns true if an unknown field is part of a source. Such a source is rejected.
fn is_source_field(field: &str) -> bool {
    const SOURCE_TYPES: [&str; 3] = ["directory", "helm", "kustomize"];
    let Some((source, rest)) = field.strip_prefix("spec.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_source = source == "source" || source.starts_with("sources");
    is_source
        && match rest.split_once('.') {
            None => true,
            Some((part, field)) => SOURCE_TYPES.contains(&part) && !field.contains('.'),
        }
}
