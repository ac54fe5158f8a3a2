//! The actor for one machine: a mailbox around the machine's runner.
//!
//! The actor's own state is expendable: it may stop at any time, and its successor continues from the log.

use std::marker::PhantomData;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_lifecycle::{Arrival, Driver, DriverError, Machine, Runner, RunnerError, RunnerStatus};
use tidegate_model::Timestamp;

use super::engine_effects::EngineEffects;
use super::machine_effects::MachineEffects;
use super::machine_handle::MachineHandle;
use super::machine_sender::ActorMessage;
use super::message::{MachineMessage, SupervisorMessage};
use crate::engine_context::EngineContext;
use crate::inbox::Inbox;
use crate::log::{AppendFailure, LogActorFailed};

/// Callback that creates the effects for each actor of a machine.
pub(super) type EffectsFactory<W> = Arc<dyn Fn() -> W + Send + Sync>;

/// Initial state of an actor.
pub(super) enum Start<M: Machine> {
    /// A new machine without records.
    New,
    /// A recovered machine. `end_reason` is set if the machine must end immediately.
    Recovered { driver: Box<Driver<M>>, end_reason: Option<String> },
}

pub(super) struct MachineActor<W>(PhantomData<fn() -> W>);

impl<W> MachineActor<W> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Startup arguments for an actor.
pub(super) struct MachineArguments<W: MachineEffects> {
    pub shared: Arc<EngineContext>,
    pub handle: Arc<MachineHandle<W::Machine>>,
    pub make_effects: EffectsFactory<W>,
    pub start: Start<W::Machine>,
}

pub(super) struct MachineState<W: MachineEffects> {
    shared: Arc<EngineContext>,
    handle: Arc<MachineHandle<W::Machine>>,
    inbox: Inbox<W::Machine, ActorMessage>,
    runner: Runner<W::Machine, EngineEffects<W>>,
    /// True once the recovered state is published. Each new actor publishes it again, because its predecessor
    /// may have failed before that.
    is_published: bool,
    /// True once the machine's end is reported to the supervisor.
    has_ended: bool,
}

impl<W: MachineEffects> Actor for MachineActor<W> {
    type Msg = MachineMessage<W::Machine>;
    type State = MachineState<W>;
    type Arguments = MachineArguments<W>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: MachineArguments<W>,
    ) -> Result<MachineState<W>, ActorProcessingErr> {
        let MachineArguments { shared, handle, make_effects, start } = arguments;
        let inbox = Inbox::new(move || drop(myself.send_message(MachineMessage::InboxReady)));
        let effects =
            EngineEffects::new(Arc::clone(&shared), Arc::clone(&handle), inbox.clone(), make_effects());
        let is_new = matches!(start, Start::New);
        let (runner, first) = match start {
            Start::New => (Runner::new(effects), None),
            Start::Recovered { driver, end_reason } => {
                handle.set_durable_state(driver.state().clone());
                let first = end_reason.map(W::Machine::abort_input).or_else(W::resume_input);
                // Without a start input, process the alarm, so that the machine takes its first step.
                let first = first.map_or(Arrival::Alarm, Arrival::Input);
                (Runner::from_driver(*driver, effects), Some(first))
            }
        };
        inbox.push_all(first);
        handle.replace_inbox(&inbox);
        Ok(MachineState { shared, handle, inbox, runner, is_published: is_new, has_ended: false })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut MachineState<W>,
    ) -> Result<(), ActorProcessingErr> {
        let unshown =
            (!std::mem::replace(&mut state.is_published, true)).then(|| state.runner.state().clone());
        match message {
            MachineMessage::InboxReady => state.process_inbox()?,
            MachineMessage::Request { input, reply } => {
                let now = state.now();
                state.runner.process_request(&input, reply, now)?;
            }
            MachineMessage::Stop => state.runner.stop(),
        }
        let now = state.now();
        let status = state.runner.step(now).map_err(|error| match error {
            RunnerError::Driver(error) => error.into(),
            RunnerError::Append(failure) => failure,
        })?;
        // Publish only after the step, so that panicking effects don't prevent writes.
        if let Some(durable) = unshown {
            state.runner.effects_mut().publish(durable);
        }
        match status {
            RunnerStatus::Running => {}
            RunnerStatus::Stopped => state.report_end(SupervisorMessage::Stopped),
            RunnerStatus::Finished => state.report_end(SupervisorMessage::Over),
        }
        Ok(())
    }
}

impl<W: MachineEffects> MachineState<W> {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn process_inbox(&mut self) -> Result<(), ActorProcessingErr> {
        for arrival in self.inbox.take_all() {
            match &arrival {
                // The next actor continues from the log, if it still accepts records.
                Arrival::Message(ActorMessage::WriteFailed(failure)) => {
                    return Err(match failure {
                        AppendFailure::Final(reason) | AppendFailure::Rejected(reason) => {
                            reason.clone().into()
                        }
                        AppendFailure::Lost => LogActorFailed.into(),
                    });
                }
                Arrival::Message(ActorMessage::Panicked(text)) => return Err(text.clone().into()),
                _ => {}
            }
            let now = self.now();
            match self.runner.process(arrival, now) {
                Ok(()) => {}
                // The sender isn't waiting for a reply, so just log the rejection.
                Err(DriverError::Rejected(rejection)) => {
                    tracing::warn!(machine = %self.handle.name(), %rejection, "a message was rejected");
                }
                Err(DriverError::IllegalEvent(illegal)) => return Err(illegal.into()),
            }
        }
        Ok(())
    }

    /// Reports the machine's end once. The supervisor then stops the actor.
    fn report_end(&mut self, how: SupervisorMessage<W::Machine>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.handle.send(how);
        }
    }
}
