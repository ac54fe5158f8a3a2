//! Describes the events of a deletion.

use serde_json::{Value, json};
use tidegate_lifecycle::teardown::{Approval, Event, MemberRecord, Order, Stage};
use tidegate_model::Timestamp;

use super::run_events::{RunEvent, RunEventBuilder, with_reason};
use super::waits::{WaitSpan, WaitTracker, describe_hold};

/// Returns the documents for the given events. `first` is the sequence number of the first event. `order`
/// provides the names of the steps.
pub(super) fn documents(first: u64, events: &[Event], order: &Order) -> Vec<RunEvent> {
    (first..).zip(events).map(|(sequence, event)| describe_event(event, order).build(sequence)).collect()
}

/// Returns a step's name, such as `step 2 (env in (qa))`, or a description of the Applications outside all
/// steps.
fn step_name(order: &Order, step: u32) -> String {
    let text = order.describe_selector(step);
    match order.step_number(step) {
        Some(number) => format!("step {number} ({text})"),
        None => text,
    }
}

fn describe_event(event: &Event, order: &Order) -> RunEventBuilder {
    match event {
        Event::Created { by, order, members, at, .. } => {
            let what = match order {
                Order::Orphaned => "will be released and kept when their ApplicationSet is deleted",
                Order::Collected => "will be deleted with their ApplicationSet, all at once",
                _ => "will be deleted",
            };
            let text = format!("{} Applications {what}", members.len());
            let steps: Vec<Value> = (0..order.step_count())
                .map(|step| json!({"step": order.step_number(step), "selector": order.describe_selector(step)}))
                .collect();
            RunEventBuilder::for_start(by, &text).at(*at).details(json!({
                "order": order.kind(),
                "steps": steps,
                "applications": members.iter().map(|one| member_details(one, order)).collect::<Vec<_>>(),
            }))
        }
        Event::Moved { to, at } => {
            let (state, step) = match to {
                Stage::Begun => ("Begun", None),
                Stage::Deleting { step } => ("Deleting", Some(*step)),
            };
            let about = step.map(|step| format!(" {}", step_name(order, step))).unwrap_or_default();
            RunEventBuilder::new("stage-changed", format!("→ {state}{about}"))
                .at(*at)
                .step(step.and_then(|step| order.step_number(step)))
                .details(json!({"state": state}))
        }
        Event::DeadlinePassed { step, message, at } => {
            let text = with_reason(&format!("{} takes too long", step_name(order, *step)), message);
            RunEventBuilder::new("deadline-exceeded", text)
                .at(*at)
                .step(order.step_number(*step))
                .details(json!({"message": message}))
        }
        Event::Paused(said) => RunEventBuilder::for_decision("paused", said, "paused the deletion"),
        Event::Resumed(said) => RunEventBuilder::for_decision("resumed", said, "resumed the deletion"),
        Event::TerminateRequested(said) => {
            RunEventBuilder::for_decision("termination-requested", said, "terminated the deletion")
        }
        Event::Approved(Approval { token, said }) => {
            let what = "approved deletions that were blocked because their number exceeded the limit";
            RunEventBuilder::for_decision("approved", said, what).details(json!({"deletions": token}))
        }
        Event::Finished { end, message, at } => {
            RunEventBuilder::new("finished", format!("{end:?}: {message}"))
                .at(*at)
                .details(json!({"outcome": end, "message": message}))
        }
        _ => describe_member_event(event, order),
    }
}

/// Describes an event of a single Application, like [`describe_event`].
fn describe_member_event(event: &Event, order: &Order) -> RunEventBuilder {
    match event {
        Event::DeletionScheduled { member, at } => {
            RunEventBuilder::for_application("deletion-scheduled", member, "is next to be deleted").at(*at)
        }
        Event::DeletionStarted { member, at } => {
            RunEventBuilder::for_application("deletion-started", member, "is being deleted").at(*at)
        }
        Event::DeletionBlocked { member, kept_by, at } => {
            let text = match kept_by.as_str() {
                "" => "nothing blocks its deletion anymore".to_owned(),
                kept_by => format!("is waiting for {kept_by}"),
            };
            RunEventBuilder::for_application("deletion-blocked", member, text)
                .at(*at)
                .details(json!({"blockedBy": kept_by}))
        }
        Event::AbsenceObserved { member, at } => {
            RunEventBuilder::for_application("absence-observed", member, "appears to be gone; checking again")
                .at(*at)
        }
        Event::PresenceConfirmed { member, at } => {
            RunEventBuilder::for_application("presence-confirmed", member, "still exists").at(*at)
        }
        Event::Deleted { member, at } => {
            RunEventBuilder::for_application("deleted", member, "was deleted").at(*at)
        }
        Event::Released { member, at } => RunEventBuilder::for_application(
            "released",
            member,
            "was released: it no longer belongs to the ApplicationSet and will not be deleted",
        )
        .at(*at),
        Event::CallFailed { member, message, retry_at } => {
            let text = format!("a call failed; next attempt at {retry_at}: {message}");
            RunEventBuilder::for_application("call-failed", member, text)
                .details(json!({"message": message, "retryAt": retry_at}))
        }
        Event::Skipped { member, said } => {
            RunEventBuilder::for_decision("skipped", said, format!("skipped {member}")).application(member)
        }
        Event::Joined { member: listed, at } => {
            let number = listed.place.step.and_then(|step| order.step_number(step));
            RunEventBuilder::for_application("added", &listed.name, "will be deleted as well")
                .at(*at)
                .step(number)
                .details(member_details(listed, order))
        }
        // All other events apply to the whole deletion.
        other => RunEventBuilder::new("other", format!("{other:?}")),
    }
}

fn member_details(listed: &MemberRecord, order: &Order) -> Value {
    let number = listed.place.step.and_then(|step| order.step_number(step));
    json!({"name": listed.name, "step": number})
}

/// Returns the waits in a deletion.
pub(super) fn collect_waits(events: &[Event]) -> Vec<WaitSpan> {
    const PAUSED_KEY: &str = "paused";
    let mut course = WaitTracker::default();
    // An observation without a time is later than all events recorded before it.
    let mut now = Timestamp::default();
    for event in events {
        now = event_time(event).unwrap_or(now);
        match event {
            Event::DeletionBlocked { member, kept_by, .. } if kept_by.is_empty() => course.end(member, now),
            Event::DeletionBlocked { member, kept_by, .. } => {
                let reason = format!("it is being deleted and is waiting for {kept_by}");
                course.begin(member, &format!("Application {member}"), reason, now);
            }
            Event::AbsenceObserved { member, at }
            | Event::Deleted { member, at }
            | Event::Released { member, at } => course.end(member, *at),
            Event::Skipped { member, said } => course.end(member, said.at),
            Event::Paused(said) => course.begin(PAUSED_KEY, "the deletion", describe_hold(said), said.at),
            Event::Resumed(said) => course.end(PAUSED_KEY, said.at),
            Event::Finished { at, .. } => course.end_all(*at),
            _ => {}
        }
    }
    course.finish()
}

fn event_time(event: &Event) -> Option<Timestamp> {
    match event {
        Event::Created { at, .. }
        | Event::Moved { at, .. }
        | Event::DeletionScheduled { at, .. }
        | Event::DeletionStarted { at, .. }
        | Event::AbsenceObserved { at, .. }
        | Event::PresenceConfirmed { at, .. }
        | Event::Deleted { at, .. }
        | Event::Released { at, .. }
        | Event::Joined { at, .. }
        | Event::DeadlinePassed { at, .. }
        | Event::DeletionBlocked { at, .. }
        | Event::Finished { at, .. } => Some(*at),
        Event::Skipped { said, .. }
        | Event::Paused(said)
        | Event::Resumed(said)
        | Event::TerminateRequested(said) => Some(said.at),
        // An approval precedes the deletions that it allows, so its time isn't used.
        Event::CallFailed { .. } | Event::Approved(_) => None,
    }
}
