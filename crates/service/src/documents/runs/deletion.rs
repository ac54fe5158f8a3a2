//! What the facts of a deletion tell.

use serde_json::{Value, json};
use tidegate_lifecycle::teardown::{Approval, Fact, Listed, Order, Stage};
use tidegate_model::Timestamp;

use super::course::{Course, WaitSpan, held};
use super::facts::{RunFact, Told, because};

/// The facts as documents; the first of them has a number. Steps are called as the order has them.
pub(super) fn documents(first: u64, facts: &[Fact], order: &Order) -> Vec<RunFact> {
    (first..).zip(facts).map(|(sequence, fact)| told(fact, order).numbered(sequence)).collect()
}

/// `step 2 (env in (qa))`, or who is meant where no step is.
fn step_name(order: &Order, step: u32) -> String {
    let words = order.words(step);
    match order.number(step) {
        Some(number) => format!("step {number} ({words})"),
        None => words,
    }
}

fn told(fact: &Fact, order: &Order) -> Told {
    match fact {
        Fact::Begun { by, order, members, at, .. } => {
            let what = match order {
                Order::Orphaned => "are let go, and outlive their ApplicationSet",
                Order::Collected => "are deleted with their ApplicationSet, all at once",
                _ => "are to be deleted",
            };
            let text = format!("{} Applications {what}", members.len());
            let steps: Vec<Value> = (0..order.step_count())
                .map(|step| json!({"step": order.number(step), "selects": order.words(step)}))
                .collect();
            Told::begun(by, &text).at(*at).details(json!({
                "order": order.word(),
                "steps": steps,
                "applications": members.iter().map(|one| member(one, order)).collect::<Vec<_>>(),
            }))
        }
        Fact::Moved { to, at } => {
            let (state, step) = match to {
                Stage::Begun => ("Begun", None),
                Stage::Deleting { step } => ("Deleting", Some(*step)),
            };
            let about = step.map(|step| format!(" {}", step_name(order, step))).unwrap_or_default();
            Told::new("moved", format!("→ {state}{about}"))
                .at(*at)
                .step(step.and_then(|step| order.number(step)))
                .details(json!({"state": state}))
        }
        Fact::DeadlinePassed { step, message, at } => {
            let text = because(&format!("{} takes too long", step_name(order, *step)), message);
            Told::new("deadline-passed", text)
                .at(*at)
                .step(order.number(*step))
                .details(json!({"message": message}))
        }
        Fact::Paused(said) => Told::said("paused", said, "holds it"),
        Fact::Resumed(said) => Told::said("resumed", said, "lets it go on"),
        Fact::TerminateRequested(said) => Told::said("terminate-requested", said, "ends it"),
        Fact::Approved(Approval { token, said }) => {
            let what = "approves deletions that were held because they are too many";
            Told::said("approved", said, what).details(json!({"deletions": token}))
        }
        Fact::Finished { end, message, at } => Told::new("finished", format!("{end:?}: {message}"))
            .at(*at)
            .details(json!({"end": end, "message": message})),
        _ => of_member(fact, order),
    }
}

/// As [`told`], for facts about one Application.
fn of_member(fact: &Fact, order: &Order) -> Told {
    match fact {
        Fact::Condemned { member, at } => Told::about("condemned", member, "is to be deleted now").at(*at),
        Fact::Going { member, at } => Told::about("going", member, "is being deleted").at(*at),
        Fact::KeptBy { member, kept_by, at } => {
            let text = match kept_by.as_str() {
                "" => "nothing keeps it any more".to_owned(),
                kept_by => format!("waits for {kept_by}"),
            };
            let told = Told::about("kept-by", member, text).details(json!({"waitsFor": kept_by}));
            at.iter().fold(told, |told, at| told.at(*at))
        }
        Fact::SeenGone { member, at } => {
            Told::about("seen-gone", member, "was seen to be gone, and is looked for once more").at(*at)
        }
        Fact::StillThere { member, at } => Told::about("still-there", member, "is still there").at(*at),
        Fact::Gone { member, at } => Told::about("gone", member, "is gone").at(*at),
        Fact::Released { member, at } => {
            Told::about("released", member, "is let go: it is not the set's any more, and stays").at(*at)
        }
        Fact::CallFailed { member, message, retry_at } => {
            let text = format!("a call failed and is made again at {retry_at}: {message}");
            Told::about("call-failed", member, text).details(json!({"message": message, "retryAt": retry_at}))
        }
        Fact::Left { member, said } => {
            Told::said("skipped", said, format!("skips {member}")).application(member)
        }
        Fact::Joined { member: listed, at } => {
            let number = listed.place.step.and_then(|step| order.number(step));
            Told::about("joined", &listed.name, "is to be deleted too")
                .at(*at)
                .step(number)
                .details(member(listed, order))
        }
        // Every other fact is about the deletion.
        other => Told::new("other", format!("{other:?}")),
    }
}

fn member(listed: &Listed, order: &Order) -> Value {
    let number = listed.place.step.and_then(|step| order.number(step));
    json!({"name": listed.name, "step": number})
}

/// What a deletion waited for.
pub(super) fn waits(facts: &[Fact]) -> Vec<WaitSpan> {
    const PAUSED: &str = "paused";
    let mut course = Course::default();
    // Where what keeps an Application has no time, it was seen after what was recorded before.
    let mut now = Timestamp::default();
    for fact in facts {
        now = fact_time(fact).unwrap_or(now);
        match fact {
            Fact::KeptBy { member, kept_by, .. } if kept_by.is_empty() => course.end(member, now),
            Fact::KeptBy { member, kept_by, .. } => {
                let why = format!("it is being deleted and waits for {kept_by}");
                course.begin(member, &format!("Application {member}"), why, now);
            }
            Fact::SeenGone { member, at } | Fact::Gone { member, at } | Fact::Released { member, at } => {
                course.end(member, *at)
            }
            Fact::Left { member, said } => course.end(member, said.at),
            Fact::Paused(said) => course.begin(PAUSED, "the deletion", held(said), said.at),
            Fact::Resumed(said) => course.end(PAUSED, said.at),
            Fact::Finished { at, .. } => course.end_all(*at),
            _ => {}
        }
    }
    course.finish()
}

fn fact_time(fact: &Fact) -> Option<Timestamp> {
    match fact {
        Fact::Begun { at, .. }
        | Fact::Moved { at, .. }
        | Fact::Condemned { at, .. }
        | Fact::Going { at, .. }
        | Fact::SeenGone { at, .. }
        | Fact::StillThere { at, .. }
        | Fact::Gone { at, .. }
        | Fact::Released { at, .. }
        | Fact::Joined { at, .. }
        | Fact::DeadlinePassed { at, .. }
        | Fact::Finished { at, .. } => Some(*at),
        Fact::Left { said, .. }
        | Fact::Paused(said)
        | Fact::Resumed(said)
        | Fact::TerminateRequested(said) => Some(said.at),
        // An approval is from before the deletions that it is for.
        Fact::CallFailed { .. } | Fact::Approved(_) => None,
        Fact::KeptBy { at, .. } => *at,
    }
}
