//! The supervisor of one machine: it starts its actor, starts it again from the log when it fails, as often as
//! [`restarts`](crate::restarts) allows, and knows when it has come to its end. It is linked to the engine's supervisor, and
//! ends with it.

use std::error::Error;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_lifecycle::{Driver, Machine};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::{MachineActor, MachineArguments, MakeWork, Start};
use super::error::MachineError;
use super::line::{End, Stand};
use super::message::{Found, MachineMessage, SupervisorMessage};
use super::read::read;
use super::registry::{Place, STOP_WITHIN};
use super::work::Work;
use crate::log::LogLost;
use crate::restarts::{RESTARTS_MAX, Restarts, WINDOW};
use crate::shared::Shared;

pub(super) struct MachineSupervisor<W>(PhantomData<fn() -> W>);

impl<W> MachineSupervisor<W> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// What it needs.
pub(super) struct SupervisorArguments<W: Work> {
    pub shared: Arc<Shared>,
    pub place: Place<W::Machine>,
    pub work: MakeWork<W>,
    /// How the machine begins, where the log has nothing of it.
    pub begin: Option<<W::Machine as Machine>::Input>,
    /// Tells the engine that the log takes nothing any more.
    pub log_failed: Box<dyn Fn(String) + Send + Sync>,
}

pub(super) struct SupervisorState<W: Work> {
    arguments: SupervisorArguments<W>,
    child: Option<ActorRef<MachineMessage<W::Machine>>>,
    restarts: Restarts,
    /// It was to begin, and what that takes was handed over.
    begun: bool,
    /// Why its actor failed last, in its words.
    failure: String,
    stopping: bool,
}

type Message<W> = SupervisorMessage<<W as Work>::Machine>;

impl<W: Work> Actor for MachineSupervisor<W> {
    type Msg = Message<W>;
    type State = SupervisorState<W>;
    type Arguments = SupervisorArguments<W>;

    async fn pre_start(
        &self,
        myself: ActorRef<Message<W>>,
        arguments: SupervisorArguments<W>,
    ) -> Result<SupervisorState<W>, ActorProcessingErr> {
        arguments.place.line.supervised_by(myself.clone());
        let state = SupervisorState {
            arguments,
            child: None,
            restarts: Restarts::default(),
            begun: false,
            failure: String::new(),
            stopping: false,
        };
        state.read(&myself, Duration::ZERO, None);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message<W>>,
        message: Message<W>,
        state: &mut SupervisorState<W>,
    ) -> Result<(), ActorProcessingErr> {
        if state.arguments.place.line.has_ended() {
            return Ok(());
        }
        match message {
            SupervisorMessage::Read { give_up, result } => state.read_done(&myself, give_up, result).await,
            SupervisorMessage::Begun(Ok(())) => state.at_work(),
            SupervisorMessage::Begun(Err(error)) => state.finish(&myself, End::Failed(error)).await,
            SupervisorMessage::Over => state.finish(&myself, End::Over).await,
            SupervisorMessage::Stopped | SupervisorMessage::StopNow => {
                state.finish(&myself, End::Stopped).await;
            }
            SupervisorMessage::Stop => state.stop(&myself).await,
            SupervisorMessage::LogFailed(reason) => {
                state.finish(&myself, End::Failed(MachineError::LogFailed { reason })).await;
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
                state.failed(&myself, error.as_ref()).await;
            }
            SupervisionEvent::ActorTerminated(cell, ..) if is_child(cell.get_id()) => {
                state.finish(&myself, End::Stopped).await;
            }
            _ => {}
        }
        Ok(())
    }
}

impl<W: Work> SupervisorState<W> {
    /// Reads the machine from the log, after some time; with a reason to end it at once.
    fn read(&self, myself: &ActorRef<Message<W>>, wait: Duration, give_up: Option<String>) {
        let (shared, myself) = (Arc::clone(&self.arguments.shared), myself.clone());
        let id = self.arguments.place.line.id;
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let result = read(&shared, id).await;
            let _ = myself.send_message(SupervisorMessage::Read { give_up, result });
        });
    }

    async fn read_done(
        &mut self,
        myself: &ActorRef<Message<W>>,
        give_up: Option<String>,
        result: Result<Found<W::Machine>, MachineError>,
    ) {
        let machine = self.arguments.place.line.name();
        if self.arguments.shared.machines.is_closed() {
            return self.finish(myself, End::Failed(MachineError::ShuttingDown { machine })).await;
        }
        match result {
            Ok(Found::Open(driver)) => self.go_on(myself, driver, give_up).await,
            Ok(Found::Over(state)) => {
                self.over(*state);
                self.finish(myself, End::Over).await;
            }
            Ok(Found::Nothing) if self.begun => {
                let reason = format!("{}; nothing of it was in the log yet, begin it again", self.failure);
                self.finish(myself, End::Failed(MachineError::GivenUp { machine, reason })).await;
            }
            Ok(Found::Nothing) => match self.arguments.begin.take() {
                Some(begin) => self.begin(myself, begin).await,
                None => self.finish(myself, End::Failed(MachineError::Unknown { machine })).await,
            },
            Err(error) => self.finish(myself, End::Failed(error)).await,
        }
    }

    /// The log has its end. An actor that has failed since may not have said so.
    fn over(&self, state: <W::Machine as Machine>::State) {
        self.arguments.place.line.keep(state.clone());
        if self.failure.is_empty() {
            return;
        }
        let make = &self.arguments.work;
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| make().announce(&state)));
        if told.is_err() {
            let machine = self.arguments.place.line.name();
            tracing::error!(%machine, "its hands panicked when they were told that it is over");
        }
    }

    async fn go_on(
        &mut self,
        myself: &ActorRef<Message<W>>,
        driver: Box<Driver<W::Machine>>,
        give_up: Option<String>,
    ) {
        match self.start(myself, Start::Recovered { driver, give_up }).await {
            Ok(()) => self.at_work(),
            Err(error) => self.failed(myself, error.as_ref()).await,
        }
    }

    async fn begin(&mut self, myself: &ActorRef<Message<W>>, input: <W::Machine as Machine>::Input) {
        self.begun = true;
        if let Err(error) = self.start(myself, Start::New).await {
            return self.failed(myself, error.as_ref()).await;
        }
        let Some(child) = &self.child else { return };
        let (reply, answer) = oneshot::channel();
        let _ = child.send_message(MachineMessage::Wish { input, reply });
        let myself = myself.clone();
        tokio::spawn(async move {
            // One that fails before it answers is heard of otherwise.
            if let Ok(begun) = answer.await {
                let _ = myself.send_message(SupervisorMessage::Begun(begun));
            }
        });
    }

    async fn start(
        &mut self,
        myself: &ActorRef<Message<W>>,
        start: Start<W::Machine>,
    ) -> Result<(), ActorProcessingErr> {
        let arguments = MachineArguments {
            shared: Arc::clone(&self.arguments.shared),
            line: Arc::clone(&self.arguments.place.line),
            work: Arc::clone(&self.arguments.work),
            start,
        };
        let (child, _) =
            MachineActor::spawn_linked(None, MachineActor::new(), arguments, myself.get_cell()).await?;
        self.child = Some(child);
        Ok(())
    }

    /// What is recorded of it is durable, and its actor takes wishes.
    fn at_work(&self) {
        if let Some(child) = &self.child {
            self.arguments.place.line.set_stand(Stand::AtWork(child.clone()));
        }
    }

    async fn stop(&mut self, myself: &ActorRef<Message<W>>) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        let Some(child) = &self.child else {
            // The log has all there is.
            return self.finish(myself, End::Stopped).await;
        };
        let _ = child.send_message(MachineMessage::Stop);
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STOP_WITHIN).await;
            let _ = myself.send_message(SupervisorMessage::StopNow);
        });
    }

    /// The actor panicked or met an error. What it held beyond the log is gone; another one starts from the log.
    async fn failed(&mut self, myself: &ActorRef<Message<W>>, error: &(dyn Error + Send + Sync + 'static)) {
        self.child = None;
        self.failure = error.to_string();
        if let Some(reason) = self.arguments.shared.log_failure.get().cloned() {
            (self.arguments.log_failed)(reason.clone());
            return self.finish(myself, End::Failed(MachineError::LogFailed { reason })).await;
        }
        if self.stopping {
            return self.finish(myself, End::Stopped).await;
        }
        let line = &self.arguments.place.line;
        let machine = line.name();
        if !line.is_starting() {
            line.set_stand(Stand::Down);
        }
        if error.is::<LogLost>() {
            // Not its own fault, and the log's failures are counted.
            tracing::warn!(%machine, "goes on from the log: {error}");
            return self.read(myself, Duration::ZERO, None);
        }
        let (failures, wait) = (self.restarts.count(Instant::now()), self.restarts.wait());
        tracing::error!(%machine, failures, %error, "the actor of a machine failed");
        if failures > RESTARTS_MAX.saturating_add(1) {
            let reason = error.to_string();
            return self.finish(myself, End::Failed(MachineError::GivenUp { machine, reason })).await;
        }
        let give_up = (failures > RESTARTS_MAX).then(|| {
            let seconds = WINDOW.as_secs();
            format!(
                "the engine gave up after {RESTARTS_MAX} restarts of this {} within {seconds} s: {error}",
                W::Machine::KIND
            )
        });
        self.read(myself, wait, give_up);
    }

    async fn finish(&mut self, myself: &ActorRef<Message<W>>, end: End) {
        if let Some(child) = self.child.take() {
            // Its work is gone when somebody hears of the end.
            let _ = child.stop_and_wait(None, Some(STOP_WITHIN)).await;
        }
        let line = &self.arguments.place.line;
        let end = match end {
            // Nobody has it yet who could have wished for that: the engine goes down, and what was begun may not be durable.
            End::Stopped if line.is_starting() => {
                End::Failed(MachineError::ShuttingDown { machine: line.name() })
            }
            end => end,
        };
        self.arguments.place.end(end);
        myself.stop(None);
    }
}
