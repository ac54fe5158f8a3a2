//! How a fact changes the state. Total: a pair that cannot be is an error that names both sides, never a panic.

mod member;

use std::collections::BTreeMap;

use tidegate_model::Timestamp;

use super::fact::{Fact, Listed};
use super::request::{OnFailure, Step};
use super::state::{
    End, Failure, Member, NewTargets, Outcome, Progress, Rollout, Stage, State, StepState, Work,
};
use crate::fleet::{Calls, Said};
use crate::machine::Illegal;
use crate::operation::GateAnswer;

/// Who holds a rollout of which a step has failed.
const ENGINE: &str = "tidegate";

/// The state after a fact.
pub fn evolve(state: State, fact: &Fact) -> Result<State, Illegal> {
    let illegal = |state: String| Illegal { state, fact: fact_name(fact) };
    match state {
        State::New => begun(fact).ok_or_else(|| illegal(State::New.name())),
        State::Running(mut rollout) => {
            let stage = rollout.stage.name();
            if let Fact::Finished { end, message, at } = fact {
                return Ok(finish(rollout, *end, message, *at));
            }
            running(&mut rollout, fact).ok_or_else(|| illegal(stage))?;
            Ok(State::Running(rollout))
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// The first words of a fact, without its content, which may be large.
fn fact_name(fact: &Fact) -> String {
    match fact {
        Fact::Moved { to, .. } => format!("Moved to {}", to.name()),
        Fact::Begun { .. } => "Begun".to_owned(),
        Fact::Joined { member, .. } => format!("Joined {}", member.name),
        other => format!("{other:?}").chars().take(200).collect(),
    }
}

fn begun(fact: &Fact) -> Option<State> {
    let Fact::Begun { set, uid, targets, by, steps, members, options, at } = fact else { return None };
    let mut listed = BTreeMap::new();
    for member in members {
        let is_new = listed.insert(member.name.clone(), new_member(member, *at)).is_none();
        is_new.then_some(())?;
    }
    let state = |step: &Step| StepState { step: step.clone(), ..StepState::default() };
    Some(State::Running(Box::new(Rollout {
        set: set.clone(),
        uid: uid.clone(),
        targets: *targets,
        by: by.clone(),
        options: *options,
        started_at: *at,
        steps: steps.iter().map(state).collect(),
        members: listed,
        stage: Stage::Begun,
        since: *at,
        gates: Vec::new(),
        paused: None,
        terminated: None,
        new_targets: None,
        outcome: None,
    })))
}

fn new_member(listed: &Listed, at: Timestamp) -> Member {
    let progress = listed.done_by.map_or(Progress::Waiting, |operation| Progress::Healthy { operation });
    Member {
        place: listed.place.clone(),
        target: listed.target.clone(),
        before: listed.before.clone(),
        work: Work::Sync,
        progress,
        since: at,
        seen: None,
        calls: Calls::default(),
        pending_from: at,
        overdue: false,
        touched: false,
    }
}

fn finish(mut rollout: Box<Rollout>, end: End, message: &str, at: Timestamp) -> State {
    rollout.outcome = Some(Outcome { end, message: message.to_owned(), at });
    rollout.paused = None;
    rollout.since = at;
    State::Finished(rollout)
}

/// `None`: the fact cannot be in this state.
fn running(rollout: &mut Rollout, fact: &Fact) -> Option<()> {
    match fact {
        Fact::Moved { to, at } => moved(rollout, to, *at),
        Fact::GateAnswered { gate, verdict, at } => {
            let Stage::Held { step } = rollout.stage else { return None };
            rollout.asked_gates(step).any(|asked| asked == gate).then_some(())?;
            rollout.gates.retain(|answer| answer.gate != *gate);
            rollout.gates.push(GateAnswer { gate: gate.clone(), verdict: verdict.clone(), at: *at });
            Some(())
        }
        Fact::Approved { step, said } => {
            rollout.lacks_approval(*step).then_some(())?;
            rollout.step_mut(*step)?.approved = Some(said.clone());
            Some(())
        }
        Fact::Joined { member, at } => joined(rollout, member, *at),
        Fact::StepFailed { step, failure, at } => step_failed(rollout, *step, failure, *at),
        Fact::Paused(said) => {
            rollout.paused.is_none().then_some(())?;
            rollout.paused = Some(said.clone());
            Some(())
        }
        Fact::Resumed(said) => resumed(rollout, said.at),
        Fact::TerminateRequested(said) => {
            rollout.terminated = Some(said.clone());
            rollout.paused = None;
            Some(())
        }
        Fact::NewTargets { targets, at } => {
            let are_new = *targets != rollout.targets;
            rollout.new_targets = are_new.then_some(NewTargets { targets: *targets, at: *at });
            Some(())
        }
        Fact::Begun { .. } | Fact::Finished { .. } => None,
        _ => member::changed(rollout, fact),
    }
}

fn moved(rollout: &mut Rollout, to: &Stage, at: Timestamp) -> Option<()> {
    if let Stage::Held { step } | Stage::Rolling { step } | Stage::RollingBack { step } = to {
        rollout.step(*step)?;
    }
    let is_arrow = match (&rollout.stage, to) {
        (Stage::Ending { .. }, _) | (_, Stage::Begun) => false,
        (_, Stage::Ending { .. }) => true,
        (Stage::Rolling { step }, Stage::RollingBack { step: back }) => step == back,
        (Stage::Begun, Stage::Held { .. }) => true,
        (Stage::Held { step }, Stage::Held { step: next }) => next > step,
        (Stage::Held { step }, Stage::Rolling { step: next }) => next <= step,
        (Stage::Rolling { step }, Stage::Held { step: next }) => next > step,
        _ => false,
    };
    is_arrow.then_some(())?;
    if let Stage::Rolling { step } = rollout.stage
        && matches!(
            to,
            Stage::Held { .. } | Stage::Rolling { .. } | Stage::Ending { end: End::Completed, .. }
        )
    {
        rollout.step_mut(step)?.passed_at = Some(at);
    }
    if let Stage::Rolling { step } = to {
        let step = rollout.step_mut(*step)?;
        step.opened_at.get_or_insert(at);
        step.deadline_from = at;
    }
    rollout.gates.clear();
    rollout.stage = to.clone();
    rollout.since = at;
    Some(())
}

fn joined(rollout: &mut Rollout, listed: &Listed, at: Timestamp) -> Option<()> {
    let known = rollout.members.get(&listed.name);
    known.is_none_or(|known| known.progress == Progress::Gone).then_some(())?;
    let has_passed = match (&rollout.stage, listed.place.step) {
        (Stage::Begun, _) | (_, None) => false,
        (Stage::Held { step: current } | Stage::Rolling { step: current }, Some(step)) => step < *current,
        (Stage::RollingBack { .. } | Stage::Ending { .. }, _) => true,
    };
    let mut member = new_member(listed, at);
    if has_passed && member.progress == Progress::Waiting {
        member.progress = Progress::Late;
    }
    rollout.members.insert(listed.name.clone(), member);
    Some(())
}

fn step_failed(rollout: &mut Rollout, step: u32, failure: &Failure, at: Timestamp) -> Option<()> {
    (rollout.stage == Stage::Rolling { step }).then_some(())?;
    let state = rollout.step_mut(step)?;
    state.failed.is_none().then_some(())?;
    state.failed = Some(failure.clone());
    if state.step.on_failure == OnFailure::Pause {
        rollout.paused = Some(Said { by: ENGINE.to_owned(), why: failure.message.clone(), at });
    }
    Some(())
}

/// While it was paused its clocks stood still. A step that had failed gets all of its time again, and what has failed of it
/// by now fails it no more.
fn resumed(rollout: &mut Rollout, at: Timestamp) -> Option<()> {
    let paused = rollout.paused.take()?;
    let time = at.since(paused.at);
    for member in rollout.members.values_mut().filter(|member| member.is_pending()) {
        member.pending_from = member.pending_from + time;
    }
    let Stage::Rolling { step: current } = rollout.stage else { return Some(()) };
    let failures = rollout.failures(current);
    let step = rollout.step_mut(current)?;
    step.deadline_from = step.deadline_from + time;
    if step.failed.take().is_some() {
        step.deadline_from = at;
        step.forgiven = failures;
    }
    Some(())
}
