//! A machine of its own, small and whole: a chain of operations, each begun when the one before has succeeded. It owes that
//! an operation with a recorded id exists, and learns how that one has ended. `docs/machines.md` explains it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::Engine;
use tidegate_lifecycle::{Arrival, BatchOf, Driver, Hands, Illegal, Machine, Owed, Shell, Turn};
use tidegate_model::{OperationId, OperationPhase, StreamKind, Timestamp};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::crash::{Died, Points};
use crate::scenario::Sync;

/// A chain of operations.
pub enum Chain {}

/// What is recorded of a chain.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// It exists, and this is what its operations will be called.
    Begun(Vec<OperationId>),
    /// The operation whose turn it was has ended.
    Ended(OperationPhase),
    /// The chain has ended; whether well.
    Finished(bool),
}

/// What reaches a chain.
pub enum Input {
    /// Somebody wants one.
    Begin(Vec<OperationId>),
    /// An operation has ended.
    Ended(OperationId, OperationPhase),
    /// The engine gives up.
    Abort(String),
}

/// How a chain stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    children: Vec<OperationId>,
    ended: Vec<OperationPhase>,
    /// Whether it ended well, once it has.
    pub outcome: Option<bool>,
}

/// What a chain is owed: that this operation exists, and word of its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run(pub OperationId);

/// A late or repeated input.
#[derive(Debug, thiserror::Error)]
#[error("nobody waits for that")]
pub struct Late;

impl State {
    /// Whether one of its operations ended badly.
    fn has_failed(&self) -> bool {
        self.ended.iter().any(|phase| phase.is_unsuccessful())
    }

    /// The operation whose turn it is.
    fn current(&self) -> Option<OperationId> {
        let goes_on = self.outcome.is_none() && !self.has_failed();
        self.children.get(self.ended.len()).copied().filter(|_| goes_on)
    }
}

impl Machine for Chain {
    const KIND: StreamKind = StreamKind::new(StreamKind::FIRST_FREE, "chain");

    type State = State;
    type Fact = Fact;
    type Input = Input;
    type Command = Run;
    type Subject = OperationId;
    type Sight = Infallible;
    type Rejection = Late;

    fn decide(state: &State, input: &Input, _: Timestamp) -> Result<Vec<Fact>, Late> {
        match input {
            Input::Begin(children) if state.children.is_empty() => Ok(vec![Fact::Begun(children.clone())]),
            Input::Ended(child, phase) if state.current() == Some(*child) => Ok(vec![Fact::Ended(*phase)]),
            Input::Abort(_) if state.outcome.is_none() => Ok(vec![Fact::Finished(false)]),
            _ => Err(Late),
        }
    }

    fn follow(state: &State, _: Timestamp) -> Vec<Fact> {
        let goes_on = state.children.is_empty() || state.outcome.is_some() || state.current().is_some();
        if goes_on { Vec::new() } else { vec![Fact::Finished(!state.has_failed())] }
    }

    fn evolve(mut state: State, fact: &Fact) -> Result<State, Illegal> {
        match fact {
            Fact::Begun(children) if state.children.is_empty() => state.children.clone_from(children),
            Fact::Ended(phase) if state.current().is_some() => state.ended.push(*phase),
            Fact::Finished(well) if state.outcome.is_none() => state.outcome = Some(*well),
            _ => return Err(Illegal { state: format!("{state:?}"), fact: format!("{fact:?}") }),
        }
        Ok(state)
    }

    fn pending(state: &State, _: Timestamp) -> Owed<Run> {
        Owed { commands: state.current().map(Run).into_iter().collect(), wake_at: None }
    }

    fn subject(command: &Run) -> OperationId {
        command.0
    }

    fn is_over(state: &State) -> bool {
        state.outcome.is_some()
    }

    fn abort(reason: String) -> Input {
        Input::Abort(reason)
    }

    fn is_late(_: &Late) -> bool {
        true
    }
}

/// What outlives the process: the facts of one chain.
pub type Kept = Arc<Mutex<Vec<Fact>>>;

/// Hands that begin operations with an engine.
struct ChainHands {
    engine: Engine,
    syncs: Vec<(OperationId, Sync)>,
    kept: Kept,
    points: Arc<Points>,
    post: UnboundedSender<Result<Arrival<Chain, Infallible>, Died>>,
}

impl Hands<Chain> for ChainHands {
    type Note = Infallible;
    type Reply = ();
    type Summary = String;
    type Failure = Died;

    fn summary(state: &State) -> Option<String> {
        Some(format!("{} of {} operations ended", state.ended.len(), state.children.len()))
    }

    fn carry_out(&mut self, _: &State, Run(child): Run, _: Timestamp) {
        let Some((_, sync)) = self.syncs.iter().find(|(id, _)| *id == child).cloned() else { return };
        let (engine, post) = (self.engine.clone(), self.post.clone());
        let run = async move {
            engine.ensure(child, sync.request.clone(), sync.targets()).await?;
            engine.wait(child).await
        };
        tokio::spawn(async move {
            // An engine that stops says nothing of the operation: the chain stops with it, and goes on with the next one.
            let ended = run.await.map(|view| Input::Ended(child, view.phase)).map_err(|_| Died);
            let _ = post.send(ended.map(|input| Arrival::Answer { about: child, input }));
        });
    }

    fn append(&mut self, _: &State, batch: BatchOf<Chain>, _: Timestamp) -> Result<(), Died> {
        self.points.survive()?;
        self.kept.lock().unwrap().extend(batch.facts);
        self.points.survive()?;
        let _ = self.post.send(Ok(Arrival::Persisted));
        Ok(())
    }

    fn set_alarm(&mut self, _: Option<Duration>) {}

    fn reply(&mut self, (): (), _: Result<(), Late>) {}
}

/// Drives a chain to its end, from the beginning or from what an earlier process has kept.
pub async fn drive(
    engine: Engine,
    syncs: Vec<(OperationId, Sync)>,
    kept: Kept,
    points: Arc<Points>,
) -> Result<State, Died> {
    let now = Timestamp::from_millis(0);
    let known = kept.lock().unwrap().clone();
    let begin = Input::Begin(syncs.iter().map(|(id, _)| *id).collect());
    let driver = Driver::recover(None, known.clone()).unwrap();
    let (post, mut arrivals) = unbounded_channel();
    let mut shell = Shell::recovered(driver, ChainHands { engine, syncs, kept, points, post });
    if known.is_empty() {
        shell.take(Arrival::Input(begin), now).unwrap();
    }
    loop {
        if shell.turn(now).map_err(|_| Died)? == Turn::Over {
            return Ok(shell.state().clone());
        }
        let arrival = arrivals.recv().await.ok_or(Died)??;
        shell.take(arrival, now).unwrap();
    }
}
