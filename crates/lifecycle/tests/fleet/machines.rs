//! Steps and decisions of any machine.

use tidegate_lifecycle::{Machine, Outbox, Runner, RunnerStatus};

use crate::build::at;

/// Makes one step, and adds a new state to the transcript.
pub fn run_step<M: Machine>(
    runner: &mut Runner<M, Outbox<M>>,
    now: i64,
    name: fn(&M::State) -> String,
    transcript: &mut Vec<String>,
) -> RunnerStatus {
    let before = name(runner.state());
    let status = runner.step(at(now)).expect("the machine's own events fit");
    let after = name(runner.state());
    if after != before {
        transcript.push(format!("{now} {after}"));
    }
    status
}

/// Returns the decision about an input, after checking that its events are legal.
pub fn decide_legally<M: Machine>(
    state: &M::State,
    input: &M::Input,
    what: &str,
) -> Result<Vec<M::Event>, M::Rejection> {
    let events = M::decide(state, input, at(10_000))?;
    let mut next = state.clone();
    for event in &events {
        next = M::apply(next, event).unwrap_or_else(|illegal| panic!("{what}: {illegal}"));
    }
    Ok(events)
}
