//! Actor for one ApplicationSet: manages its resource and its running machines.
//!
//! Pure states from the `applicationset` crate decide what is due: the schedule of passes, the schedule of the
//! status, the results of passes, and the rules for rollouts and deletions. The actor executes it.
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
mod passes;
mod publish_status;
mod rollout_control;
mod unordered_deletion;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_application::AppKey;
use tidegate_applicationset::pass_results::PassResults;
use tidegate_applicationset::reconcile_schedule::{
    AppSetPhase, PassId, ReconcileSchedule, ScheduleEffect, ScheduleInput,
};
use tidegate_applicationset::retry::RetryAnnotation;
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::status_schedule::StatusSchedule;
use tidegate_applicationset::triggers::{self, ReconcileTrigger};
use tidegate_executor::{Clock as _, EngineError, MachineError, RunningMachine, SystemClock};
use tidegate_lifecycle::Machine;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;
use tidegate_stores::appsets::StoredAppSet;
use tokio::task::{AbortHandle, JoinSet};

use self::delete::Teardowns;
use self::rollout_control::Rollouts;
use super::messages::{AppSetMessage, AppSetSupervisorMessage};
use super::shared::AppSetShared;
use super::{members, write_failure};

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

/// State of the actor: pure states that make the decisions, and the resources that their effects use.
pub struct ActorState {
    shared: Arc<AppSetShared>,
    /// Supervisor that forwards messages from machines, because they can outlive this actor.
    supervisor: ActorRef<AppSetSupervisorMessage>,
    key: AppKey,
    set: ApplicationSet,
    /// Reason the stored ApplicationSet can't be used.
    problem: Option<String>,
    /// This ApplicationSet's Applications as of their latest change events.
    members: BTreeMap<String, Arc<Application>>,
    schedule: ReconcileSchedule,
    results: PassResults,
    status: StatusSchedule,
    rollouts: Rollouts,
    teardowns: Teardowns,
    /// Request to retry a finished run. It stays in the resource until it is fulfilled.
    requested_retry: Option<RetryAnnotation>,
    tasks: ActorTasks,
}

/// Work in progress. Stopping the actor aborts it.
#[derive(Default)]
struct ActorTasks {
    pass: Option<(PassId, AbortHandle)>,
    alarm: Option<(Timestamp, Alarm)>,
    /// Passes and queries.
    running: JoinSet<()>,
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
        let mut state = ActorState {
            shared,
            supervisor,
            key,
            set,
            problem,
            members: BTreeMap::new(),
            schedule: ReconcileSchedule::default(),
            results: PassResults::default(),
            status: StatusSchedule::default(),
            rollouts: Rollouts::default(),
            teardowns: Teardowns::default(),
            requested_retry: None,
            tasks: ActorTasks::default(),
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
        let tasks = &mut state.tasks;
        while tasks.running.try_join_next().is_some() || tasks.events.try_join_next().is_some() {}
        match message {
            AppSetMessage::Changed(stored) => state.handle_change(*stored),
            AppSetMessage::MemberChanged(key) => state.handle_member_change(&key),
            AppSetMessage::PassEnded(pass, passed) => state.handle_pass(pass, *passed).await,
            AppSetMessage::RolloutChanged => state.handle_rollout_change().await,
            AppSetMessage::TeardownChanged => state.handle_teardown_change().await,
            AppSetMessage::InputsChanged => state.apply(ScheduleInput::InputsChanged),
            AppSetMessage::ForeignDeletions { uids, is_deleting } => {
                state.handle_foreign_deletions(&myself, uids, is_deleting)
            }
            AppSetMessage::Wake => state.tasks.alarm = None,
            AppSetMessage::Refresh { reply } => {
                state.apply(ScheduleInput::Refresh);
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
            self.apply(ScheduleInput::AppSetChanged);
            // The author of the change may be waiting to see the status.
            self.status.expedite();
        }
        // A recreated ApplicationSet of the same name inherits nothing.
        let is_same = appset.metadata.uid == self.set.metadata.uid;
        let status = if is_same { std::mem::take(&mut self.set.status) } else { appset.status.clone() };
        self.set = ApplicationSet { status, ..appset };
        self.problem = problem;
    }

    /// Records an input of the schedule, and aborts the running pass if the schedule has ended it.
    fn apply(&mut self, input: ScheduleInput) {
        self.schedule.apply(input, self.now());
        self.abort_ended_pass();
    }

    fn abort_ended_pass(&mut self) {
        let scheduled = self.schedule.running_pass().map(|pass| pass.id);
        if let Some((_, ended)) = self.tasks.pass.take_if(|(id, _)| Some(*id) != scheduled) {
            ended.abort();
        }
    }

    fn trigger(&mut self, trigger: ReconcileTrigger) {
        self.apply(ScheduleInput::Triggered(trigger));
    }

    /// Handles a change to an Application in this namespace, or its removal.
    fn handle_member_change(&mut self, key: &AppKey) {
        let now = self.shared.applications.application_cache.get(key);
        let before = match &now {
            Some(now) => self.members.insert(key.name.clone(), Arc::clone(now)),
            None => self.members.remove(&key.name),
        };
        if before.is_none() && now.is_none() && !self.results.refused.contains_key(&key.name) {
            // The Application belonged to another ApplicationSet and is gone.
            return;
        }
        self.trigger(triggers::trigger_of_application(before.as_deref(), now.as_deref()));
    }

    /// Performs all actions that are due.
    async fn step(&mut self, myself: &ActorRef<AppSetMessage>) {
        if self.schedule.is_recall_due(self.now()) {
            let is_complete = self.recall_machines().await;
            self.apply(ScheduleInput::Recalled { is_complete });
        }
        for effect in self.decide() {
            match effect {
                ScheduleEffect::StartPass(pass) => self.start_pass(myself, pass),
                ScheduleEffect::ProgressDeletion => self.progress_deletion(myself).await,
                ScheduleEffect::Wake(at) => self.set_alarm(myself, at),
            }
        }
        self.release_members(myself);
        self.warn_foreground_deletion();
        self.publish_status(myself).await;
    }

    fn decide(&mut self) -> Vec<ScheduleEffect> {
        let phase = AppSetPhase {
            is_deleting: self.is_deleting(),
            is_usable: self.problem.is_none(),
            has_output: self.results.generated.is_some(),
        };
        let effects = self.schedule.decide(phase, self.now());
        self.abort_ended_pass();
        effects
    }

    /// Schedules a lookup in case the log still has a machine that failed to start.
    fn recall_after_failed_start(&mut self, error: &StartError) {
        if matches!(error, StartError::Machine(_)) {
            self.apply(ScheduleInput::MachineLost);
        }
    }

    /// Looks up the machines in the log again. Returns true if all of them are known.
    async fn recall_machines(&mut self) -> bool {
        let recalled = match self.recall_rollout().await {
            Ok(()) => self.recall_teardown().await,
            failed => failed,
        };
        if let Err(error) = recalled {
            let message =
                format!("cannot read the records of the ApplicationSet's rollout and deletion: {error}");
            self.results.failure = Some(write_failure(ConditionReason::SyncApplicationError, &message));
            return false;
        }
        self.emit_rollout_milestones(false);
        self.emit_teardown_milestones(false);
        true
    }

    /// Schedules a message for `at`, unless one is already scheduled for an earlier time.
    fn set_alarm(&mut self, myself: &ActorRef<AppSetMessage>, at: Timestamp) {
        if self.tasks.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || AppSetMessage::Wake).abort_handle());
        self.tasks.alarm = Some((at, alarm));
    }
}
