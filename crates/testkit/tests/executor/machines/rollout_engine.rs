//! A rollout in an engine, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, MachineError, RunningMachine, RuntimeClock};
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::rollout::{Input, Member, Outcome, Progress, ProgressiveSync, State, UserRequest};
use tidegate_oplog::{Log, MemoryLog};
use tidegate_testkit::process::START;

use super::fleet::{FakeRolloutEffects, Fleet};
use super::requests::{rollout, stream_id};

/// Starts an engine as the only user of a log.
pub async fn start_engine(log: &MemoryLog) -> Engine {
    start_engine_on(Arc::new(log.clone()), shared_clock()).await
}

/// Returns the shared clock of consecutive engines.
pub fn shared_clock() -> RuntimeClock {
    RuntimeClock::starting_at(START)
}

/// Starts an engine on any log.
pub async fn start_engine_on(log: Log, clock: RuntimeClock) -> Engine {
    Engine::builder(log).clock(Arc::new(clock)).start().await.unwrap()
}

pub fn start_input() -> Option<Input> {
    Some(Input::Begin(Box::new(rollout())))
}

/// Starts or resumes the rollout.
pub async fn start_rollout(
    engine: &Engine,
    fleet: &Fleet,
) -> Result<RunningMachine<ProgressiveSync>, MachineError> {
    let effects = fleet.clone();
    engine.run_machine(stream_id(1), start_input(), move || FakeRolloutEffects::for_fleet(&effects)).await
}

pub fn request_input(request: UserRequest) -> Input {
    Input::UserRequest { request, by: "ann".into(), reason: String::new() }
}

pub fn outcome(state: &State) -> Option<Outcome> {
    state.rollout().and_then(|rollout| rollout.outcome.clone())
}

/// Retries failures until the rollout has finished. After an internal error, repeating the request is enough.
pub async fn retry_failures(running: &RunningMachine<ProgressiveSync>) -> Result<(), MachineError> {
    loop {
        let state = running.state().await?;
        let Some(rollout) = state.rollout().filter(|rollout| rollout.outcome.is_none()) else {
            return Ok(());
        };
        let has_failed = |member: &Member| matches!(member.progress, Progress::Failed { .. });
        if let Some((name, _)) = rollout.members.iter().find(|(_, member)| has_failed(member)) {
            match running.request(request_input(UserRequest::Retry(Scope::Member(name.clone())))).await {
                Ok(()) | Err(MachineError::Restarted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
