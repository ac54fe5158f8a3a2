//! Actor that manages one Application. It executes what the Application's machine decides.

mod effects;
mod requests;
mod restoration;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_application::AppKey;
use tidegate_application::machine::{
    ApplicationMachine, ChangedResource, ComparisonStart, Decision, FinishedComparison, Input, Phase,
    RefreshId, Settings,
};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::{OperationId, Requester, Timestamp};
use tidegate_stores::applications::StoredApplication;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinSet};

pub use self::requests::end_in_engine;

use self::effects::PendingWrite;
use super::comparison_cache::ComparisonCache;
use super::comparison_result::{ComparisonResult, RetainedPlan};
use super::messages::{AppMessage, Reply, SupervisorMessage};
use super::shared_state::SharedState;
use super::watches::WatchPosition;

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

/// The machine, and the resources that its effects use.
pub struct ActorState {
    shared: Arc<SharedState>,
    supervisor: ActorRef<SupervisorMessage>,
    machine: ApplicationMachine,
    /// Reusable results of the last comparison.
    comparison_cache: ComparisonCache,
    /// Plan of the last comparison, while the operation that follows is being prepared.
    retained_plan: Option<RetainedPlan>,
    /// Clients that wait for a comparison.
    refresh_replies: BTreeMap<RefreshId, Reply>,
    /// Receivers of the reports about child operations.
    child_reports: BTreeMap<OperationId, UnboundedSender<OperationReport>>,
    /// Write in progress.
    pending_write: Option<PendingWrite>,
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
        let StoredApplication { application, problem, lost_state } = *stored;
        let store = &shared.store;
        let settings = Settings {
            refresh_interval: shared.interval,
            controller_namespace: store.is_shared().then(|| store.project_namespace()),
        };
        let mut state = ActorState {
            machine: ApplicationMachine::new(application, problem, settings, is_own_state),
            shared,
            supervisor,
            comparison_cache: ComparisonCache::default(),
            retained_plan: None,
            refresh_replies: BTreeMap::new(),
            child_reports: BTreeMap::new(),
            pending_write: None,
            alarm: None,
            tasks: JoinSet::new(),
            operation_tasks: JoinSet::new(),
        };
        Box::pin(state.restore(lost_state, is_own_state, first_operation)).await;
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

    fn key(&self) -> &AppKey {
        self.machine.key()
    }

    async fn handle_message(&mut self, myself: &ActorRef<AppMessage>, message: AppMessage) {
        while self.tasks.try_join_next().is_some() {}
        while self.operation_tasks.try_join_next().is_some() {}
        let input = match message {
            AppMessage::Input(input) => input,
            AppMessage::Changed(stored) => {
                let StoredApplication { application, problem, .. } = *stored;
                Input::Changed(Box::new(ChangedResource { application, problem }))
            }
            AppMessage::StateOverwritten(termination) => {
                self.handle_overwrite(termination).await;
                Input::Step
            }
            AppMessage::Refresh { level, reply } => {
                let last = self.refresh_replies.keys().next_back().map_or(0, |RefreshId(last)| *last);
                let request = RefreshId(last.wrapping_add(1));
                self.refresh_replies.insert(request, reply);
                Input::Refresh { level, request }
            }
            AppMessage::Flush { reply } => {
                self.step(myself, Input::Step).await;
                return drop(reply.send(Ok(())));
            }
            AppMessage::ComparisonDone { result, start, began_at } => {
                Input::Compared(Box::new(self.take_comparison(*result, *start, began_at)))
            }
            AppMessage::Sync { request, plan, reply } => {
                let answer = self.request_operation(myself, *request, plan).await;
                drop(reply.send(answer));
                Input::Step
            }
            AppMessage::Approve { hash, approval, reply } => {
                let answer = self.approve(myself, hash, approval).await;
                // Run a step before replying, so that the caller doesn't see the approved plan still waiting.
                self.step(myself, Input::Step).await;
                return drop(reply.send(answer));
            }
            AppMessage::Rollback { id, prune, by, reason, reply } => {
                let by = Requester { name: &by, reason: &reason };
                let answer = match self.machine.rollback_request(id, prune, by) {
                    Ok(request) => self.request_operation(myself, request, None).await,
                    Err(refusal) => Err(refusal),
                };
                drop(reply.send(answer));
                Input::Step
            }
            AppMessage::Delete { options, by, reason, reply } => {
                let requester = Requester { name: &by, reason: &reason };
                drop(reply.send(self.request_deletion(options, requester).await));
                Input::Step
            }
            AppMessage::Terminate { operation, by, reply } => {
                drop(reply.send(self.terminate_operation(operation, &by).await));
                Input::Step
            }
            AppMessage::RunChild { operation, child } => {
                self.request_child(operation, *child).await;
                Input::Step
            }
            AppMessage::WithdrawChild { operation } => {
                self.withdraw_child(operation).await;
                Input::Step
            }
            AppMessage::StopChild { operation, by, reply } => {
                self.stop_child(myself, operation, by, reply).await;
                Input::Step
            }
        };
        if matches!(input, Input::Wake) {
            self.alarm = None;
        }
        self.step(myself, input).await;
    }

    /// Applies an input to the machine, and executes what it decides until the step is complete.
    async fn step(&mut self, myself: &ActorRef<AppMessage>, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Decision { effects, call } = self.machine.decide(input, self.shared.as_ref(), self.now());
            self.execute(myself, effects);
            if let Some(call) = call {
                next = Some(Input::Outcome(self.make(myself, call).await));
            }
        }
        self.child_reports.retain(|operation, _| self.machine.tracks_child(*operation));
        if self.machine.phase() != Phase::Preparing {
            self.retained_plan = None;
        }
    }

    /// Takes over the cached results of a comparison, and the objects that the watches report from now on.
    fn take_comparison(
        &mut self,
        result: ComparisonResult,
        start: ComparisonStart,
        began_at: Timestamp,
    ) -> FinishedComparison {
        let ComparisonResult {
            outcome,
            objects,
            read_since,
            cache,
            operation_relation,
            is_access_denied,
            plan,
        } = result;
        (self.comparison_cache, self.retained_plan) = (cache, plan);
        let has_objects = objects.is_some();
        if let Some(objects) = objects
            && let Ok(place) = self.shared.destinations.resolve(&self.machine.application().spec.destination)
        {
            let since = read_since.unwrap_or_else(|| WatchPosition::before_all(&place.destination));
            match self.shared.watches.set_objects(self.machine.key(), place, objects, &since) {
                Some(position) => self.comparison_cache.extend_to(position),
                // The cached result may be outdated, so the next comparison must read the objects again.
                None if self.shared.watches.is_outdated(self.machine.key()) => self.comparison_cache.clear(),
                None => {}
            }
        }
        FinishedComparison { start, began_at, outcome, operation_relation, is_access_denied, has_objects }
    }

    /// Schedules a wake-up at `at`, unless an earlier alarm is already set.
    fn set_alarm(&mut self, myself: &ActorRef<AppMessage>, at: Timestamp) {
        if self.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || AppMessage::Input(Input::Wake)).abort_handle());
        self.alarm = Some((at, alarm));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
