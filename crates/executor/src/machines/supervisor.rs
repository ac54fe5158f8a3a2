//! The supervisor of one machine. It starts the machine's actor, restarts it from the log after failures as
//! often as [`restarts`](crate::restarts) allows, and tracks when the machine ends. It is linked to the
//! engine's supervisor, and stops with it.

use std::error::Error;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_lifecycle::{Driver, Machine};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::{EffectsFactory, MachineActor, MachineArguments, Start};
use super::error::MachineError;
use super::machine_effects::MachineEffects;
use super::machine_handle::{EndReason, ExecutionStatus};
use super::message::{MachineMessage, StoredMachine, SupervisorMessage};
use super::read::read_machine;
use super::registry::{RegistryEntry, STOP_TIMEOUT};
use crate::engine_context::EngineContext;
use crate::log::LogActorFailed;
use crate::restarts::{RESTART_WINDOW, RESTARTS_MAX, Restarts};

pub(super) struct MachineSupervisor<W>(PhantomData<fn() -> W>);

impl<W> MachineSupervisor<W> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Startup arguments for a supervisor.
pub(super) struct SupervisorArguments<W: MachineEffects> {
    pub shared: Arc<EngineContext>,
    pub entry: RegistryEntry<W::Machine>,
    pub make_effects: EffectsFactory<W>,
    /// Input that starts the machine if it isn't in the log.
    pub start_input: Option<<W::Machine as Machine>::Input>,
    /// Callback for telling the engine that the log rejects all records.
    pub log_failed: Box<dyn Fn(String) + Send + Sync>,
}

pub(super) struct SupervisorState<W: MachineEffects> {
    arguments: SupervisorArguments<W>,
    child: Option<ActorRef<MachineMessage<W::Machine>>>,
    restarts: Restarts,
    /// True once the start input has been sent.
    has_started: bool,
    /// Last failure of the machine's actor.
    last_failure: String,
    is_stopping: bool,
}

type Message<W> = SupervisorMessage<<W as MachineEffects>::Machine>;

impl<W: MachineEffects> Actor for MachineSupervisor<W> {
    type Msg = Message<W>;
    type State = SupervisorState<W>;
    type Arguments = SupervisorArguments<W>;

    async fn pre_start(
        &self,
        myself: ActorRef<Message<W>>,
        arguments: SupervisorArguments<W>,
    ) -> Result<SupervisorState<W>, ActorProcessingErr> {
        arguments.entry.handle.set_supervisor(myself.clone());
        let state = SupervisorState {
            arguments,
            child: None,
            restarts: Restarts::default(),
            has_started: false,
            last_failure: String::new(),
            is_stopping: false,
        };
        state.read_from_log(&myself, Duration::ZERO, None);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message<W>>,
        message: Message<W>,
        state: &mut SupervisorState<W>,
    ) -> Result<(), ActorProcessingErr> {
        if state.arguments.entry.handle.has_ended() {
            return Ok(());
        }
        match message {
            SupervisorMessage::Read { end_reason, result } => {
                state.handle_read(&myself, end_reason, result).await
            }
            SupervisorMessage::Started(Ok(())) => state.mark_running(),
            SupervisorMessage::Started(Err(error)) => state.finish(&myself, EndReason::Failed(error)).await,
            SupervisorMessage::Over => state.finish(&myself, EndReason::Over).await,
            SupervisorMessage::Stopped | SupervisorMessage::StopNow => {
                state.finish(&myself, EndReason::Stopped).await;
            }
            SupervisorMessage::Stop => state.stop(&myself).await,
            SupervisorMessage::LogFailed(reason) => {
                state.finish(&myself, EndReason::Failed(MachineError::LogFailed { reason })).await;
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message<W>>,
        event: SupervisionEvent,
        state: &mut SupervisorState<W>,
    ) -> Result<(), ActorProcessingErr> {
        let is_child = |id| state.child.as_ref().is_some_and(|child| child.get_id() == id);
        match event {
            SupervisionEvent::ActorFailed(cell, error) if is_child(cell.get_id()) => {
                state.handle_failure(&myself, error.as_ref()).await;
            }
            SupervisionEvent::ActorTerminated(cell, ..) if is_child(cell.get_id()) => {
                state.finish(&myself, EndReason::Stopped).await;
            }
            _ => {}
        }
        Ok(())
    }
}

impl<W: MachineEffects> SupervisorState<W> {
    /// Reads the machine from the log after a delay. `end_reason` is set if the machine must end immediately.
    fn read_from_log(&self, myself: &ActorRef<Message<W>>, wait: Duration, end_reason: Option<String>) {
        let (shared, myself) = (Arc::clone(&self.arguments.shared), myself.clone());
        let id = self.arguments.entry.handle.id;
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let result = read_machine(&shared, id).await;
            let _ = myself.send_message(SupervisorMessage::Read { end_reason, result });
        });
    }

    async fn handle_read(
        &mut self,
        myself: &ActorRef<Message<W>>,
        give_up: Option<String>,
        result: Result<StoredMachine<W::Machine>, MachineError>,
    ) {
        let machine = self.arguments.entry.handle.name();
        if self.arguments.shared.machines.is_closed() {
            return self.finish(myself, EndReason::Failed(MachineError::ShuttingDown { machine })).await;
        }
        match result {
            Ok(StoredMachine::Open(driver)) => self.continue_machine(myself, driver, give_up).await,
            Ok(StoredMachine::Over(state)) => {
                self.handle_over(*state);
                self.finish(myself, EndReason::Over).await;
            }
            Ok(StoredMachine::Missing) if self.has_started => {
                let reason = format!(
                    "{}; the log has no record of the machine yet, so start it again",
                    self.last_failure
                );
                self.finish(myself, EndReason::Failed(MachineError::Aborted { machine, reason })).await;
            }
            Ok(StoredMachine::Missing) => match self.arguments.start_input.take() {
                Some(begin) => self.start_machine(myself, begin).await,
                None => {
                    self.finish(myself, EndReason::Failed(MachineError::UnknownMachine { machine })).await
                }
            },
            Err(error) => self.finish(myself, EndReason::Failed(error)).await,
        }
    }

    /// Handles a machine with an end recorded in the log. The actor may have failed before it reported the
    /// end.
    fn handle_over(&self, state: <W::Machine as Machine>::State) {
        self.arguments.entry.handle.set_durable_state(state.clone());
        if self.last_failure.is_empty() {
            return;
        }
        let make = &self.arguments.make_effects;
        let published = std::panic::catch_unwind(AssertUnwindSafe(|| make().publish_state(&state)));
        if published.is_err() {
            let machine = self.arguments.entry.handle.name();
            tracing::error!(%machine, "publishing the state of a finished machine panicked");
        }
    }

    async fn continue_machine(
        &mut self,
        myself: &ActorRef<Message<W>>,
        driver: Box<Driver<W::Machine>>,
        end_reason: Option<String>,
    ) {
        match self.start_actor(myself, Start::Recovered { driver, end_reason }).await {
            Ok(()) => self.mark_running(),
            Err(error) => self.handle_failure(myself, error.as_ref()).await,
        }
    }

    async fn start_machine(&mut self, myself: &ActorRef<Message<W>>, input: <W::Machine as Machine>::Input) {
        self.has_started = true;
        if let Err(error) = self.start_actor(myself, Start::New).await {
            return self.handle_failure(myself, error.as_ref()).await;
        }
        let Some(child) = &self.child else { return };
        let (reply, answer) = oneshot::channel();
        let _ = child.send_message(MachineMessage::Request { input, reply });
        let myself = myself.clone();
        tokio::spawn(async move {
            // If the actor fails before it responds, the supervisor handles the failure separately.
            if let Ok(started) = answer.await {
                let _ = myself.send_message(SupervisorMessage::Started(started));
            }
        });
    }

    async fn start_actor(
        &mut self,
        myself: &ActorRef<Message<W>>,
        start: Start<W::Machine>,
    ) -> Result<(), ActorProcessingErr> {
        let arguments = MachineArguments {
            shared: Arc::clone(&self.arguments.shared),
            handle: Arc::clone(&self.arguments.entry.handle),
            make_effects: Arc::clone(&self.arguments.make_effects),
            start,
        };
        let (child, _) =
            MachineActor::spawn_linked(None, MachineActor::new(), arguments, myself.get_cell()).await?;
        self.child = Some(child);
        Ok(())
    }

    /// Marks the machine as running: its records are durable and its actor accepts requests.
    fn mark_running(&self) {
        if let Some(child) = &self.child {
            self.arguments.entry.handle.set_status(ExecutionStatus::Running(child.clone()));
        }
    }

    async fn stop(&mut self, myself: &ActorRef<Message<W>>) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        let Some(child) = &self.child else {
            // No actor is running, so all events are already in the log.
            return self.finish(myself, EndReason::Stopped).await;
        };
        let _ = child.send_message(MachineMessage::Stop);
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STOP_TIMEOUT).await;
            let _ = myself.send_message(SupervisorMessage::StopNow);
        });
    }

    /// Handles a panic or error of the actor. Its in-memory state is lost, and another actor starts from the
    /// log.
    async fn handle_failure(
        &mut self,
        myself: &ActorRef<Message<W>>,
        error: &(dyn Error + Send + Sync + 'static),
    ) {
        self.child = None;
        self.last_failure = error.to_string();
        if let Some(reason) = self.arguments.shared.log_failure.get().cloned() {
            (self.arguments.log_failed)(reason.clone());
            return self.finish(myself, EndReason::Failed(MachineError::LogFailed { reason })).await;
        }
        if self.is_stopping {
            return self.finish(myself, EndReason::Stopped).await;
        }
        let handle = &self.arguments.entry.handle;
        let machine = handle.name();
        if !handle.is_starting() {
            handle.set_status(ExecutionStatus::Down);
        }
        if error.is::<LogActorFailed>() {
            // The log actor caused this failure, and its failures are counted separately.
            tracing::warn!(%machine, "the machine stopped unexpectedly ({error}); restarting it from the log");
            return self.read_from_log(myself, Duration::ZERO, None);
        }
        let (failures, wait) = (self.restarts.record_failure(Instant::now()), self.restarts.delay());
        tracing::error!(%machine, failures, %error, "the actor that runs a machine failed");
        if failures > RESTARTS_MAX.saturating_add(1) {
            let reason = error.to_string();
            return self.finish(myself, EndReason::Failed(MachineError::Aborted { machine, reason })).await;
        }
        let give_up = (failures > RESTARTS_MAX).then(|| {
            let seconds = RESTART_WINDOW.as_secs();
            format!(
                "the engine gave up after {RESTARTS_MAX} restarts of this {} within {seconds} s: {error}",
                W::Machine::KIND
            )
        });
        self.read_from_log(myself, wait, give_up);
    }

    async fn finish(&mut self, myself: &ActorRef<Message<W>>, end: EndReason) {
        if let Some(child) = self.child.take() {
            // Stop the machine's work before notifying callers of the end.
            let _ = child.stop_and_wait(None, Some(STOP_TIMEOUT)).await;
        }
        let handle = &self.arguments.entry.handle;
        let end = match end {
            // No caller has a handle that could have stopped the machine, so the engine is shutting down, and
            // the start may not be durable.
            EndReason::Stopped if handle.is_starting() => {
                EndReason::Failed(MachineError::ShuttingDown { machine: handle.name() })
            }
            end => end,
        };
        self.arguments.entry.end(end);
        myself.stop(None);
    }
}
