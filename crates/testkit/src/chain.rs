//! A small but complete custom machine: a chain of operations, each starting after the success of the
//! previous one. The machine's outstanding command ensures that an operation with a recorded ID exists, and
//! reports when it finishes. `docs/internals/writing-a-machine.md` walks through this example.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::Engine;
use tidegate_lifecycle::{
    Arrival, Driver, Effects, IllegalEvent, Machine, MachineBatch, Outstanding, Runner, RunnerStatus,
};
use tidegate_model::{OperationId, OperationPhase, StreamKind, Timestamp};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::crash::{CrashPoints, ProcessCrash};
use crate::scenario::SyncSpec;

/// A chain of operations.
pub enum Chain {}

/// A recorded event of a chain.
#[derive(Clone, Debug, PartialEq)]
pub enum ChainEvent {
    /// The chain was created with these operation IDs.
    Created(Vec<OperationId>),
    /// The current operation has finished.
    Ended(OperationPhase),
    /// The chain has finished, successfully or not.
    Finished(bool),
}

/// Input for a chain.
pub enum Input {
    /// A request to create a chain.
    Begin(Vec<OperationId>),
    /// An operation has finished.
    Ended(OperationId, OperationPhase),
    /// The engine gave up on the chain.
    Abort(String),
}

/// State of a chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    children: Vec<OperationId>,
    ended: Vec<OperationPhase>,
    /// True if the chain has succeeded, false if it has failed, or `None` if it hasn't finished.
    pub outcome: Option<bool>,
}

/// Outstanding command of a chain: make sure that this operation exists, and report when it finishes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunOperation(pub OperationId);

/// An input that came too late or more than once.
#[derive(Debug, thiserror::Error)]
#[error("this input is no longer expected")]
pub struct LateInput;

impl State {
    /// Returns true if one of the chain's operations has failed.
    fn has_failed(&self) -> bool {
        self.ended.iter().any(|phase| phase.is_unsuccessful())
    }

    /// Returns the current operation.
    fn current(&self) -> Option<OperationId> {
        let goes_on = self.outcome.is_none() && !self.has_failed();
        self.children.get(self.ended.len()).copied().filter(|_| goes_on)
    }
}

impl Machine for Chain {
    const KIND: StreamKind = StreamKind::new(StreamKind::FIRST_FREE, "chain");

    type State = State;
    type Event = ChainEvent;
    type Input = Input;
    type Command = RunOperation;
    type Subject = OperationId;
    type ObservationKey = Infallible;
    type Rejection = LateInput;

    fn decide(state: &State, input: &Input, _: Timestamp) -> Result<Vec<ChainEvent>, LateInput> {
        match input {
            Input::Begin(children) if state.children.is_empty() => {
                Ok(vec![ChainEvent::Created(children.clone())])
            }
            Input::Ended(child, phase) if state.current() == Some(*child) => {
                Ok(vec![ChainEvent::Ended(*phase)])
            }
            Input::Abort(_) if state.outcome.is_none() => Ok(vec![ChainEvent::Finished(false)]),
            _ => Err(LateInput),
        }
    }

    fn advance(state: &State, _: Timestamp) -> Vec<ChainEvent> {
        let goes_on = state.children.is_empty() || state.outcome.is_some() || state.current().is_some();
        if goes_on { Vec::new() } else { vec![ChainEvent::Finished(!state.has_failed())] }
    }

    fn apply(mut state: State, event: &ChainEvent) -> Result<State, IllegalEvent> {
        match event {
            ChainEvent::Created(children) if state.children.is_empty() => state.children.clone_from(children),
            ChainEvent::Ended(phase) if state.current().is_some() => state.ended.push(*phase),
            ChainEvent::Finished(well) if state.outcome.is_none() => state.outcome = Some(*well),
            _ => return Err(IllegalEvent { state: format!("{state:?}"), event: format!("{event:?}") }),
        }
        Ok(state)
    }

    fn outstanding(state: &State, _: Timestamp) -> Outstanding<RunOperation> {
        Outstanding { commands: state.current().map(RunOperation).into_iter().collect(), wake_at: None }
    }

    fn subject(command: &RunOperation) -> OperationId {
        command.0
    }

    fn is_over(state: &State) -> bool {
        state.outcome.is_some()
    }

    fn abort_input(reason: String) -> Input {
        Input::Abort(reason)
    }

    fn is_late(_: &LateInput) -> bool {
        true
    }
}

/// Persisted events of one chain.
pub type StoredEvents = Arc<Mutex<Vec<ChainEvent>>>;

/// Effects that start operations with an engine.
struct ChainEffects {
    engine: Engine,
    syncs: Vec<(OperationId, SyncSpec)>,
    stored_events: StoredEvents,
    points: Arc<CrashPoints>,
    post: UnboundedSender<Result<Arrival<Chain, Infallible>, ProcessCrash>>,
}

impl Effects<Chain> for ChainEffects {
    type Message = Infallible;
    type Reply = ();
    type Summary = String;
    type AppendError = ProcessCrash;

    fn summary(state: &State) -> Option<String> {
        Some(format!("{} of {} operations ended", state.ended.len(), state.children.len()))
    }

    fn execute(&mut self, _: &State, RunOperation(child): RunOperation, _: Timestamp) {
        let Some((_, sync)) = self.syncs.iter().find(|(id, _)| *id == child).cloned() else { return };
        let (engine, post) = (self.engine.clone(), self.post.clone());
        let run = async move {
            engine.ensure(child, sync.request.clone(), sync.targets()).await?;
            engine.wait(child).await
        };
        tokio::spawn(async move {
            // An engine that shuts down never reports the end of the operation. The chain stops with it, and
            // the next engine continues it.
            let ended = run.await.map(|view| Input::Ended(child, view.phase)).map_err(|_| ProcessCrash);
            let _ = post.send(ended.map(|input| Arrival::Answer { subject: child, input }));
        });
    }

    fn append(&mut self, _: &State, batch: MachineBatch<Chain>, _: Timestamp) -> Result<(), ProcessCrash> {
        self.points.try_pass()?;
        self.stored_events.lock().unwrap().extend(batch.events);
        self.points.try_pass()?;
        let _ = self.post.send(Ok(Arrival::Persisted));
        Ok(())
    }

    fn set_alarm(&mut self, _: Option<Duration>) {}

    fn reply(&mut self, (): (), _: Result<(), LateInput>) {}
}

/// Runs a chain to its end, from the start or from an earlier process's events.
pub async fn run_chain(
    engine: Engine,
    syncs: Vec<(OperationId, SyncSpec)>,
    stored_events: StoredEvents,
    points: Arc<CrashPoints>,
) -> Result<State, ProcessCrash> {
    let now = Timestamp::from_millis(0);
    let known = stored_events.lock().unwrap().clone();
    let begin = Input::Begin(syncs.iter().map(|(id, _)| *id).collect());
    let driver = Driver::recover(None, known.clone()).unwrap();
    let (post, mut arrivals) = unbounded_channel();
    let mut runner = Runner::from_driver(driver, ChainEffects { engine, syncs, stored_events, points, post });
    if known.is_empty() {
        runner.process(Arrival::Input(begin), now).unwrap();
    }
    loop {
        if runner.step(now).map_err(|_| ProcessCrash)? == RunnerStatus::Finished {
            return Ok(runner.state().clone());
        }
        let arrival = arrivals.recv().await.ok_or(ProcessCrash)??;
        runner.process(arrival, now).unwrap();
    }
}
