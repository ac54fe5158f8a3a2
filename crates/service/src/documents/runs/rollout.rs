//! What the facts of a rollout tell.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{Fact, Listed, OnFailure, Sight, Stage, Step, Then};
use tidegate_model::{OperationPhase, Timestamp};

use super::course::{Course, WaitSpan, held, person};
use super::facts::{RunFact, Told, because, number, place};

/// The facts as documents; the first of them has a number.
pub(super) fn documents(first: u64, facts: &[Fact]) -> Vec<RunFact> {
    let mut held = None;
    let told = (first..).zip(facts).map(|(sequence, fact)| {
        if let Fact::Moved { to, .. } = fact {
            held = step_of(to);
        }
        told(fact, held).numbered(sequence)
    });
    told.collect()
}

fn step_of(stage: &Stage) -> Option<u32> {
    match stage {
        Stage::Held { step } | Stage::Rolling { step } | Stage::RollingBack { step } => Some(*step),
        Stage::Begun | Stage::Ending { .. } => None,
    }
}

/// What a fact says; `current` is the step that is held or at work.
fn told(fact: &Fact, current: Option<u32>) -> Told {
    match fact {
        Fact::Begun { by, targets, steps, members, at, .. } => {
            let text = format!("{} Applications, {} steps", members.len(), steps.len());
            Told::begun(by, &text).at(*at).details(json!({
                "targets": targets,
                "steps": steps.iter().map(step).collect::<Vec<_>>(),
                "applications": members.iter().map(member).collect::<Vec<_>>(),
            }))
        }
        Fact::Moved { to, at } => moved(to).at(*at),
        Fact::GateAnswered { gate, verdict, at } => {
            let (text, details) = match verdict {
                Verdict::Open => ("is open".to_owned(), json!({"gate": gate, "open": true})),
                Verdict::Closed { reason, .. } => {
                    (because("is closed", reason), json!({"gate": gate, "open": false, "reason": reason}))
                }
            };
            let of_step = current.map(|step| format!(" of step {}", number(step))).unwrap_or_default();
            Told::new("gate-answered", format!("gate {gate}{of_step} {text}"))
                .at(*at)
                .step(current.map(number))
                .details(details)
        }
        Fact::Approved { step, said } => {
            let step = number(*step);
            Told::said("approved", said, format!("approves step {step}")).step(Some(step))
        }
        Fact::StepFailed { step, failure, at } => {
            let step = number(*step);
            let text = because(&format!("step {step} has failed"), &failure.message);
            Told::new("step-failed", text)
                .at(*at)
                .step(Some(step))
                .details(json!({"message": failure.message}))
        }
        Fact::Paused(said) => Told::said("paused", said, "holds it"),
        Fact::Resumed(said) => Told::said("resumed", said, "lets it go on"),
        Fact::TerminateRequested(said) => Told::said("terminate-requested", said, "ends it"),
        Fact::NewTargets { targets, at } => {
            let text = "the ApplicationSet has other targets by now";
            Told::new("new-targets", text).at(*at).details(json!({"targets": targets}))
        }
        Fact::Finished { end, message, at } => Told::new("finished", format!("{end:?}: {message}"))
            .at(*at)
            .details(json!({"end": end, "message": message})),
        _ => of_member(fact),
    }
}

/// As [`told`], for facts about one Application.
fn of_member(fact: &Fact) -> Told {
    match fact {
        Fact::Promoted { member, at } => Told::about("promoted", member, "its turn has come").at(*at),
        Fact::Named { member, operation } => {
            Told::about("named", member, format!("its operation is {operation}"))
                .details(json!({"operation": operation}))
        }
        Fact::WindowSeen { member, window, at } => {
            let text = match window {
                Some(window) => format!("its sync waits: {window}"),
                None => "its sync may begin".to_owned(),
            };
            Told::about("window-seen", member, text).at(*at).details(json!({"window": window}))
        }
        Fact::Started { member, at } => Told::about("started", member, "its operation has begun").at(*at),
        Fact::CallFailed { member, message, retry_at } => {
            let text = format!("a call failed and is made again at {retry_at}: {message}");
            Told::about("call-failed", member, text).details(json!({"message": message, "retryAt": retry_at}))
        }
        Fact::Ended { member, phase, message, at } => {
            Told::about("ended", member, because(&format!("its operation is over, {phase}"), message))
                .at(*at)
                .details(json!({"phase": phase, "message": message}))
        }
        Fact::Seen { member, sight, at } => seen("seen", member, "seen", (sight, *at)),
        Fact::Worsened { member, sight, at } => {
            seen("worsened", member, "is not well any more", (sight, *at))
        }
        Fact::Adopted { member, operation, at } => {
            let text = format!("operation {operation} of somebody else has brought it to its target");
            Told::about("adopted", member, text).at(*at).details(json!({"operation": operation}))
        }
        Fact::BecameHealthy { member, at } => {
            Told::about("became-healthy", member, "Synced and Healthy").at(*at)
        }
        Fact::Overdue { member, at } => {
            Told::about("overdue", member, "Pending for longer than it may be").at(*at)
        }
        Fact::StopBegun { member, then: Then::Skip(said), .. } => {
            let text = format!("skips {member}, whose operation is stopped first");
            Told::said("stop-begun", said, text).application(member).details(json!({"then": "skip"}))
        }
        Fact::StopBegun { member, then, at } => {
            let (text, word) = stopping(then);
            Told::about("stop-begun", member, text).at(*at).details(json!({"then": word}))
        }
        Fact::Stopped { member, at } => {
            Told::about("stopped", member, "its operation is over, or never begins").at(*at)
        }
        Fact::RollBackBegun { member, at } => {
            Told::about("roll-back-begun", member, "is brought back to what it had before").at(*at)
        }
        Fact::Skipped { member, said } => {
            Told::said("skipped", said, format!("skips {member}")).application(member)
        }
        Fact::Retried { member, said } => {
            Told::said("retried", said, format!("has {member} tried again")).application(member)
        }
        Fact::Gone { member, at } => {
            Told::about("gone", member, "is no Application of the ApplicationSet any more").at(*at)
        }
        Fact::Joined { member: listed, at } => {
            Told::about("joined", &listed.name, "is a new Application of the ApplicationSet")
                .at(*at)
                .step(place(&listed.place))
                .details(member(listed))
        }
        // Every other fact is about the rollout.
        other => Told::new("other", format!("{other:?}")),
    }
}

fn seen(kind: &str, member: &str, what: &str, (sight, at): (&Sight, Timestamp)) -> Told {
    let sync = if sight.synced { "Synced" } else { "OutOfSync" };
    let health = sight.health;
    let text = because(&format!("{what}: {sync}, {health:?}"), &sight.message);
    Told::about(kind, member, text).at(at).details(json!({
        "operation": sight.operation,
        "synced": sight.synced,
        "health": health,
        "message": sight.message,
    }))
}

fn moved(to: &Stage) -> Told {
    let (state, message) = match to {
        Stage::Begun => ("Begun", None),
        Stage::Held { .. } => ("Held", None),
        Stage::Rolling { .. } => ("Rolling", None),
        Stage::RollingBack { .. } => ("RollingBack", None),
        Stage::Ending { message, .. } => ("Ending", Some(message)),
    };
    Told::new("moved", format!("→ {}", to.name()))
        .step(step_of(to).map(number))
        .details(json!({"state": state, "message": message}))
}

fn stopping(then: &Then) -> (String, &'static str) {
    let (why, word) = match then {
        Then::Wait => (String::new(), "wait"),
        Then::Fail { message } => (format!(", and it counts as failed: {message}"), "fail"),
        Then::Assume => (", and it counts as Healthy".to_owned(), "healthy"),
        Then::Skip(said) => (format!(", and it is skipped by {}", person(said)), "skip"),
        Then::Go => (", since it is gone".to_owned(), "gone"),
        Then::RollBack => (", and it is rolled back".to_owned(), "roll-back"),
    };
    (format!("its operation is being stopped{why}"), word)
}

fn step(step: &Step) -> Value {
    json!({
        "selects": step.words(),
        "gates": step.gates,
        "deadlineSeconds": step.deadline.map(|deadline| deadline.as_secs()),
        "maxFailures": step.max_failures,
        "onFailure": step.on_failure,
    })
}

fn member(listed: &Listed) -> Value {
    json!({
        "name": listed.name,
        "step": place(&listed.place),
        "revisions": listed.target.revisions,
        "before": listed.before.as_ref().map(|before| &before.target.revisions),
        "doneBy": listed.done_by,
    })
}

/// What a rollout waited for.
pub(super) fn waits(facts: &[Fact]) -> Vec<WaitSpan> {
    let mut waits = Waits::default();
    facts.iter().for_each(|fact| waits.take(fact));
    waits.course.finish()
}

/// The keys of waits that are about all of it.
const HELD: &str = "held";
const PAUSED: &str = "paused";
/// Who waits where all of it does.
const ALL: &str = "the rollout";

#[derive(Default)]
struct Waits<'a> {
    course: Course,
    steps: &'a [Step],
    places: BTreeMap<&'a str, u32>,
    /// Why each gate of the step that is held keeps it so.
    gates: Vec<(&'a str, String)>,
    /// The step that is held.
    held: Option<u32>,
    approved: BTreeMap<u32, String>,
    /// Applications that a sync window, or a missing approval, keeps from being synced.
    windows: BTreeSet<&'a str>,
}

impl<'a> Waits<'a> {
    fn take(&mut self, fact: &'a Fact) {
        match fact {
            Fact::Begun { steps, members, .. } => {
                self.steps = steps;
                self.places = members
                    .iter()
                    .filter_map(|member| Some((member.name.as_str(), member.place.step?)))
                    .collect();
            }
            Fact::Moved { to, at } => self.moved(to, *at),
            Fact::GateAnswered { gate, verdict, .. } => {
                let words = match verdict {
                    Verdict::Open => format!("{gate}, open"),
                    Verdict::Closed { reason, .. } => because(gate, reason),
                };
                self.answered(gate, words);
            }
            Fact::Approved { step, said } => {
                self.approved.insert(*step, person(said));
                if self.held == Some(*step) {
                    self.answered(APPROVAL, given(&person(said)));
                }
            }
            Fact::Paused(said) => self.course.begin(PAUSED, ALL, held(said), said.at),
            Fact::StepFailed { step, failure, at } if self.is_held_by_failure(*step) => {
                let why = because("held, since a step has failed", &failure.message);
                self.course.begin(PAUSED, ALL, why, *at);
            }
            Fact::Resumed(said) => self.course.end(PAUSED, said.at),
            Fact::Finished { at, .. } => self.course.end_all(*at),
            _ => self.of_member(fact),
        }
    }

    fn of_member(&mut self, fact: &'a Fact) {
        let Some(name) = fact.member() else {
            if let Fact::Joined { member, .. } = fact
                && let Some(step) = member.place.step
            {
                self.places.insert(&member.name, step);
            }
            return;
        };
        let (what, window, failed) =
            (format!("Application {name}"), format!("window {name}"), format!("failed {name}"));
        match fact {
            Fact::WindowSeen { window: Some(why), at, .. } => {
                self.windows.insert(name);
                self.course.begin(&window, &what, format!("its sync waits: {why}"), *at);
            }
            Fact::WindowSeen { window: None, at, .. }
            | Fact::Started { at, .. }
            | Fact::StopBegun { at, .. }
                if self.windows.remove(name) =>
            {
                self.course.end(&window, *at);
            }
            Fact::Ended { phase, message, at, .. } if *phase != OperationPhase::Succeeded => {
                // Where some may fail, it is gone on without them.
                let step =
                    self.places.get(name).and_then(|step| self.steps.get(usize::try_from(*step).ok()?));
                if step.is_some_and(|step| step.max_failures.is_none()) {
                    let why = because("somebody has to see to it, since it failed", message);
                    self.course.begin(&failed, &what, why, *at);
                }
            }
            Fact::Skipped { said, .. } | Fact::Retried { said, .. } => self.course.end(&failed, said.at),
            Fact::Adopted { at, .. } | Fact::Gone { at, .. } | Fact::RollBackBegun { at, .. } => {
                self.course.end(&failed, *at);
            }
            _ => {}
        }
    }

    fn moved(&mut self, to: &Stage, at: Timestamp) {
        self.course.end(HELD, at);
        self.held = None;
        let Stage::Held { step } = to else { return };
        let Some(gates) = usize::try_from(*step).ok().and_then(|step| self.steps.get(step)) else { return };
        if gates.gates.is_empty() {
            return;
        }
        self.held = Some(*step);
        let approved = self.approved.get(step);
        let words = |gate: &str| match approved.filter(|_| gate == APPROVAL) {
            Some(by) => given(by),
            None => gate.to_owned(),
        };
        self.gates = gates.gates.iter().map(|gate| (gate.as_str(), words(gate))).collect();
        self.course.begin(HELD, &format!("step {}", number(*step)), self.why(), at);
    }

    fn is_held_by_failure(&self, step: u32) -> bool {
        let step = usize::try_from(step).ok().and_then(|step| self.steps.get(step));
        step.is_some_and(|step| step.on_failure == OnFailure::Pause)
    }

    fn answered(&mut self, gate: &str, words: String) {
        if let Some((_, why)) = self.gates.iter_mut().find(|(name, _)| *name == gate) {
            *why = words;
        }
        let why = self.why();
        self.course.because(HELD, why);
    }

    fn why(&self) -> String {
        self.gates.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// The gate that people open.
const APPROVAL: &str = tidegate_lifecycle::operation::APPROVAL;

fn given(by: &str) -> String {
    format!("{APPROVAL}, given by {by}")
}
