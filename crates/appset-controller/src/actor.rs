//! Actor for one ApplicationSet: manages its resource and its running machines.
//!
//! A reconcile pass ([`reconcile`](super::reconcile)) runs alongside the actor, which stays responsive, and
//! reports back with a message. A state machine in the engine does long-running work, such as a rollout or a
//! teardown. The actor starts the machine, tells it about changes to the ApplicationSet, and publishes its
//! status.

mod delete;
mod deletion_release;
mod deletion_request;
mod explain;
mod handle_action;
mod milestones;
mod publish_status;
mod rollout_control;
mod unordered_deletion;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_application::AppKey;
use tidegate_applicationset::changes::{AppSetOutput, AppSetProblem};
use tidegate_applicationset::requeue::{ReconcileOutcome, requeue_delay};
use tidegate_applicationset::retry::RetryAnnotation;
use tidegate_applicationset::rollout::RolloutRequestError;
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_applicationset::triggers::{self, REFRESH_ANNOTATION, ReconcileTrigger};
use tidegate_executor::{Clock as _, EngineError, MachineError, RunningMachine, SystemClock};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::teardown::Order;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;
use tidegate_stores::appsets::StoredAppSet;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use self::delete::Teardowns;
use self::deletion_release::ForeignDeletions;
use self::rollout_control::Rollouts;
use super::member_status::MemberStatusCache;
use super::messages::{AppSetMessage, AppSetSupervisorMessage};
use super::reconcile::{ReconcileInput, ReconcileResult, run_pass};
use super::shared::AppSetShared;
use super::{members, write_failure};

/// Pause after a pass while Applications keep changing, as a multiple of the pass's duration. It lasts at
/// least `REST_MIN`, and at most `REST_MAX` because a pass may wait minutes for other servers.
const REST_FACTOR: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(10);
/// Delay before the next pass if no event reports the result of a write.
const EVENT_DELAY_MAX: Duration = Duration::from_secs(5);
/// Maximum time to determine the targets of a progressive sync.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before another attempt to compare an Application's manifests with its target's.
const COMPARED_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Delay before retrying a write that the store rejected.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Minimum interval between computations of the status.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval between writes of a resource's status.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Minimum interval between status writes per Application in the ApplicationSet. The total is limited to
/// `WRITE_INTERVAL_MAX`.
const WRITE_INTERVAL_PER_MEMBER: Duration = Duration::from_millis(10);
const WRITE_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// A scheduled message. Dropping it cancels the message, so that at most one is pending.
struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reason a machine didn't start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("spec.ignoreApplicationDifferences: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Ignored(Vec<IgnoreError>),
}

pub struct ApplicationSetActor;

/// Startup arguments for the actor.
pub struct ActorArguments {
    pub shared: Arc<AppSetShared>,
    pub stored: Box<StoredAppSet>,
    pub supervisor: ActorRef<AppSetSupervisorMessage>,
}

pub struct ActorState {
    shared: Arc<AppSetShared>,
    /// Supervisor that forwards messages from machines, because they can outlive this actor.
    supervisor: ActorRef<AppSetSupervisorMessage>,
    key: AppKey,
    set: ApplicationSet,
    /// Reason the stored ApplicationSet can't be used.
    problem: Option<String>,
    /// Last written state and the time of the write.
    persisted: Option<ApplicationSet>,
    persisted_at: Timestamp,
    /// Time of the last computation of the status.
    status_computed_at: Timestamp,
    /// Generated Applications, except those of failed generators. `None` before the first pass or if all
    /// generators failed.
    generated: Option<Arc<AppSetOutput>>,
    /// Rejected names and the reasons, from the last pass without failed generators.
    last_rejected: Arc<BTreeMap<String, String>>,
    /// Reason the last pass failed.
    failure: Option<ReconcileFailure>,
    /// Errors that the last pass found in the ApplicationSet itself.
    spec_problems: Vec<AppSetProblem>,
    /// Rejected Applications, with the reasons.
    refused: BTreeMap<String, String>,
    /// Applications that differ from the generated ones but aren't updated, with the reasons.
    unmanaged: BTreeMap<String, String>,
    /// This ApplicationSet's Applications as of their latest change events.
    members: BTreeMap<String, Arc<Application>>,
    /// True once the ApplicationSet is deleted or about to be. Notifications stop then.
    is_released: bool,
    /// Kind of the next pass.
    trigger: ReconcileTrigger,
    /// True if the next pass must fetch new revisions from repositories.
    is_fresh: bool,
    /// The running pass, and true if it runs the generators.
    running_pass: Option<(AbortHandle, bool)>,
    /// End of the pause during which changes to Applications don't start a pass.
    quiet_until: Timestamp,
    /// Time of the next automatic generation.
    generate_at: Option<Timestamp>,
    /// Start of the period in which the targets of a progressive sync couldn't be determined.
    unresolved_since: Option<Timestamp>,
    /// Time of the next pass, unless an event reports a write or enables a comparison before then.
    next_pass_by: Option<Timestamp>,
    /// Reasons manifests couldn't be compared with the target's, by Application.
    awaited: BTreeMap<String, String>,
    rollouts: Rollouts,
    /// Collected status of the Applications for a rollout.
    member_status: Arc<Mutex<MemberStatusCache>>,
    teardowns: Teardowns,
    foreign_deletions: ForeignDeletions,
    /// Request to retry a finished run. It stays in the resource until it is fulfilled.
    requested_retry: Option<RetryAnnotation>,
    /// Time to look up the machines in the log again, if some of them couldn't be resumed.
    recall_at: Option<Timestamp>,
    alarm: Option<(Timestamp, Alarm)>,
    /// All running tasks. Stopping the actor aborts them.
    tasks: JoinSet<()>,
    /// Kubernetes Events that are being written.
    events: JoinSet<()>,
}

impl Actor for ApplicationSetActor {
    type Msg = AppSetMessage;
    type State = ActorState;
    type Arguments = ActorArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<AppSetMessage>,
        arguments: ActorArguments,
    ) -> Result<ActorState, ActorProcessingErr> {
        let ActorArguments { shared, stored, supervisor } = arguments;
        let StoredAppSet { appset: set, problem, lost } = *stored;
        let key = AppKey::of_appset(&set);
        if let Some(lost) = lost {
            tracing::warn!(set = %key, lost, "ApplicationSet status rebuilt");
        }
        let rollouts = Rollouts::default();
        let standings = MemberStatusCache::new(rollouts.same.clone());
        let mut state = ActorState {
            shared,
            supervisor,
            key,
            set,
            problem,
            persisted: None,
            persisted_at: Timestamp::default(),
            status_computed_at: Timestamp::default(),
            unresolved_since: None,
            awaited: BTreeMap::new(),
            generated: None,
            last_rejected: Arc::default(),
            failure: None,
            spec_problems: Vec::new(),
            refused: BTreeMap::new(),
            unmanaged: BTreeMap::new(),
            members: BTreeMap::new(),
            is_released: false,
            trigger: ReconcileTrigger::Reconcile,
            is_fresh: true,
            running_pass: None,
            quiet_until: Timestamp::default(),
            generate_at: None,
            next_pass_by: None,
            rollouts,
            member_status: Arc::new(Mutex::new(standings)),
            teardowns: Teardowns::default(),
            foreign_deletions: ForeignDeletions::default(),
            requested_retry: None,
            recall_at: None,
            alarm: None,
            tasks: JoinSet::new(),
            events: JoinSet::new(),
        };
        state.members = members::cached_members(&state.shared, &state.set, None);
        state.recall_rollout().await?;
        state.recall_teardown().await?;
        state.restore_retry();
        state.emit_rollout_milestones(true);
        state.emit_teardown_milestones(true);
        state.step(&myself).await;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<AppSetMessage>,
        message: AppSetMessage,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        state.shared.applications.count_step();
        while state.tasks.try_join_next().is_some() || state.events.try_join_next().is_some() {}
        match message {
            AppSetMessage::Changed(stored) => state.handle_change(*stored),
            AppSetMessage::MemberChanged(key) => state.handle_member_change(&key),
            AppSetMessage::PassEnded(pass, passed) => state.handle_pass(pass, *passed).await,
            AppSetMessage::RolloutChanged => state.handle_rollout_change().await,
            AppSetMessage::TeardownChanged => state.handle_teardown_change().await,
            AppSetMessage::InputsChanged => {
                (state.trigger, state.is_fresh) = (ReconcileTrigger::Reconcile, true);
            }
            AppSetMessage::ForeignDeletions { uids, is_deleting } => {
                state.handle_foreign_deletions(&myself, uids, is_deleting)
            }
            AppSetMessage::Wake => state.alarm = None,
            AppSetMessage::Refresh { reply } => {
                (state.trigger, state.is_fresh) = (ReconcileTrigger::Reconcile, true);
                state.quiet_until = Timestamp::default();
                drop(reply.send(Ok(())));
            }
            AppSetMessage::Action { action, run, by, reason: why, reply } => {
                drop(reply.send(state.handle_action(action, run, by, why).await));
            }
            AppSetMessage::Explain { reply } => drop(reply.send(state.explain().await)),
            AppSetMessage::Delete { orphan, by, reason, reply } => {
                drop(reply.send(state.request_deletion(orphan, &by, &reason).await));
            }
            AppSetMessage::Gone { reply } => {
                state.handle_removal().await;
                state.flush_events().await;
                drop(reply.send(()));
                return Ok(());
            }
        }
        state.step(&myself).await;
        Ok(())
    }
}

impl ActorState {
    /// Returns the callback for changes of a machine's state.
    fn change_notifier(&self, message: fn() -> AppSetMessage) -> impl Fn() + Send + Sync + Clone + 'static {
        let (supervisor, key) = (self.supervisor.clone(), self.key.clone());
        move || drop(supervisor.send_message(AppSetSupervisorMessage::Forward(key.clone(), message())))
    }

    /// Sends a message when a machine finishes. The machine itself doesn't report an end that another
    /// component caused.
    fn report_machine_end<M: Machine>(&self, running: RunningMachine<M>, message: fn() -> AppSetMessage) {
        let notify = self.change_notifier(message);
        tokio::spawn(async move {
            running.wait_until_over().await;
            notify();
        });
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn is_deleting(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// Handles a change to the stored ApplicationSet.
    fn handle_change(&mut self, stored: StoredAppSet) {
        let StoredAppSet { appset, problem, .. } = stored;
        let woken = triggers::trigger_of_appset(Some(&self.set), Some(&appset));
        if woken == ReconcileTrigger::Reconcile || problem != self.problem {
            // The running pass uses an outdated ApplicationSet.
            self.abort_pass();
            (self.trigger, self.is_fresh) = (ReconcileTrigger::Reconcile, true);
            self.quiet_until = Timestamp::default();
            // The author of the change may be waiting to see the status.
            self.status_computed_at = Timestamp::default();
        }
        // A recreated ApplicationSet of the same name inherits nothing.
        let is_same = appset.metadata.uid == self.set.metadata.uid;
        let status = if is_same { std::mem::take(&mut self.set.status) } else { appset.status.clone() };
        self.set = ApplicationSet { status, ..appset };
        self.problem = problem;
    }

    /// Aborts the running pass, if any, and reschedules it.
    fn abort_pass(&mut self) {
        if let Some((looking, generates)) = self.running_pass.take() {
            looking.abort();
            self.trigger = self.trigger.max(if generates {
                ReconcileTrigger::Reconcile
            } else {
                ReconcileTrigger::Status
            });
        }
    }

    /// Handles a change to an Application in this namespace, or its removal.
    fn handle_member_change(&mut self, key: &AppKey) {
        let now = self.shared.applications.application_cache.get(key);
        let before = match &now {
            Some(now) => self.members.insert(key.name.clone(), Arc::clone(now)),
            None => self.members.remove(&key.name),
        };
        if before.is_none() && now.is_none() && !self.refused.contains_key(&key.name) {
            // The Application belonged to another ApplicationSet and is gone.
            return;
        }
        let woken = triggers::trigger_of_application(before.as_deref(), now.as_deref());
        self.trigger = self.trigger.max(woken);
    }

    /// Performs all actions that are due.
    async fn step(&mut self, myself: &ActorRef<AppSetMessage>) {
        let is_recalled = self.recall_lost_machines(myself).await;
        match self.is_deleting() {
            false => self.start_pass(myself),
            true if is_recalled => self.progress_deletion(myself).await,
            // Wait until the running machines have been found in the log.
            true => {}
        }
        self.release_members(myself);
        self.warn_foreground_deletion();
        self.publish_status(myself).await;
    }

    /// Schedules another lookup of the machines in the log.
    fn schedule_recall(&mut self) {
        self.recall_at = Some(self.now() + RETRY_DELAY);
    }

    /// Schedules a lookup in case the log still has a machine that failed to start.
    fn recall_after_failed_start(&mut self, error: &StartError) {
        if matches!(error, StartError::Machine(_)) {
            self.schedule_recall();
        }
    }

    /// Looks up the machines in the log again if some couldn't be resumed and a retry is due. Returns true
    /// once all machines are known.
    async fn recall_lost_machines(&mut self, myself: &ActorRef<AppSetMessage>) -> bool {
        let (now, Some(at)) = (self.now(), self.recall_at) else { return true };
        if now < at {
            self.set_alarm(myself, at);
            return false;
        }
        self.recall_at = None;
        let recalled = match self.recall_rollout().await {
            Ok(()) => self.recall_teardown().await,
            failed => failed,
        };
        if let Err(error) = recalled {
            let message =
                format!("cannot read the records of the ApplicationSet's rollout and deletion: {error}");
            self.failure = Some(write_failure(ConditionReason::SyncApplicationError, &message));
            self.schedule_recall();
            self.set_alarm(myself, now + RETRY_DELAY);
            return false;
        }
        self.emit_rollout_milestones(false);
        self.emit_teardown_milestones(false);
        self.trigger = self.trigger.max(ReconcileTrigger::Status);
        true
    }

    /// Starts a pass if one is due.
    fn start_pass(&mut self, myself: &ActorRef<AppSetMessage>) {
        if self.running_pass.is_some() || self.problem.is_some() {
            return;
        }
        let now = self.now();
        if self.generate_at.is_some_and(|at| at <= now) {
            (self.generate_at, self.trigger, self.is_fresh) = (None, ReconcileTrigger::Reconcile, true);
            self.quiet_until = Timestamp::default();
        }
        if self.next_pass_by.is_some_and(|at| at <= now) {
            self.next_pass_by = None;
            self.trigger = self.trigger.max(ReconcileTrigger::Status);
        }
        let generates = match self.trigger {
            ReconcileTrigger::Ignore => return self.schedule_next_step(myself),
            // Nothing has been generated yet, so there is nothing to compare.
            ReconcileTrigger::Status if self.generated.is_none() => {
                self.trigger = ReconcileTrigger::Ignore;
                return self.schedule_next_step(myself);
            }
            ReconcileTrigger::Status => false,
            ReconcileTrigger::Reconcile => true,
        };
        if now < self.quiet_until {
            return self.set_alarm(myself, self.quiet_until);
        }
        let generated = self.generated.clone().filter(|_| !generates);
        let input = ReconcileInput {
            set: self.set.clone(),
            generated,
            refused: Arc::clone(&self.last_rejected),
            is_fresh: self.is_fresh,
            last: self.own_rollout().cloned(),
            member_status: Arc::clone(&self.member_status),
            prunes: self.rollouts.prunes.clone(),
        };
        (self.trigger, self.is_fresh) = (ReconcileTrigger::Ignore, self.is_fresh && !generates);
        let (shared, actor) = (Arc::clone(&self.shared), myself.clone());
        let looking = self.tasks.spawn(async move {
            // A panic in a pass is reported like any other failure. An aborted pass sends nothing.
            let passed =
                AssertUnwindSafe(run_pass(shared, input)).catch_unwind().await.unwrap_or_else(|_| {
                    let text =
                        "processing the ApplicationSet failed with an internal error; see the log of this process";
                    let failure = write_failure(ConditionReason::ApplicationGenerationFromParamsError, text);
                    ReconcileResult { failure: Some(failure), ..ReconcileResult::default() }
                });
            drop(actor.send_message(AppSetMessage::PassEnded(tokio::task::id(), Box::new(passed))));
        });
        self.running_pass = Some((looking, generates));
    }

    /// Sets the alarm for the next step.
    fn schedule_next_step(&mut self, myself: &ActorRef<AppSetMessage>) {
        let next = [self.generate_at, self.next_pass_by].into_iter().flatten().min();
        if let Some(at) = next {
            self.set_alarm(myself, at);
        }
    }

    /// Handles a reconcile pass's result.
    async fn handle_pass(&mut self, pass: tokio::task::Id, passed: ReconcileResult) {
        // An aborted pass may already have sent its result while its replacement is still running.
        let Some((_, generates)) = self.running_pass.take_if(|(looking, _)| looking.id() == pass) else {
            return;
        };
        let ReconcileResult {
            generated,
            changes,
            failure,
            finalizers,
            needs_another_pass,
            request,
            awaited,
            saw_running_rollout,
            duration,
        } = passed;
        let now = self.now();
        self.shared.cache.record_pass(&self.key, duration);
        self.quiet_until = now + duration.saturating_mul(REST_FACTOR).clamp(REST_MIN, REST_MAX);
        if let Some(finalizers) = finalizers {
            self.set.metadata.finalizers = finalizers;
        }
        if generates {
            let ended = match (&generated, &failure) {
                (None, _) => ReconcileOutcome::Failed,
                (Some(generated), _) if !generated.errors.is_empty() => ReconcileOutcome::Failed,
                (Some(_), Some(_)) => ReconcileOutcome::Partial,
                (Some(_), None) => ReconcileOutcome::Complete,
            };
            self.generate_at = requeue_delay(&self.set, ended, &self.shared.options).map(|after| now + after);
            self.end_refresh().await;
        }
        if let Some(all) =
            generated.as_ref().filter(|all| all.errors.is_empty() && all.without_output.is_empty())
        {
            self.last_rejected = Arc::new(all.rejected.clone());
        }
        self.next_pass_by = needs_another_pass.then_some(now + EVENT_DELAY_MAX);
        self.unmanaged = changes
            .retained_applications()
            .map(|(name, reason)| (name.to_owned(), reason.to_string()))
            .collect();
        self.refused = changes
            .rejected_applications()
            .map(|(name, reason)| (name.to_owned(), reason.to_string()))
            .collect();
        (self.generated, self.failure, self.spec_problems) = (generated, failure, changes.problems);
        if changes.order != Order::AllAtOnce {
            let reason = "it is no longer generated";
            self.tear_down(changes.order, changes.delete, changes.permit, reason).await;
        }
        self.keep_generated().await;
        if !needs_another_pass {
            self.remove_approval().await;
        }
        if request.is_some() || !needs_another_pass {
            self.awaited = awaited;
        }
        let is_unresolved = matches!(request, Some(Err(RolloutRequestError::Unresolved(_))));
        match request {
            // The rollout finished after the pass observed it, so observe all Applications once more.
            Some(Ok(_))
                if saw_running_rollout && self.own_rollout().is_some_and(|last| last.is_finished()) =>
            {
                self.trigger = self.trigger.max(ReconcileTrigger::Status);
            }
            Some(Ok(request)) => {
                self.unresolved_since = None;
                self.update_rollout(request).await;
            }
            Some(Err(not)) => self.handle_request_error(&not),
            None if self.generated.is_some() && !needs_another_pass => self.end_unwanted_rollout().await,
            None => {}
        }
        if !self.awaited.is_empty() {
            self.next_pass_by.get_or_insert(now + COMPARED_AGAIN_AFTER);
        }
        // This pass carried out the retry, unless it couldn't determine the targets.
        if self.is_complete() && !needs_another_pass && !is_unresolved && self.recall_at.is_none() {
            self.remove_retry().await;
        }
    }

    /// Returns true if all Applications were generated.
    fn is_complete(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.errors.is_empty())
    }

    /// Handles a failure to request a progressive sync. Undetermined targets are usually temporary, so they
    /// count as an error only if they persist.
    fn handle_request_error(&mut self, not: &RolloutRequestError) {
        let now = self.now();
        let since = *self.unresolved_since.get_or_insert(now);
        if matches!(not, RolloutRequestError::Unresolved(_)) && now < since + RESOLUTION_TIMEOUT {
            self.next_pass_by = Some(since + RESOLUTION_TIMEOUT);
            return;
        }
        let other = not.failure();
        match &mut self.failure {
            Some(failure) => failure.message = format!("{}; {}", failure.message, other.message),
            None => self.failure = Some(other),
        }
    }

    /// Removes the refresh annotation once the refresh is complete.
    async fn end_refresh(&mut self) {
        if self.set.metadata.annotations.remove(REFRESH_ANNOTATION).is_none() {
            return;
        }
        if let Err(error) = self.shared.store.write_finalizer(&self.set).await {
            tracing::warn!(set = %self.key, %error, "failed to remove the {REFRESH_ANNOTATION} annotation");
        }
    }

    /// Schedules a message for `at`, unless one is already scheduled for an earlier time.
    fn set_alarm(&mut self, myself: &ActorRef<AppSetMessage>, at: Timestamp) {
        if self.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || AppSetMessage::Wake).abort_handle());
        self.alarm = Some((at, alarm));
    }
}
