//! How a fact changes the state. Total: a pair that cannot be is an error that names both sides, never a panic.

use std::collections::BTreeMap;

use tidegate_model::Timestamp;

use super::fact::{Fact, Listed};
use super::state::{End, Member, Outcome, Progress, Stage, State, StepState, Teardown};
use crate::fleet::Calls;
use crate::machine::Illegal;

/// The state after a fact.
pub fn evolve(state: State, fact: &Fact) -> Result<State, Illegal> {
    let illegal = |state: String| Illegal { state, fact: fact_name(fact) };
    match state {
        State::New => begun(fact).ok_or_else(|| illegal(State::New.name())),
        State::Running(mut teardown) => {
            let stage = teardown.stage_name();
            if let Fact::Finished { end, message, at } = fact {
                return Ok(finish(teardown, *end, message, *at));
            }
            running(&mut teardown, fact).ok_or_else(|| illegal(stage))?;
            Ok(State::Running(teardown))
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// The first words of a fact, without its content, which may be large.
fn fact_name(fact: &Fact) -> String {
    match fact {
        Fact::Moved { to, .. } => format!("Moved to {to:?}"),
        Fact::Begun { .. } => "Begun".to_owned(),
        other => format!("{other:?}").chars().take(200).collect(),
    }
}

fn begun(fact: &Fact) -> Option<State> {
    let Fact::Begun { set, uid, by, order, members, options, at } = fact else { return None };
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

fn new_member(listed: &Listed, at: Timestamp) -> Member {
    Member {
        uid: listed.uid.clone(),
        place: listed.place.clone(),
        progress: Progress::Waiting,
        since: at,
        kept_by: String::new(),
        calls: Calls::default(),
    }
}

fn finish(mut teardown: Box<Teardown>, end: End, message: &str, at: Timestamp) -> State {
    teardown.outcome = Some(Outcome { end, message: message.to_owned(), at });
    teardown.paused = None;
    State::Finished(teardown)
}

/// `None`: the fact cannot be in this state.
fn running(teardown: &mut Teardown, fact: &Fact) -> Option<()> {
    match fact {
        Fact::Moved { to, at } => moved(teardown, *to, *at),
        Fact::Joined { member, at } => joined(teardown, member, *at),
        Fact::DeadlinePassed { step, message, .. } => {
            (teardown.current_step() == Some(*step)).then_some(())?;
            let step = teardown.step_mut(*step)?;
            step.late.is_none().then_some(())?;
            step.late = Some(message.clone());
            Some(())
        }
        Fact::Paused(said) => {
            teardown.paused.is_none().then_some(())?;
            teardown.paused = Some(said.clone());
            Some(())
        }
        Fact::Resumed(said) => {
            let time = said.at.since(teardown.paused.take()?.at);
            if let Some(step) = teardown.current_step().and_then(|step| teardown.step_mut(step)) {
                step.deadline_from = step.deadline_from + time;
            }
            Some(())
        }
        Fact::TerminateRequested(said) => {
            teardown.terminated = Some(said.clone());
            teardown.paused = None;
            Some(())
        }
        Fact::Approved(approval) => {
            (!teardown.is_approved(&approval.token)).then_some(())?;
            teardown.approvals.push(approval.clone());
            Some(())
        }
        Fact::Begun { .. } | Fact::Finished { .. } => None,
        _ => member(teardown, fact),
    }
}

/// Steps only follow each other.
fn moved(teardown: &mut Teardown, to: Stage, at: Timestamp) -> Option<()> {
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

/// What comes when its step has passed is deleted with the current one: it must go all the same.
fn joined(teardown: &mut Teardown, listed: &Listed, at: Timestamp) -> Option<()> {
    let known = teardown.members.get(&listed.name);
    known.is_none_or(|known| known.progress.is_settled()).then_some(())?;
    let mut member = new_member(listed, at);
    member.place.step = member.place.step.max(teardown.current_step());
    teardown.members.insert(listed.name.clone(), member);
    Some(())
}

fn member(teardown: &mut Teardown, fact: &Fact) -> Option<()> {
    let (current, is_witnessed) = (teardown.current_step(), teardown.order.is_witnessed());
    let member = teardown.members.get_mut(fact.member()?)?;
    let is_turn = member.place.step <= current;
    match (fact, &member.progress) {
        (_, Progress::Waiting | Progress::Going) if is_witnessed && is_turn => {
            return witnessed(member, fact);
        }
        (_, _) if is_witnessed => return None,
        (Fact::Condemned { at, .. }, Progress::Waiting) if is_turn => {
            member.become_at(Progress::Condemned, *at)
        }
        (Fact::Going { at, .. }, Progress::Condemned) => member.become_at(Progress::Going, *at),
        (Fact::KeptBy { kept_by, .. }, Progress::Going) => member.kept_by.clone_from(kept_by),
        (Fact::SeenGone { at, .. }, Progress::Condemned | Progress::Going) => {
            member.become_at(Progress::Confirming { deleted: true }, *at);
        }
        (Fact::SeenGone { at, .. }, Progress::Waiting) if is_turn => {
            member.become_at(Progress::Confirming { deleted: false }, *at);
        }
        (Fact::StillThere { at, .. }, Progress::Confirming { deleted }) => {
            let back = if *deleted { Progress::Condemned } else { Progress::Waiting };
            member.become_at(back, *at);
        }
        (Fact::Gone { at, .. }, Progress::Condemned | Progress::Confirming { .. }) => {
            member.become_at(Progress::Gone, *at);
        }
        (Fact::CallFailed { message, retry_at, .. }, Progress::Condemned | Progress::Confirming { .. }) => {
            member.calls.fail(message, *retry_at);
        }
        (Fact::Left { said, .. }, progress) if !progress.is_settled() => {
            member.become_at(Progress::Left(said.clone()), said.at);
        }
        _ => return None,
    }
    Some(())
}

/// The same where others delete the Applications, or let them go.
fn witnessed(member: &mut Member, fact: &Fact) -> Option<()> {
    match (fact, &member.progress) {
        (Fact::Going { at, .. }, Progress::Waiting) => member.become_at(Progress::Going, *at),
        (Fact::KeptBy { kept_by, .. }, Progress::Going) => member.kept_by.clone_from(kept_by),
        (Fact::Gone { at, .. }, _) => member.become_at(Progress::Gone, *at),
        (Fact::Released { at, .. }, _) => member.become_at(Progress::Released, *at),
        _ => return None,
    }
    Some(())
}

impl Member {
    fn become_at(&mut self, progress: Progress, at: Timestamp) {
        // How long it is awaited counts from its deletion, however often it is looked for.
        if !(self.progress.is_in_flight() && progress.is_in_flight()) {
            self.since = at;
        }
        self.progress = progress;
        self.calls = Calls::default();
    }
}
