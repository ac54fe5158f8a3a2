//! A rollout on an engine, on virtual time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, MachineError, Running, RuntimeClock};
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::rollout::{Input, Member, Outcome, Progress, Progressive, State, Wish};
use tidegate_oplog::{Log, MemoryLog};
use tidegate_testkit::process::START;

use super::fleet::{Fleet, Rolling};
use super::requests::{rollout, stream};

/// The only engine on a log.
pub async fn engine(log: &MemoryLog) -> Engine {
    engine_on(Arc::new(log.clone()), clock()).await
}

/// The clock that engines share of which one comes after the other.
pub fn clock() -> RuntimeClock {
    RuntimeClock::starting_at(START)
}

/// An engine on a log of any kind.
pub async fn engine_on(log: Log, clock: RuntimeClock) -> Engine {
    Engine::builder(log).clock(Arc::new(clock)).start().await.unwrap()
}

pub fn begin() -> Option<Input> {
    Some(Input::Begin(Box::new(rollout())))
}

/// Begins the rollout, or goes on with it.
pub async fn run(engine: &Engine, fleet: &Fleet) -> Result<Running<Progressive>, MachineError> {
    let hands = fleet.clone();
    engine.run_machine(stream(1), begin(), move || Rolling::of(&hands)).await
}

pub fn wish(wish: Wish) -> Input {
    Input::Wish { wish, by: "ann".into(), why: String::new() }
}

pub fn outcome(state: &State) -> Option<Outcome> {
    state.rollout().and_then(|rollout| rollout.outcome.clone())
}

/// Somebody has what fails tried again, until the rollout is over. A fault costs no more than asking again.
pub async fn retry(running: &Running<Progressive>) -> Result<(), MachineError> {
    loop {
        let state = running.state().await?;
        let Some(rollout) = state.rollout().filter(|rollout| rollout.outcome.is_none()) else {
            return Ok(());
        };
        let has_failed = |member: &Member| matches!(member.progress, Progress::Failed { .. });
        if let Some((name, _)) = rollout.members.iter().find(|(_, member)| has_failed(member)) {
            match running.wish(wish(Wish::Retry(Scope::Member(name.clone())))).await {
                Ok(()) | Err(MachineError::Restarted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
