//! The actor of one machine: its shell, in a mailbox.
//!
//! Nothing that matters lives only here: the actor may end at any instant, and another one goes on from the log.

use std::marker::PhantomData;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_lifecycle::{Arrival, Driver, DriverError, Machine, Shell, ShellError, Turn};
use tidegate_model::Timestamp;

use super::hands::MachineHands;
use super::line::Line;
use super::message::{MachineMessage, SupervisorMessage};
use super::post::Note;
use super::work::Work;
use crate::inbox::Inbox;
use crate::log::{AppendFailure, LogLost};
use crate::shared::Shared;

/// Makes the hands of each actor of a machine.
pub(super) type MakeWork<W> = Arc<dyn Fn() -> W + Send + Sync>;

/// How an actor begins.
pub(super) enum Start<M: Machine> {
    /// Nothing is recorded of the machine.
    New,
    /// As the log left it; with a reason to end it at once.
    Recovered { driver: Box<Driver<M>>, give_up: Option<String> },
}

pub(super) struct MachineActor<W>(PhantomData<fn() -> W>);

impl<W> MachineActor<W> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// What an actor needs.
pub(super) struct MachineArguments<W: Work> {
    pub shared: Arc<Shared>,
    pub line: Arc<Line<W::Machine>>,
    pub work: MakeWork<W>,
    pub start: Start<W::Machine>,
}

pub(super) struct MachineState<W: Work> {
    shared: Arc<Shared>,
    line: Arc<Line<W::Machine>>,
    inbox: Inbox<W::Machine, Note>,
    shell: Shell<W::Machine, MachineHands<W>>,
    /// How it stood in the log was shown. The actor before it may have failed before it did that.
    is_shown: bool,
    /// Its supervisor knows that it has come to its end.
    has_ended: bool,
}

impl<W: Work> Actor for MachineActor<W> {
    type Msg = MachineMessage<W::Machine>;
    type State = MachineState<W>;
    type Arguments = MachineArguments<W>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: MachineArguments<W>,
    ) -> Result<MachineState<W>, ActorProcessingErr> {
        let MachineArguments { shared, line, work, start } = arguments;
        let inbox = Inbox::new(move || drop(myself.send_message(MachineMessage::Arrived)));
        let hands = MachineHands::new(Arc::clone(&shared), Arc::clone(&line), inbox.clone(), work());
        let is_new = matches!(start, Start::New);
        let (shell, first) = match start {
            Start::New => (Shell::new(hands), None),
            Start::Recovered { driver, give_up } => {
                line.keep(driver.state().clone());
                let first = give_up.map(W::Machine::abort).or_else(W::resumed);
                // One that is told nothing takes a turn all the same.
                let first = first.map_or(Arrival::Alarm, Arrival::Input);
                (Shell::recovered(*driver, hands), Some(first))
            }
        };
        inbox.push_together(first);
        line.renew(&inbox);
        Ok(MachineState { shared, line, inbox, shell, is_shown: is_new, has_ended: false })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut MachineState<W>,
    ) -> Result<(), ActorProcessingErr> {
        let unshown = (!std::mem::replace(&mut state.is_shown, true)).then(|| state.shell.state().clone());
        match message {
            MachineMessage::Arrived => state.take_arrivals()?,
            MachineMessage::Wish { input, reply } => {
                let now = state.now();
                state.shell.wish(&input, reply, now)?;
            }
            MachineMessage::Stop => state.shell.stop(),
        }
        let now = state.now();
        let turn = state.shell.turn(now).map_err(|error| match error {
            ShellError::Driver(error) => error.into(),
            ShellError::Append(failure) => failure,
        })?;
        // Hands that fail at that keep nothing from being written.
        if let Some(durable) = unshown {
            state.shell.hands_mut().show(durable);
        }
        match turn {
            Turn::GoesOn => {}
            Turn::Stopped => state.end(SupervisorMessage::Stopped),
            Turn::Over => state.end(SupervisorMessage::Over),
        }
        Ok(())
    }
}

impl<W: Work> MachineState<W> {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn take_arrivals(&mut self) -> Result<(), ActorProcessingErr> {
        for arrival in self.inbox.take() {
            match &arrival {
                // Another actor goes on from the log, if the log takes anything.
                Arrival::Note(Note::NotWritten(failure)) => {
                    return Err(match failure {
                        AppendFailure::Final(reason) | AppendFailure::Refused(reason) => {
                            reason.clone().into()
                        }
                        AppendFailure::Lost => LogLost.into(),
                    });
                }
                Arrival::Note(Note::Panicked(words)) => return Err(words.clone().into()),
                _ => {}
            }
            let now = self.now();
            match self.shell.take(arrival, now) {
                Ok(()) => {}
                // Nobody waits for it.
                Err(DriverError::Rejected(rejection)) => {
                    tracing::warn!(machine = %self.line.name(), %rejection, "news was refused");
                }
                Err(DriverError::Illegal(illegal)) => return Err(illegal.into()),
            }
        }
        Ok(())
    }

    /// Says once that it has come to its end. Its supervisor then stops the actor.
    fn end(&mut self, how: SupervisorMessage<W::Machine>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.line.send(how);
        }
    }
}
