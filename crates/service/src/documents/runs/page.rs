//! The record as a page: everything on one screen after the other, and nothing that has to be opened to be printed.

use tidegate_lifecycle::rollout::{RolloutView, StepStatus};
use tidegate_lifecycle::teardown::{ApprovalView, OrderWord, TeardownView};
use tidegate_model::{Timestamp, Wisher, format_duration};

use super::{Run, RunDocument, RunKind, RunLine};
use crate::documents::record::markup::Markup;
use crate::documents::record::page::{cells, footer, html, list, table, titled};

/// Why there is no more of one than its line.
const COMPACTED: &str = "Its details were compacted: as many of the newest rollouts, and of the newest deletions, of an ApplicationSet keep them as --history says, ten if it is not said.";

/// The page.
pub(super) fn of(run: &Run, at: Timestamp) -> String {
    let Run { run: document, facts } = run;
    let line = &document.line;
    let set = line.set.as_deref().unwrap_or("an ApplicationSet");
    let title = match line.kind {
        RunKind::Rollout => format!("Rollout of {set}"),
        RunKind::Deletion => format!("Deletion of Applications of {set}"),
    };
    let steps = match (&document.rollout, &document.deletion) {
        (Some(rollout), _) => of_rollout(rollout),
        (None, Some(deletion)) => of_deletion(deletion),
        (None, None) => Markup::default(),
    };
    let parts = [
        Markup::of("h1", &title),
        lead(document),
        terms(line),
        steps,
        decisions(document),
        waits(document),
        recorded(document, facts),
        footer(at),
    ];
    html(&format!("{title}: {}", line.end.as_deref().unwrap_or("under way")), parts)
}

fn lead(document: &RunDocument) -> Markup {
    let line = &document.line;
    let (verdict, class) = match line.end.as_deref() {
        Some("Completed") => ("Completed", "good"),
        Some(end @ "Superseded") => (end, ""),
        Some(end) => (end, "bad"),
        None => ("Under way", ""),
    };
    let words = match &document.explanation {
        Some(explanation) => explanation.to_string(),
        None => line.message.clone(),
    };
    let verdict = Markup::classed("strong", class, verdict);
    let damage = line.damage.iter();
    let damage = damage.map(|damage| Markup::classed("p", "bad", &format!("It is damaged: {damage}")));
    Markup::all(
        std::iter::once(Markup::element("p", &[], [verdict, Markup::text(&format!(": {words}"))]))
            .chain(damage),
    )
}

fn terms(line: &RunLine) -> Markup {
    let ended = line.finished_at;
    let steps = line.steps.zip(line.steps_passed).map(|(all, passed)| format!("{passed} of {all} passed"));
    let done = if line.kind == RunKind::Rollout { " Healthy" } else { " gone" };
    list([
        ("Id", line.id.to_string()),
        ("Asked for by", line.by.clone().unwrap_or_default()),
        ("Why", line.reason.clone().unwrap_or_default()),
        ("Revisions", line.revisions.join(", ")),
        ("Targets", line.targets.map(|targets| targets.to_string()).unwrap_or_default()),
        ("Began", line.started_at.to_string()),
        ("Ended", ended.map(|at| at.to_string()).unwrap_or_default()),
        ("Took", ended.map(|at| format_duration(at.since(line.started_at))).unwrap_or_default()),
        ("Steps", steps.unwrap_or_default()),
        ("Applications", line.counted(done)),
    ])
}

fn of_rollout(rollout: &RolloutView) -> Markup {
    let steps = (1_u32..).zip(&rollout.steps).map(|(number, step)| {
        let took = step.opened_at.zip(step.passed_at).map(|(from, to)| format_duration(to.since(from)));
        let status = match (step.status, &step.approved) {
            (status, Some(by)) => format!("{}, approved by {by}", step_words(status)),
            (status, None) => step_words(status).to_owned(),
        };
        cells([
            &number.to_string(),
            &step.selects,
            &step.members.to_string(),
            &step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string()),
            &step.gates.join(", "),
            &status,
            &step.opened_at.map(|at| at.to_string()).unwrap_or_default(),
            &took.unwrap_or_default(),
        ])
    });
    let mut members: Vec<_> = rollout.members.iter().collect();
    members.sort_by_key(|member| member.step.parse().unwrap_or(u32::MAX));
    let left = rollout.left.iter().map(|left| {
        let targets = left.target_revisions.join(", ");
        cells([
            step_number(&left.step),
            &left.application,
            LEFT,
            &targets,
            &left.at.to_string(),
            &left.operation.map(|id| id.to_string()).unwrap_or_default(),
            &left.message,
        ])
    });
    let members = members.into_iter().map(|member| {
        let outcome = member.outcome.map(|outcome| format!("{outcome:?}"));
        cells([
            step_number(&member.step),
            &member.application,
            &outcome.unwrap_or_else(|| format!("{:?}", member.status)),
            &member.target_revisions.join(", "),
            &member.last_transition_time.to_string(),
            &member.operation.map(|id| id.to_string()).unwrap_or_default(),
            &member.message,
        ])
    });
    Markup::all([
        Markup::of("h2", "Steps"),
        table(["Step", "Selects", "Applications", "At once", "Gates", "Status", "Began", "Took"], steps),
        Markup::of("h2", "Applications"),
        table(
            ["Step", "Application", "Status", "Target", "Since", "Operation", "Message"],
            members.chain(left),
        ),
    ])
}

/// The number of the step of those that no step selects, as Argo CD writes it.
pub const OUTSIDE: &str = "-1";

/// What is said, in the place of a status, of an Application that has left the set.
const LEFT: &str = "Left";

/// The number of a step, in words.
pub fn step_number(number: &str) -> &str {
    if number == OUTSIDE { "none" } else { number }
}

/// How a step stands, in words.
pub fn step_words(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Waiting => "waiting",
        StepStatus::Held => "held",
        StepStatus::Rolling => "at work",
        StepStatus::Failed => "failed",
        StepStatus::RollingBack => "being rolled back",
        StepStatus::RolledBack => "rolled back",
        StepStatus::Passed => "passed",
        StepStatus::DoneBefore => "done before",
        StepStatus::Empty => "no Applications",
        StepStatus::Unfinished => "not finished",
        StepStatus::NotReached => "not reached",
    }
}

/// `ann (CHG-7) at 2026-11-26T10:00:00Z`.
pub fn approval_words(approval: &ApprovalView) -> String {
    let asker = Wisher { by: &approval.by, reason: approval.reason.as_deref().unwrap_or_default() };
    format!("{} at {}", asker.who(), approval.at)
}

fn of_deletion(deletion: &TeardownView) -> Markup {
    let shown = deletion.steps.iter().filter(|step| step.step.is_some() || step.members > 0);
    let steps = shown.map(|step| {
        let number = step.step.map_or_else(|| OUTSIDE.to_owned(), |number| number.to_string());
        let of_step = deletion.members.iter().filter(|member| member.step == number);
        let gone = of_step.filter(|member| deletion.order.is_end(member.status)).count();
        cells([
            step_number(&number),
            &step.selects,
            &format!("{gone} of {}", step.members),
            &step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string()),
        ])
    });
    let members = deletion.members.iter().map(|member| {
        cells([
            step_number(&member.step),
            &member.application,
            &format!("{:?}", member.status),
            &member.since.to_string(),
            &member.message,
        ])
    });
    let approvals = deletion.approvals.iter().map(|one| {
        Markup::of("p", &format!("Held because they were too many, and approved by {}.", approval_words(one)))
    });
    Markup::all([
        Markup::all(approvals),
        Markup::of("h2", "Steps, in the order of the deletion"),
        table(
            [
                "Step",
                "Selects",
                if deletion.order == OrderWord::Orphan { "Let go" } else { "Gone" },
                "At once",
            ],
            steps,
        ),
        Markup::of("h2", "Applications"),
        table(["Step", "Application", "Status", "Since", "Message"], members),
    ])
}

fn decisions(document: &RunDocument) -> Markup {
    if document.decisions.is_empty() {
        return Markup::default();
    }
    let rows = document.decisions.iter().map(|fact| {
        let at = fact.at.map(|at| at.to_string()).unwrap_or_default();
        cells([&at, fact.by.as_deref().unwrap_or_default(), &fact.text])
    });
    titled("What was decided", vec![table(["Time", "Who", "What"], rows)])
}

fn waits(document: &RunDocument) -> Markup {
    if document.waits.is_empty() {
        return Markup::default();
    }
    let rows = document.waits.iter().map(|wait| {
        let until = wait.until.map(|until| until.to_string());
        let took = wait.until.map(|until| format_duration(until.since(wait.since)));
        cells([
            &wait.what,
            &wait.why,
            &wait.since.to_string(),
            &until.unwrap_or_else(|| "still".to_owned()),
            &took.unwrap_or_default(),
        ])
    });
    titled("What it waited for", vec![table(["Who", "For what", "From", "Until", "Took"], rows)])
}

fn recorded(document: &RunDocument, facts: &[super::RunFact]) -> Markup {
    let note = (document.compacted > 0)
        .then(|| format!("{} older facts are not kept any more.", document.compacted));
    let rows = facts.iter().map(|fact| {
        let at = fact.at.map(|at| at.to_string()).unwrap_or_default();
        cells([&fact.sequence.to_string(), &at, &fact.text])
    });
    let none = facts.is_empty().then(|| {
        let why = if document.is_compacted() { COMPACTED } else { "Nothing can be read." };
        Markup::classed("p", "quiet", why)
    });
    Markup::all([
        Markup::of("h2", "What was recorded"),
        Markup::all(note.iter().map(|words| Markup::classed("p", "quiet", words))),
        none.unwrap_or_else(|| table(["Number", "Time", "What"], rows)),
    ])
}
