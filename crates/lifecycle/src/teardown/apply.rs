//! Applies events to the state. An event that is illegal in a state results in an error, never in a panic.

use std::collections::BTreeMap;

use tidegate_model::Timestamp;

use super::event::{Event, MemberRecord};
use super::state::{End, Member, Outcome, Progress, Stage, State, StepState, Teardown};
use crate::fleet::CallFailures;
use crate::machine::IllegalEvent;

/// Applies an event to a state.
pub fn apply(state: State, event: &Event) -> Result<State, IllegalEvent> {
    let illegal = |state: String| IllegalEvent { state, event: event_name(event) };
    match state {
        State::New => apply_created(event).ok_or_else(|| illegal(State::New.name())),
        State::Running(mut teardown) => {
            let stage = teardown.stage_name();
            if let Event::Finished { end, message, at } = event {
                return Ok(finish_teardown(teardown, *end, message, *at));
            }
            apply_running(&mut teardown, event).ok_or_else(|| illegal(stage))?;
            Ok(State::Running(teardown))
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// Returns the start of an event's text without its content, which may be large.
fn event_name(event: &Event) -> String {
    match event {
        Event::Moved { to, .. } => format!("Moved to {to:?}"),
        Event::Created { .. } => "Created".to_owned(),
        other => format!("{other:?}").chars().take(200).collect(),
    }
}

fn apply_created(event: &Event) -> Option<State> {
    let Event::Created { set, uid, by, order, members, options, at } = event else { return None };
    let mut listed = BTreeMap::new();
    for member in members {
        let is_new = listed.insert(member.name.clone(), new_member(member, *at)).is_none();
        is_new.then_some(())?;
    }
    Some(State::Running(Box::new(Teardown {
        set: set.clone(),
        uid: uid.clone(),
        by: by.clone(),
        order: order.clone(),
        options: *options,
        started_at: *at,
        steps: vec![StepState::default(); usize::try_from(order.step_count()).ok()?],
        members: listed,
        stage: Stage::Begun,
        paused: None,
        terminated: None,
        outcome: None,
        approvals: Vec::new(),
    })))
}

fn new_member(listed: &MemberRecord, at: Timestamp) -> Member {
    Member {
        uid: listed.uid.clone(),
        place: listed.place.clone(),
        progress: Progress::Waiting,
        since: at,
        kept_by: String::new(),
        calls: CallFailures::default(),
    }
}

fn finish_teardown(mut teardown: Box<Teardown>, end: End, message: &str, at: Timestamp) -> State {
    teardown.outcome = Some(Outcome { end, message: message.to_owned(), at });
    teardown.paused = None;
    State::Finished(teardown)
}

/// Applies an event to a running teardown. Returns `None` if the event is illegal in this state.
fn apply_running(teardown: &mut Teardown, event: &Event) -> Option<()> {
    match event {
        Event::Moved { to, at } => apply_moved(teardown, *to, *at),
        Event::Joined { member, at } => apply_joined(teardown, member, *at),
        Event::DeadlinePassed { step, message, .. } => {
            (teardown.current_step() == Some(*step)).then_some(())?;
            let step = teardown.step_mut(*step)?;
            step.late.is_none().then_some(())?;
            step.late = Some(message.clone());
            Some(())
        }
        Event::Paused(attribution) => {
            teardown.paused.is_none().then_some(())?;
            teardown.paused = Some(attribution.clone());
            Some(())
        }
        Event::Resumed(attribution) => {
            let time = attribution.at.since(teardown.paused.take()?.at);
            if let Some(step) = teardown.current_step().and_then(|step| teardown.step_mut(step)) {
                step.deadline_from = step.deadline_from + time;
            }
            Some(())
        }
        Event::TerminateRequested(attribution) => {
            teardown.terminated = Some(attribution.clone());
            teardown.paused = None;
            Some(())
        }
        Event::Approved(approval) => {
            (!teardown.is_approved(&approval.token)).then_some(())?;
            teardown.approvals.push(approval.clone());
            Some(())
        }
        Event::Created { .. } | Event::Finished { .. } => None,
        _ => apply_to_member(teardown, event),
    }
}

/// Moves to a later step.
fn apply_moved(teardown: &mut Teardown, to: Stage, at: Timestamp) -> Option<()> {
    let Stage::Deleting { step: next } = to else { return None };
    let current = teardown.current_step();
    current.is_none_or(|current| next > current).then_some(())?;
    if let Some(passed) = current {
        teardown.step_mut(passed)?.passed_at = Some(at);
    }
    let step = teardown.step_mut(next)?;
    step.opened_at = Some(at);
    step.deadline_from = at;
    teardown.stage = to;
    Some(())
}

/// Adds an Application. If the Application's step has already passed, it is deleted in the current step.
fn apply_joined(teardown: &mut Teardown, listed: &MemberRecord, at: Timestamp) -> Option<()> {
    let known = teardown.members.get(&listed.name);
    known.is_none_or(|known| known.progress.is_settled()).then_some(())?;
    let mut member = new_member(listed, at);
    member.place.step = member.place.step.max(teardown.current_step());
    teardown.members.insert(listed.name.clone(), member);
    Some(())
}

fn apply_to_member(teardown: &mut Teardown, event: &Event) -> Option<()> {
    let (current, is_witnessed) = (teardown.current_step(), teardown.order.is_witnessed());
    let member = teardown.members.get_mut(event.member()?)?;
    let is_turn = member.place.step <= current;
    match (event, &member.progress) {
        (_, Progress::Waiting | Progress::Going) if is_witnessed && is_turn => {
            return apply_witnessed(member, event);
        }
        (_, _) if is_witnessed => return None,
        (Event::DeletionScheduled { at, .. }, Progress::Waiting) if is_turn => {
            member.set_progress(Progress::Condemned, *at)
        }
        (Event::DeletionStarted { at, .. }, Progress::Condemned) => member.set_progress(Progress::Going, *at),
        (Event::DeletionBlocked { kept_by, .. }, Progress::Going) => member.kept_by.clone_from(kept_by),
        (Event::AbsenceObserved { at, .. }, Progress::Condemned | Progress::Going) => {
            member.set_progress(Progress::Confirming { deleted: true }, *at);
        }
        (Event::AbsenceObserved { at, .. }, Progress::Waiting) if is_turn => {
            member.set_progress(Progress::Confirming { deleted: false }, *at);
        }
        (Event::PresenceConfirmed { at, .. }, Progress::Confirming { deleted }) => {
            let back = if *deleted { Progress::Condemned } else { Progress::Waiting };
            member.set_progress(back, *at);
        }
        (Event::Deleted { at, .. }, Progress::Condemned | Progress::Confirming { .. }) => {
            member.set_progress(Progress::Gone, *at);
        }
        (Event::CallFailed { message, retry_at, .. }, Progress::Condemned | Progress::Confirming { .. }) => {
            member.calls.record_failure(message, *retry_at);
        }
        (Event::Skipped { said: attribution, .. }, progress) if !progress.is_settled() => {
            member.set_progress(Progress::Left(attribution.clone()), attribution.at);
        }
        _ => return None,
    }
    Some(())
}

/// Applies an event about an Application that other clients delete or release.
fn apply_witnessed(member: &mut Member, event: &Event) -> Option<()> {
    match (event, &member.progress) {
        (Event::DeletionStarted { at, .. }, Progress::Waiting) => member.set_progress(Progress::Going, *at),
        (Event::DeletionBlocked { kept_by, .. }, Progress::Going) => member.kept_by.clone_from(kept_by),
        (Event::Deleted { at, .. }, _) => member.set_progress(Progress::Gone, *at),
        (Event::Released { at, .. }, _) => member.set_progress(Progress::Released, *at),
        _ => return None,
    }
    Some(())
}

impl Member {
    fn set_progress(&mut self, progress: Progress, at: Timestamp) {
        // The wait is measured from the start of the deletion, even if the Application is read several times.
        if !(self.progress.is_in_flight() && progress.is_in_flight()) {
            self.since = at;
        }
        self.progress = progress;
        self.calls = CallFailures::default();
    }
}
