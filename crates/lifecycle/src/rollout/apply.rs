//! Applies events to the state. An event that is illegal in a state results in an error, never in a panic.

mod member;

use std::collections::BTreeMap;

use tidegate_model::Timestamp;

use super::event::{Event, MemberRecord};
use super::request::{OnFailure, Step};
use super::state::{
    End, Failure, Member, NewTargets, Outcome, Progress, Rollout, Stage, State, StepState, WorkKind,
};
use crate::fleet::{Attribution, CallFailures};
use crate::machine::IllegalEvent;
use crate::operation::GateAnswer;

/// Requester of the pause after a failed step.
const ENGINE_NAME: &str = "tidegate";

/// Applies an event to a state.
pub fn apply(state: State, event: &Event) -> Result<State, IllegalEvent> {
    let illegal = |state: String| IllegalEvent { state, event: event_name(event) };
    match state {
        State::New => apply_created(event).ok_or_else(|| illegal(State::New.name())),
        State::Running(mut rollout) => {
            let stage = rollout.stage.name();
            if let Event::Finished { end, message, at } = event {
                return Ok(finish_rollout(rollout, *end, message, *at));
            }
            apply_running(&mut rollout, event).ok_or_else(|| illegal(stage))?;
            Ok(State::Running(rollout))
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// Returns the start of an event's text without its content, which may be large.
fn event_name(event: &Event) -> String {
    match event {
        Event::Moved { to, .. } => format!("Moved to {}", to.name()),
        Event::Created { .. } => "Created".to_owned(),
        Event::Added { member, .. } => format!("Joined {}", member.name),
        other => format!("{other:?}").chars().take(200).collect(),
    }
}

fn apply_created(event: &Event) -> Option<State> {
    let Event::Created { set, uid, targets, by, steps, members, options, at } = event else { return None };
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

fn new_member(listed: &MemberRecord, at: Timestamp) -> Member {
    let progress = listed.done_by.map_or(Progress::Waiting, |operation| Progress::Healthy { operation });
    Member {
        place: listed.place.clone(),
        target: listed.target.clone(),
        before: listed.before.clone(),
        work: WorkKind::Sync,
        progress,
        since: at,
        seen: None,
        calls: CallFailures::default(),
        pending_from: at,
        overdue: false,
        touched: false,
    }
}

fn finish_rollout(mut rollout: Box<Rollout>, end: End, message: &str, at: Timestamp) -> State {
    rollout.outcome = Some(Outcome { end, message: message.to_owned(), at });
    rollout.paused = None;
    rollout.since = at;
    State::Finished(rollout)
}

/// Applies an event to a running rollout. Returns `None` if the event is illegal in this state.
fn apply_running(rollout: &mut Rollout, event: &Event) -> Option<()> {
    match event {
        Event::Moved { to, at } => apply_moved(rollout, to, *at),
        Event::GateAnswered { gate, verdict, at } => {
            let Stage::Held { step } = rollout.stage else { return None };
            rollout.external_gates(step).any(|asked| asked == gate).then_some(())?;
            rollout.gates.retain(|answer| answer.gate != *gate);
            rollout.gates.push(GateAnswer { gate: gate.clone(), verdict: verdict.clone(), at: *at });
            Some(())
        }
        Event::Approved { step, said: attribution } => {
            rollout.needs_approval(*step).then_some(())?;
            rollout.step_mut(*step)?.approved = Some(attribution.clone());
            Some(())
        }
        Event::Added { member, at } => apply_joined(rollout, member, *at),
        Event::StepFailed { step, failure, at } => apply_step_failed(rollout, *step, failure, *at),
        Event::Paused(attribution) => {
            rollout.paused.is_none().then_some(())?;
            rollout.paused = Some(attribution.clone());
            Some(())
        }
        Event::Resumed(attribution) => apply_resumed(rollout, attribution.at),
        Event::TerminateRequested(attribution) => {
            rollout.terminated = Some(attribution.clone());
            rollout.paused = None;
            Some(())
        }
        Event::TargetsChanged { targets, at } => {
            let are_new = *targets != rollout.targets;
            rollout.new_targets = are_new.then_some(NewTargets { targets: *targets, at: *at });
            Some(())
        }
        Event::Created { .. } | Event::Finished { .. } => None,
        _ => member::apply_to_member(rollout, event),
    }
}

fn apply_moved(rollout: &mut Rollout, to: &Stage, at: Timestamp) -> Option<()> {
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

fn apply_joined(rollout: &mut Rollout, listed: &MemberRecord, at: Timestamp) -> Option<()> {
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

fn apply_step_failed(rollout: &mut Rollout, step: u32, failure: &Failure, at: Timestamp) -> Option<()> {
    (rollout.stage == Stage::Rolling { step }).then_some(())?;
    let state = rollout.step_mut(step)?;
    state.failed.is_none().then_some(())?;
    state.failed = Some(failure.clone());
    if state.step.on_failure == OnFailure::Pause {
        rollout.paused = Some(Attribution { by: ENGINE_NAME.to_owned(), why: failure.message.clone(), at });
    }
    Some(())
}

/// Ends a pause, and extends deadlines by its length. If the current step had failed, it gets its full time
/// again, and the failures so far no longer count.
fn apply_resumed(rollout: &mut Rollout, at: Timestamp) -> Option<()> {
    let paused = rollout.paused.take()?;
    let time = at.since(paused.at);
    for member in rollout.members.values_mut().filter(|member| member.is_pending()) {
        member.pending_from = member.pending_from + time;
    }
    let Stage::Rolling { step: current } = rollout.stage else { return Some(()) };
    let failures = rollout.failure_count(current);
    let step = rollout.step_mut(current)?;
    step.deadline_from = step.deadline_from + time;
    if step.failed.take().is_some() {
        step.deadline_from = at;
        step.forgiven = failures;
    }
    Some(())
}
