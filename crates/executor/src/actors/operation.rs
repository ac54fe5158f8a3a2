//! The operation actor: a mailbox that runs one operation's state machine.
//!
//! The runner receives each message and executes the effects. The actor's own state is expendable: it may
//! stop at any time, and its successor continues from the log.

mod calls;
mod claim;
mod gate_subscriptions;
mod sync_effects;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tidegate_cluster::Backpressure;
use tidegate_lifecycle::operation::{
    Command, Driver, EventEmitter, Explanation, Input, OperationView, Progress, RETRYING, SyncOperation,
    explain, view,
};
use tidegate_lifecycle::{RunnerError, RunnerStatus};
use tidegate_model::{Digest, OperationId, StoredPlanRef, SyncRequest, Timestamp};
use tidegate_oplog::Shard;
use tokio::sync::oneshot;

use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::inbox::{Arrival, EffectMessage, Inbox};
use crate::log::{AppendFailure, LogActorFailed};
use crate::manifests::SubmittedManifests;
use crate::output::{RunningHook, RunningHooks};

use self::sync_effects::{Reply, SyncEffects};

/// Number of commands in flight above which results arrive in bursts. The actor then yields first, so that
/// one evaluation of the wave handles many of them.
const BURST_COMMANDS_MIN: usize = 64;
/// Number of commands in flight above which an evaluation is so expensive that the actor waits for a burst.
/// The wait keeps the total cost of wide waves linear even if results trickle in.
const WIDE_BURST_COMMANDS_MIN: usize = 512;
/// Maximum time to wait for a burst to accumulate.
const BURST_WAIT_MAX: Duration = Duration::from_millis(1);

/// Message to an operation actor.
pub(crate) enum OperationMessage {
    /// The inbox has new entries.
    InboxReady,
    /// A user's request. The reply is sent once the request is durable.
    Request { input: Input, reply: RpcReplyPort<Result<(), EngineError>> },
    /// Return the operation's status.
    Inspect { reply: RpcReplyPort<Result<Inspection, EngineError>> },
    /// Return the running hooks.
    RunningHooks { reply: RpcReplyPort<Result<RunningHooks, EngineError>> },
    /// The watches were lost. Subscribe again.
    Resubscribe,
    /// The time limit for stopping hooks has expired.
    StopDeadlineExpired,
    /// An input for the operation.
    Input(Input),
    /// Stop once the batch in flight is recorded.
    Shutdown,
}

/// Maximum time to stop an operation's hooks after a user asks the operation to end. The operation then
/// finishes within five seconds, even if a hook or a call hangs.
const HOOK_STOP_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval at which the actor gives up on remaining hooks after [`HOOK_STOP_TIMEOUT`].
const HOOK_ABANDON_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time that a status query waits for the log.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Status of an operation.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The operation, as shown to users.
    pub view: OperationView,
    /// Explanation of the operation's current state.
    pub explanation: Explanation,
}

/// Initial state of an operation actor.
pub(crate) enum Start {
    /// A new operation without records. Its submitter provides the inputs for the first plan.
    New {
        request: Box<SyncRequest>,
        targets: Digest,
        /// Stored plan to execute.
        plan: Option<Box<StoredPlanRef>>,
        submitted: Option<Box<SubmittedManifests>>,
    },
    /// A recovered operation. `end_reason` is set if the operation must end immediately.
    Recovered { driver: Box<Driver>, end_reason: Option<String> },
}

/// Unsolicited report from an operation.
pub(crate) enum Report {
    /// The operation has finished, and its actor waits to be stopped.
    Finished { operation: OperationId, end: Box<Inspection> },
    /// The log rejects all further records.
    LogFailed { reason: String },
}

/// Callback that sends an operation's reports to the supervisor.
pub(crate) type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// Startup arguments for an operation actor.
pub(crate) struct OperationArguments {
    pub shared: Arc<EngineContext>,
    pub report: Reporter,
    pub operation: OperationId,
    /// Shard that stores the operation.
    pub shard: Shard,
    /// True once this engine has held the operation's claim.
    pub claim_held: Arc<AtomicBool>,
    pub start: Start,
}

pub(crate) struct OperationActor;

type OperationRunner = tidegate_lifecycle::Runner<SyncOperation, SyncEffects>;

pub(crate) struct OperationState {
    shared: Arc<EngineContext>,
    report: Reporter,
    id: OperationId,
    inbox: Inbox,
    runner: OperationRunner,
    is_finished: bool,
    /// Time limit for stopping hooks. Starts over in each process.
    stop_deadline: StopDeadline,
}

/// State of the time limit for stopping hooks.
enum StopDeadline {
    /// No user has asked the operation to end.
    None,
    /// The time limit is running.
    Running,
    /// The time limit has expired at least once.
    Expired,
}

impl Actor for OperationActor {
    type Msg = OperationMessage;
    type State = OperationState;
    type Arguments = OperationArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<OperationMessage>,
        arguments: OperationArguments,
    ) -> Result<OperationState, ActorProcessingErr> {
        let OperationArguments { shared, report, operation: id, shard, claim_held, start } = arguments;
        let inbox = Inbox::new({
            let myself = myself.clone();
            move || drop(myself.send_message(OperationMessage::InboxReady))
        });
        let effects = |recovered, to_plan| {
            SyncEffects::new(
                Arc::clone(&shared),
                (id, shard),
                inbox.clone(),
                Arc::clone(&claim_held),
                recovered,
                to_plan,
            )
        };
        let (runner, first) = match start {
            Start::New { request, targets, plan, submitted } => {
                let begin = Input::Request { operation: id, request, targets, plan };
                (OperationRunner::new(effects(None, submitted)), Some(begin))
            }
            Start::Recovered { driver, end_reason } => {
                let emitter = EventEmitter::from_state(driver.state(), driver.sequence());
                let first = end_reason.map_or(Input::Resumed, |reason| Input::Abort { reason });
                let mut effects = effects(Some(emitter), None);
                effects.recover_places(driver.state());
                (OperationRunner::from_driver(*driver, effects), Some(first))
            }
        };
        inbox.push(first.map_or(Arrival::Alarm, Arrival::Input));
        Ok(OperationState {
            shared,
            report,
            id,
            inbox,
            runner,
            is_finished: false,
            stop_deadline: StopDeadline::None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<OperationMessage>,
        message: OperationMessage,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OperationMessage::InboxReady => {
                match state.runner.in_flight_count() {
                    WIDE_BURST_COMMANDS_MIN.. => tokio::time::sleep(BURST_WAIT_MAX).await,
                    BURST_COMMANDS_MIN.. => tokio::task::yield_now().await,
                    _ => {}
                }
                state.process_inbox().await?;
            }
            OperationMessage::Request { input, reply } => {
                let now = state.now();
                state.runner.process_request(&input, Reply::Request(reply), now)?;
            }
            OperationMessage::Inspect { reply } => {
                // Return the status only once it is durable, so that it survives a crash. But don't let a
                // hanging log block queries.
                let seen = state.inspect();
                let (sender, is_durable) = oneshot::channel();
                let now = state.now();
                state.runner.reply_when_durable(Reply::Inspection(sender), now);
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(STATUS_TIMEOUT, is_durable).await;
                    let _ = reply.send(seen);
                });
            }
            OperationMessage::RunningHooks { reply } => drop(reply.send(state.running_hooks())),
            OperationMessage::Resubscribe => state.restart_watches()?,
            OperationMessage::StopDeadlineExpired => {
                state.stop_deadline = StopDeadline::Expired;
                let now = state.now();
                state.runner.process(Arrival::Input(Input::StopTimeout), now)?;
            }
            OperationMessage::Input(input) => {
                let now = state.now();
                state.runner.process(Arrival::Input(input), now)?;
            }
            OperationMessage::Shutdown => state.runner.stop(),
        }
        match state.run_step()? {
            RunnerStatus::Running => state.enforce_stop_deadline(&myself),
            RunnerStatus::Stopped => myself.stop(None),
            RunnerStatus::Finished => state.report_finished(),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<OperationMessage>,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        state.drop_subscriptions();
        Ok(())
    }
}

impl OperationState {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn process_inbox(&mut self) -> Result<(), ActorProcessingErr> {
        self.record_health_rules()?;
        for mut arrival in self.inbox.take_all() {
            match &mut arrival {
                Arrival::Input(input) | Arrival::Answer { input, .. } => {
                    let targets = self.runner.state().header().map(|header| header.targets);
                    self.runner.effects_mut().mask_input(targets, input).await;
                }
                Arrival::Message(EffectMessage::WriteFailed(failure)) => {
                    return Err(self.write_error(failure));
                }
                _ => {}
            }
            let now = self.now();
            self.runner.process(arrival, now)?;
        }
        Ok(())
    }

    /// Returns the error that stops this actor. If the log still accepts records, its successor continues
    /// from there.
    fn write_error(&self, failure: &AppendFailure) -> ActorProcessingErr {
        match failure {
            AppendFailure::Final(reason) => {
                let reason = reason.clone();
                (self.report)(Report::LogFailed { reason: reason.clone() });
                reason.into()
            }
            AppendFailure::Rejected(reason) => reason.clone().into(),
            AppendFailure::Lost => LogActorFailed.into(),
        }
    }

    /// Records the current health rules. Must be called before the operation uses or reports their results.
    fn record_health_rules(&mut self) -> Result<(), ActorProcessingErr> {
        let digest = self.shared.health.digest();
        if self.runner.state().needs_health_rules(digest) {
            let now = self.now();
            self.runner.process(Arrival::Input(Input::HealthRules { digest }), now)?;
        }
        Ok(())
    }

    /// Enforces the time limit for stopping hooks after a user asks the operation to end.
    fn enforce_stop_deadline(&mut self, myself: &ActorRef<OperationMessage>) {
        if !self.runner.state().should_end_immediately() {
            return;
        }
        let within = match self.stop_deadline {
            StopDeadline::None => HOOK_STOP_TIMEOUT,
            StopDeadline::Running => return,
            StopDeadline::Expired => HOOK_ABANDON_INTERVAL,
        };
        self.stop_deadline = StopDeadline::Running;
        myself.send_after(within, || OperationMessage::StopDeadlineExpired);
    }

    fn run_step(&mut self) -> Result<RunnerStatus, ActorProcessingErr> {
        self.record_health_rules()?;
        let now = self.now();
        self.runner.step(now).map_err(|error| match error {
            RunnerError::Driver(error) => error.into(),
            RunnerError::Append(failure) => failure,
        })
    }

    /// Treats all watches as closed, so that the outstanding subscriptions start over.
    fn restart_watches(&mut self) -> Result<(), ActorProcessingErr> {
        let now = self.now();
        // The claim keeper doesn't depend on the watches, so leave a running keeper alone. If none was
        // started because the cluster was unknown, start it now.
        let is_kept = self.runner.effects().keeper.is_some();
        let watched =
            self.runner.subscriptions().filter(|command| !(is_kept && matches!(command, Command::Claim)));
        for subject in watched.map(Command::subject).collect::<Vec<_>>() {
            self.runner.process(Arrival::SubscriptionEnded(subject), now)?;
        }
        self.runner.process(Arrival::Input(Input::WatchStatus { trouble: None, since: now }), now)?;
        Ok(())
    }

    fn inspect(&self) -> Result<Inspection, EngineError> {
        let (state, now) = (self.runner.state(), self.now());
        let mut explanation = explain(state, now);
        let backpressure = self.backpressure().filter(|backpressure| {
            // A recorded outage takes precedence over an unresponsive server. A delay requested by the server
            // is always shown.
            matches!(backpressure, Backpressure::RateLimited { .. }) || explanation.trouble.is_none()
        });
        if let Some(backpressure) = backpressure.filter(|_| !state.is_finished()) {
            explanation.add_outage(format!("{}{RETRYING}", backpressure.describe(now)));
        }
        let view = view(state).ok_or(EngineError::UnknownOperation { operation: self.id })?;
        Ok(Inspection { view, explanation })
    }

    /// Returns the running hooks as cluster objects. They are all in the same wave.
    fn running_hooks(&self) -> Result<RunningHooks, EngineError> {
        let state = self.runner.state();
        let header = state.header().ok_or(EngineError::UnknownOperation { operation: self.id })?;
        let current_wave =
            state.operation().and_then(|operation| Some((operation, operation.current_wave()?.0)));
        let tasks = current_wave.into_iter().flat_map(|(operation, wave)| operation.wave_tasks(wave));
        let hooks = tasks.filter(|(_, task, state)| task.is_hook() && state.progress == Progress::Running);
        // Hooks executed by a hook runner have no object in the cluster.
        let hooks = hooks.filter_map(|(_, task, state)| {
            let uid =
                state.applied.as_ref().map(|applied| applied.uid.clone()).filter(|uid| !uid.is_empty())?;
            let (gvk, namespace, name) = (task.gvk.clone(), task.namespace.clone(), task.name.clone());
            Some(RunningHook { gvk, namespace, name, uid })
        });
        let destination = header.request.destination.clone();
        Ok(RunningHooks { destination, targets: header.targets, hooks: hooks.collect() })
    }

    /// Returns the backpressure that delays calls to the operation's cluster.
    fn backpressure(&self) -> Option<Backpressure> {
        let destination = &self.runner.state().header()?.request.destination;
        self.shared.clusters.get(destination)?.connection().backpressure()
    }

    /// Reports once that the operation has finished, and leaves it to the supervisor to stop the actor. If
    /// the actor stopped itself, the supervisor would see the exit before the report.
    fn report_finished(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        if let Ok(end) = self.inspect() {
            (self.report)(Report::Finished { operation: self.id, end: Box::new(end) });
        }
    }

    fn drop_subscriptions(&mut self) {
        let (effects, state) = self.runner.effects_and_state();
        effects.drop_subscriptions(state);
    }
}

impl Drop for OperationState {
    fn drop(&mut self) {
        // `post_stop` isn't called after a panic, so drop the subscriptions here.
        self.drop_subscriptions();
    }
}
