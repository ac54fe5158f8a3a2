//! HTML page of a run's record. All sections follow one another, so nothing must be expanded before printing.

use tidegate_lifecycle::rollout::{RolloutView, StepStatus};
use tidegate_lifecycle::teardown::{ApprovalView, OrderKind, TeardownView};
use tidegate_model::{Requester, Timestamp, format_duration};

use super::{RunDetails, RunKind, RunSummary, RunWithEvents};
use crate::record::markup::Markup;
use crate::record::page::{
    render_footer, render_html, render_row, render_section, render_table, render_terms_list,
};

/// Note for a page with only the run's summary.
const COMPACTED_NOTE: &str = "The details were compacted. Only the newest rollouts and the newest deletions of an ApplicationSet keep their \
                         details; `tidegate serve --history` sets how many of each [default: 10].";

pub(super) fn render_page(run: &RunWithEvents, at: Timestamp) -> String {
    let RunWithEvents { run: document, facts: events } = run;
    let line = &document.line;
    let set = line.set.as_deref().unwrap_or("an ApplicationSet");
    let title = match line.kind {
        RunKind::Rollout => format!("Rollout of {set}"),
        RunKind::Deletion => format!("Deletion of Applications of {set}"),
    };
    let steps = match (&document.rollout, &document.deletion) {
        (Some(rollout), _) => render_rollout(rollout),
        (None, Some(deletion)) => render_deletion(deletion),
        (None, None) => Markup::default(),
    };
    let parts = [
        Markup::text_element("h1", &title),
        render_lead(document),
        render_terms(line),
        steps,
        render_decisions(document),
        render_waits(document),
        render_log(document, events),
        render_footer(at),
    ];
    render_html(&format!("{title}: {}", line.end.as_deref().unwrap_or("in progress")), parts)
}

fn render_lead(document: &RunDetails) -> Markup {
    let line = &document.line;
    let (verdict, class) = match line.end.as_deref() {
        Some("Completed") => ("Completed", "good"),
        Some(end @ "Superseded") => (end, ""),
        Some(end) => (end, "bad"),
        None => ("In progress", ""),
    };
    let text = match &document.explanation {
        Some(explanation) => explanation.to_string(),
        None => line.message.clone(),
    };
    let verdict = Markup::text_element_with_class("strong", class, verdict);
    let damage = line.damage.iter();
    let damage =
        damage.map(|damage| Markup::text_element_with_class("p", "bad", &format!("Damaged: {damage}")));
    Markup::concat(
        std::iter::once(Markup::element("p", &[], [verdict, Markup::text(&format!(": {text}"))]))
            .chain(damage),
    )
}

fn render_terms(line: &RunSummary) -> Markup {
    let ended = line.finished_at;
    let steps = line.steps.zip(line.steps_passed).map(|(all, passed)| format!("{passed} of {all} passed"));
    let done = if line.kind == RunKind::Rollout { " Healthy" } else { " gone" };
    render_terms_list([
        ("Id", line.id.to_string()),
        ("Requested by", line.by.clone().unwrap_or_default()),
        ("Reason", line.reason.clone().unwrap_or_default()),
        ("Revisions", line.revisions.join(", ")),
        ("Targets", line.targets.map(|targets| targets.to_string()).unwrap_or_default()),
        ("Started", line.started_at.to_string()),
        ("Ended", ended.map(|at| at.to_string()).unwrap_or_default()),
        ("Duration", ended.map(|at| format_duration(at.since(line.started_at))).unwrap_or_default()),
        ("Steps", steps.unwrap_or_default()),
        ("Applications", line.describe_progress(done)),
    ])
}

fn render_rollout(rollout: &RolloutView) -> Markup {
    let steps = (1_u32..).zip(&rollout.steps).map(|(number, step)| {
        let took = step.opened_at.zip(step.passed_at).map(|(from, to)| format_duration(to.since(from)));
        let status = match (step.status, &step.approved) {
            (status, Some(by)) => format!("{}, approved by {by}", describe_step_status(status)),
            (status, None) => describe_step_status(status).to_owned(),
        };
        render_row([
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
        render_row([
            describe_step_number(&left.step),
            &left.application,
            DEPARTED_STATUS,
            &targets,
            &left.at.to_string(),
            &left.operation.map(|id| id.to_string()).unwrap_or_default(),
            &left.message,
        ])
    });
    let members = members.into_iter().map(|member| {
        let outcome = member.outcome.map(|outcome| format!("{outcome:?}"));
        render_row([
            describe_step_number(&member.step),
            &member.application,
            &outcome.unwrap_or_else(|| format!("{:?}", member.status)),
            &member.target_revisions.join(", "),
            &member.last_transition_time.to_string(),
            &member.operation.map(|id| id.to_string()).unwrap_or_default(),
            &member.message,
        ])
    });
    Markup::concat([
        Markup::text_element("h2", "Steps"),
        render_table(
            ["Step", "Selects", "Applications", "Parallel", "Gates", "Status", "Started", "Duration"],
            steps,
        ),
        Markup::text_element("h2", "Applications"),
        render_table(
            ["Step", "Application", "Status", "Target", "Since", "Operation", "Message"],
            members.chain(left),
        ),
    ])
}

/// Step number of Applications outside all steps, as in Argo CD.
pub const NO_STEP: &str = "-1";

/// Status of an Application that has left the ApplicationSet.
const DEPARTED_STATUS: &str = "Departed";

/// Describes a step's number in words.
pub fn describe_step_number(number: &str) -> &str {
    if number == NO_STEP { "none" } else { number }
}

/// Describes a step's status in words.
pub fn describe_step_status(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Waiting => "waiting",
        StepStatus::Held => "held",
        StepStatus::Rolling => "in progress",
        StepStatus::Failed => "failed",
        StepStatus::RollingBack => "being rolled back",
        StepStatus::RolledBack => "rolled back",
        StepStatus::Passed => "passed",
        StepStatus::AlreadyDone => "already done",
        StepStatus::Empty => "no Applications",
        StepStatus::Unfinished => "not finished",
        StepStatus::NotReached => "not reached",
    }
}

/// Describes an approval, such as `ann (CHG-7) at 2026-11-26T10:00:00Z`.
pub fn describe_approval(approval: &ApprovalView) -> String {
    let requester = Requester { name: &approval.by, reason: approval.reason.as_deref().unwrap_or_default() };
    format!("{} at {}", requester.display(), approval.at)
}

fn render_deletion(deletion: &TeardownView) -> Markup {
    let shown = deletion.steps.iter().filter(|step| step.step.is_some() || step.members > 0);
    let steps = shown.map(|step| {
        let number = step.step.map_or_else(|| NO_STEP.to_owned(), |number| number.to_string());
        let of_step = deletion.members.iter().filter(|member| member.step == number);
        let gone = of_step.filter(|member| deletion.order.is_intended_end(member.status)).count();
        render_row([
            describe_step_number(&number),
            &step.selects,
            &format!("{gone} of {}", step.members),
            &step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string()),
        ])
    });
    let members = deletion.members.iter().map(|member| {
        render_row([
            describe_step_number(&member.step),
            &member.application,
            &format!("{:?}", member.status),
            &member.since.to_string(),
            &member.message,
        ])
    });
    let approvals = deletion.approvals.iter().map(|one| {
        Markup::text_element(
            "p",
            &format!(
                "Deletions that were blocked because their number exceeded the limit; approved by {}.",
                describe_approval(one)
            ),
        )
    });
    Markup::concat([
        Markup::concat(approvals),
        Markup::text_element("h2", "Steps, in the order of the deletion"),
        render_table(
            [
                "Step",
                "Selects",
                if deletion.order == OrderKind::Orphan { "Released" } else { "Deleted" },
                "Parallel",
            ],
            steps,
        ),
        Markup::text_element("h2", "Applications"),
        render_table(["Step", "Application", "Status", "Since", "Message"], members),
    ])
}

fn render_decisions(document: &RunDetails) -> Markup {
    if document.decisions.is_empty() {
        return Markup::default();
    }
    let rows = document.decisions.iter().map(|event| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        render_row([&at, event.by.as_deref().unwrap_or_default(), &event.text])
    });
    render_section("Decisions", vec![render_table(["Time", "User", "Decision"], rows)])
}

fn render_waits(document: &RunDetails) -> Markup {
    if document.waits.is_empty() {
        return Markup::default();
    }
    let rows = document.waits.iter().map(|wait| {
        let until = wait.until.map(|until| until.to_string());
        let took = wait.until.map(|until| format_duration(until.since(wait.since)));
        render_row([
            &wait.subject,
            &wait.reason,
            &wait.since.to_string(),
            &until.unwrap_or_else(|| "still".to_owned()),
            &took.unwrap_or_default(),
        ])
    });
    render_section("Waits", vec![render_table(["Subject", "Reason", "From", "Until", "Duration"], rows)])
}

fn render_log(document: &RunDetails, events: &[super::RunEvent]) -> Markup {
    let note = (document.compacted_events > 0)
        .then(|| format!("{} older events are no longer stored.", document.compacted_events));
    let rows = events.iter().map(|event| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        render_row([&event.sequence.to_string(), &at, &event.text])
    });
    let none = events.is_empty().then(|| {
        let reason = if document.is_compacted() { COMPACTED_NOTE } else { "No events can be read." };
        Markup::text_element_with_class("p", "quiet", reason)
    });
    Markup::concat([
        Markup::text_element("h2", "Recorded events"),
        Markup::concat(note.iter().map(|text| Markup::text_element_with_class("p", "quiet", text))),
        none.unwrap_or_else(|| render_table(["Number", "Time", "Event"], rows)),
    ])
}
