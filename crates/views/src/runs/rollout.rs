//! Describes the events of a rollout.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Event, MemberObservation, MemberRecord, OnFailure, Stage, Step, StopOutcome,
};
use tidegate_model::{OperationPhase, Timestamp};

use super::run_events::{RunEvent, RunEventBuilder, assigned_step, step_number, with_reason};
use super::waits::{WaitSpan, WaitTracker, describe_hold, format_person};

/// Returns the documents for the given events. `first` is the sequence number of the first event.
pub(super) fn documents(first: u64, facts: &[Event]) -> Vec<RunEvent> {
    let mut held = None;
    let events = (first..).zip(facts).map(|(sequence, event)| {
        if let Event::Moved { to, .. } = event {
            held = stage_step(to);
        }
        describe_event(event, held).build(sequence)
    });
    events.collect()
}

fn stage_step(stage: &Stage) -> Option<u32> {
    match stage {
        Stage::Held { step } | Stage::Rolling { step } | Stage::RollingBack { step } => Some(*step),
        Stage::Begun | Stage::Ending { .. } => None,
    }
}

/// Describes an event. `current` is the step that is running or on hold.
fn describe_event(event: &Event, current: Option<u32>) -> RunEventBuilder {
    match event {
        Event::Created { by, targets, steps, members, at, .. } => {
            let text = format!("{} Applications, {} steps", members.len(), steps.len());
            RunEventBuilder::for_start(by, &text).at(*at).details(json!({
                "targets": targets,
                "steps": steps.iter().map(step_details).collect::<Vec<_>>(),
                "applications": members.iter().map(member_details).collect::<Vec<_>>(),
            }))
        }
        Event::Moved { to, at } => stage_event(to).at(*at),
        Event::GateAnswered { gate, verdict, at } => {
            let (text, details) = match verdict {
                Verdict::Open => ("is open".to_owned(), json!({"gate": gate, "open": true})),
                Verdict::Closed { reason, .. } => {
                    (with_reason("is closed", reason), json!({"gate": gate, "open": false, "reason": reason}))
                }
            };
            let of_step = current.map(|step| format!(" of step {}", step_number(step))).unwrap_or_default();
            RunEventBuilder::new("gate-evaluated", format!("gate {gate}{of_step} {text}"))
                .at(*at)
                .step(current.map(step_number))
                .details(details)
        }
        Event::Approved { step, said } => {
            let step = step_number(*step);
            RunEventBuilder::for_decision("approved", said, format!("approved step {step}")).step(Some(step))
        }
        Event::StepFailed { step, failure, at } => {
            let step = step_number(*step);
            let text = with_reason(&format!("step {step} failed"), &failure.message);
            RunEventBuilder::new("step-failed", text)
                .at(*at)
                .step(Some(step))
                .details(json!({"message": failure.message}))
        }
        Event::Paused(said) => RunEventBuilder::for_decision("paused", said, "paused the rollout"),
        Event::Resumed(said) => RunEventBuilder::for_decision("resumed", said, "resumed the rollout"),
        Event::TerminateRequested(said) => {
            RunEventBuilder::for_decision("termination-requested", said, "terminated the rollout")
        }
        Event::TargetsChanged { targets, at } => {
            let text = "the ApplicationSet has new targets";
            RunEventBuilder::new("targets-changed", text).at(*at).details(json!({"targets": targets}))
        }
        Event::Finished { end, message, at } => {
            RunEventBuilder::new("finished", format!("{end:?}: {message}"))
                .at(*at)
                .details(json!({"outcome": end, "message": message}))
        }
        _ => describe_member_event(event),
    }
}

/// Describes an event of a single Application, like [`describe_event`].
fn describe_member_event(event: &Event) -> RunEventBuilder {
    match event {
        Event::Promoted { member, at } => {
            RunEventBuilder::for_application("promoted", member, "is next to be synced").at(*at)
        }
        Event::OperationAssigned { member, operation } => RunEventBuilder::for_application(
            "operation-assigned",
            member,
            format!("its operation is {operation}"),
        )
        .details(json!({"operation": operation})),
        Event::SyncWindowChanged { member, window, at } => {
            let text = match window {
                Some(window) => format!("its sync is waiting: {window}"),
                None => "its sync may start".to_owned(),
            };
            RunEventBuilder::for_application("sync-window-changed", member, text)
                .at(*at)
                .details(json!({"window": window}))
        }
        Event::OperationStarted { member, at } => {
            RunEventBuilder::for_application("operation-started", member, "its operation started").at(*at)
        }
        Event::CallFailed { member, message, retry_at } => {
            let text = format!("a call failed; next attempt at {retry_at}: {message}");
            RunEventBuilder::for_application("call-failed", member, text)
                .details(json!({"message": message, "retryAt": retry_at}))
        }
        Event::OperationEnded { member, phase, message, at } => RunEventBuilder::for_application(
            "operation-ended",
            member,
            with_reason(&format!("its operation ended ({phase})"), message),
        )
        .at(*at)
        .details(json!({"phase": phase, "message": message})),
        Event::StatusObserved { member, sight, at } => {
            observation_event("status-observed", member, "observed", sight, *at)
        }
        Event::HealthLost { member, sight, at } => {
            observation_event("health-lost", member, "no longer healthy", sight, *at)
        }
        Event::OperationAdopted { member, operation, at } => {
            let text =
                format!("its target was deployed by operation {operation}, which the rollout did not start");
            RunEventBuilder::for_application("operation-adopted", member, text)
                .at(*at)
                .details(json!({"operation": operation}))
        }
        Event::BecameHealthy { member, at } => {
            RunEventBuilder::for_application("became-healthy", member, "Synced and Healthy").at(*at)
        }
        Event::Overdue { member, at } => {
            RunEventBuilder::for_application("overdue", member, "Pending for too long").at(*at)
        }
        Event::StopRequested { member, then: StopOutcome::Skip(said), .. } => {
            let text = format!("skipped {member}; stopping its operation first");
            RunEventBuilder::for_decision("stop-requested", said, text)
                .application(member)
                .details(json!({"followUp": "skip"}))
        }
        Event::StopRequested { member, then, at } => {
            let (text, word) = describe_stop(then);
            RunEventBuilder::for_application("stop-requested", member, text)
                .at(*at)
                .details(json!({"followUp": word}))
        }
        Event::Stopped { member, at } => {
            RunEventBuilder::for_application("stopped", member, "its operation has ended or will not start")
                .at(*at)
        }
        Event::RollbackStarted { member, at } => RunEventBuilder::for_application(
            "rollback-started",
            member,
            "is being rolled back to its previous target",
        )
        .at(*at),
        Event::Skipped { member, said } => {
            RunEventBuilder::for_decision("skipped", said, format!("skipped {member}")).application(member)
        }
        Event::Retried { member, said } => {
            RunEventBuilder::for_decision("retried", said, format!("retried {member}")).application(member)
        }
        Event::Removed { member, at } => {
            RunEventBuilder::for_application("removed", member, "no longer belongs to the ApplicationSet")
                .at(*at)
        }
        Event::Added { member: listed, at } => {
            RunEventBuilder::for_application("added", &listed.name, "is new in the ApplicationSet")
                .at(*at)
                .step(assigned_step(&listed.place))
                .details(member_details(listed))
        }
        // All other events apply to the whole rollout.
        other => RunEventBuilder::new("other", format!("{other:?}")),
    }
}

fn observation_event(
    kind: &str,
    member: &str,
    what: &str,
    observation: &MemberObservation,
    at: Timestamp,
) -> RunEventBuilder {
    let sync = if observation.synced { "Synced" } else { "OutOfSync" };
    let health = observation.health;
    let text = with_reason(&format!("{what}: {sync}, {health:?}"), &observation.message);
    RunEventBuilder::for_application(kind, member, text).at(at).details(json!({
        "operation": observation.operation,
        "synced": observation.synced,
        "health": health,
        "message": observation.message,
    }))
}

fn stage_event(to: &Stage) -> RunEventBuilder {
    let (state, message) = match to {
        Stage::Begun => ("Begun", None),
        Stage::Held { .. } => ("Held", None),
        Stage::Rolling { .. } => ("Rolling", None),
        Stage::RollingBack { .. } => ("RollingBack", None),
        Stage::Ending { message, .. } => ("Ending", Some(message)),
    };
    RunEventBuilder::new("stage-changed", format!("→ {}", to.name()))
        .step(stage_step(to).map(step_number))
        .details(json!({"state": state, "message": message}))
}

fn describe_stop(then: &StopOutcome) -> (String, &'static str) {
    let (reason, word) = match then {
        StopOutcome::Wait => (String::new(), "wait"),
        StopOutcome::Fail { message } => {
            (format!(", and the Application is treated as failed: {message}"), "fail")
        }
        StopOutcome::Assume => (", and the Application is treated as Healthy".to_owned(), "assume-healthy"),
        StopOutcome::Skip(said) => {
            (format!(", and the Application is skipped by {}", format_person(said)), "skip")
        }
        StopOutcome::Go => (", because the Application no longer exists".to_owned(), "remove"),
        StopOutcome::RollBack => (", and the Application will be rolled back".to_owned(), "roll-back"),
    };
    (format!("its operation is being stopped{reason}"), word)
}

fn step_details(step: &Step) -> Value {
    json!({
        "selector": step.describe_selector(),
        "gates": step.gates,
        "deadlineSeconds": step.deadline.map(|deadline| deadline.as_secs()),
        "maxFailures": step.max_failures,
        "onFailure": step.on_failure,
    })
}

fn member_details(listed: &MemberRecord) -> Value {
    json!({
        "name": listed.name,
        "step": assigned_step(&listed.place),
        "revisions": listed.target.revisions,
        "previousRevisions": listed.before.as_ref().map(|before| &before.target.revisions),
        "completedBy": listed.done_by,
    })
}

/// Returns the waits in a rollout.
pub(super) fn collect_waits(events: &[Event]) -> Vec<WaitSpan> {
    let mut waits = WaitCollector::default();
    events.iter().for_each(|event| waits.apply_event(event));
    waits.waits.finish()
}

/// Keys for waits that apply to the whole rollout.
const HELD_KEY: &str = "held";
const PAUSED_KEY: &str = "paused";
/// Subject for waits that apply to the whole rollout.
const WHOLE_RUN: &str = "the rollout";

#[derive(Default)]
struct WaitCollector<'a> {
    waits: WaitTracker,
    steps: &'a [Step],
    steps_by_application: BTreeMap<&'a str, u32>,
    /// Closed gates of the step on hold, each with the reason.
    closed_gates: Vec<(&'a str, String)>,
    /// Step on hold.
    held_step: Option<u32>,
    approvals: BTreeMap<u32, String>,
    /// Applications blocked by a sync window or a missing approval.
    blocked_applications: BTreeSet<&'a str>,
}

impl<'a> WaitCollector<'a> {
    fn apply_event(&mut self, event: &'a Event) {
        match event {
            Event::Created { steps, members, .. } => {
                self.steps = steps;
                self.steps_by_application = members
                    .iter()
                    .filter_map(|member| Some((member.name.as_str(), member.place.step?)))
                    .collect();
            }
            Event::Moved { to, at } => self.apply_stage(to, *at),
            Event::GateAnswered { gate, verdict, .. } => {
                let text = match verdict {
                    Verdict::Open => format!("{gate}, open"),
                    Verdict::Closed { reason, .. } => with_reason(gate, reason),
                };
                self.apply_gate_verdict(gate, text);
            }
            Event::Approved { step, said } => {
                self.approvals.insert(*step, format_person(said));
                if self.held_step == Some(*step) {
                    self.apply_gate_verdict(APPROVAL_GATE, approved_by(&format_person(said)));
                }
            }
            Event::Paused(said) => self.waits.begin(PAUSED_KEY, WHOLE_RUN, describe_hold(said), said.at),
            Event::StepFailed { step, failure, at } if self.is_held_by_failure(*step) => {
                let why = with_reason("held, because a step failed", &failure.message);
                self.waits.begin(PAUSED_KEY, WHOLE_RUN, why, *at);
            }
            Event::Resumed(said) => self.waits.end(PAUSED_KEY, said.at),
            Event::Finished { at, .. } => self.waits.end_all(*at),
            _ => self.apply_member_event(event),
        }
    }

    fn apply_member_event(&mut self, event: &'a Event) {
        let Some(name) = event.member() else {
            if let Event::Added { member, .. } = event
                && let Some(step) = member.place.step
            {
                self.steps_by_application.insert(&member.name, step);
            }
            return;
        };
        let (what, window, failed) =
            (format!("Application {name}"), format!("window {name}"), format!("failed {name}"));
        match event {
            Event::SyncWindowChanged { window: Some(reason), at, .. } => {
                self.blocked_applications.insert(name);
                self.waits.begin(&window, &what, format!("its sync is waiting: {reason}"), *at);
            }
            Event::SyncWindowChanged { window: None, at, .. }
            | Event::OperationStarted { at, .. }
            | Event::StopRequested { at, .. }
                if self.blocked_applications.remove(name) =>
            {
                self.waits.end(&window, *at);
            }
            Event::OperationEnded { phase, message, at, .. } if *phase != OperationPhase::Succeeded => {
                // If the step tolerates failures, the rollout continues without the failed Applications.
                let step = self
                    .steps_by_application
                    .get(name)
                    .and_then(|step| self.steps.get(usize::try_from(*step).ok()?));
                if step.is_some_and(|step| step.max_failures.is_none()) {
                    let reason = with_reason("failed and needs manual action", message);
                    self.waits.begin(&failed, &what, reason, *at);
                }
            }
            Event::Skipped { said, .. } | Event::Retried { said, .. } => self.waits.end(&failed, said.at),
            Event::OperationAdopted { at, .. }
            | Event::Removed { at, .. }
            | Event::RollbackStarted { at, .. } => {
                self.waits.end(&failed, *at);
            }
            _ => {}
        }
    }

    fn apply_stage(&mut self, to: &Stage, at: Timestamp) {
        self.waits.end(HELD_KEY, at);
        self.held_step = None;
        let Stage::Held { step } = to else { return };
        let Some(gates) = usize::try_from(*step).ok().and_then(|step| self.steps.get(step)) else { return };
        if gates.gates.is_empty() {
            return;
        }
        self.held_step = Some(*step);
        let approved = self.approvals.get(step);
        let text = |gate: &str| match approved.filter(|_| gate == APPROVAL_GATE) {
            Some(by) => approved_by(by),
            None => gate.to_owned(),
        };
        self.closed_gates = gates.gates.iter().map(|gate| (gate.as_str(), text(gate))).collect();
        self.waits.begin(HELD_KEY, &format!("step {}", step_number(*step)), self.hold_reason(), at);
    }

    fn is_held_by_failure(&self, step: u32) -> bool {
        let step = usize::try_from(step).ok().and_then(|step| self.steps.get(step));
        step.is_some_and(|step| step.on_failure == OnFailure::Pause)
    }

    fn apply_gate_verdict(&mut self, gate: &str, text: String) {
        if let Some((_, reason)) = self.closed_gates.iter_mut().find(|(name, _)| *name == gate) {
            *reason = text;
        }
        let reason = self.hold_reason();
        self.waits.set_reason(HELD_KEY, reason);
    }

    fn hold_reason(&self) -> String {
        self.closed_gates.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// Gate that opens when a user approves it.
const APPROVAL_GATE: &str = tidegate_lifecycle::operation::APPROVAL_GATE;

fn approved_by(by: &str) -> String {
    format!("{APPROVAL_GATE}, given by {by}")
}
