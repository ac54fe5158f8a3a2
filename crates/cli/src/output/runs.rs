//! Rollouts and deletions of ApplicationSets in human-readable form: `appset runs` and `appset show-run`.

use std::time::Duration;

use tidegate_model::{Timestamp, format_duration};
use tidegate_views::runs::{RunDetails, RunEvent, RunSummary};

use super::{Style, Text, application_set, one_line, table};

/// Formats one line for each run.
pub fn list(lines: &[RunSummary], now: Timestamp, width: Option<u16>) -> Text {
    let rows = lines.iter().map(|line| {
        let revisions: Vec<String> =
            line.revisions.iter().map(|revision| application_set::shorten_commit(revision)).collect();
        [
            line.id.to_string(),
            line.kind.word().to_owned(),
            line.set.clone().unwrap_or_default(),
            describe_result(line),
            line.progress(),
            format!("{} ago", format_duration_between(line.started_at, now)),
            line.finished_at.map(|at| format_duration_between(line.started_at, at)).unwrap_or_default(),
            revisions.join(" "),
            line.by.clone().unwrap_or_default(),
            line.damage.as_ref().unwrap_or(&line.message).clone(),
        ]
    });
    let heads = ["ID", "KIND", "APPSET", "RESULT", "DONE", "STARTED", "TOOK", "REVISION", "BY", "MESSAGE"];
    table(heads, rows, width)
}

fn format_duration_between(from: Timestamp, to: Timestamp) -> String {
    format_duration(Duration::from_secs(to.since(from).as_secs()))
}

/// Returns a run's result or, before it finishes, its state.
fn describe_result(line: &RunSummary) -> String {
    let text = [
        line.end.clone().or_else(|| Some("running".to_owned()).filter(|_| line.finished_at.is_none())),
        line.paused.then(|| "paused".to_owned()),
        line.damage.is_some().then(|| "damaged".to_owned()),
    ];
    text.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn result_style(line: &RunSummary) -> Style {
    match line.end.as_deref() {
        Some("Completed") => Style::Good,
        Some("Superseded") => Style::Plain,
        Some(_) => Style::Bad,
        None => Style::Accent,
    }
}

/// Formats a run with its steps, Applications, decisions and waits.
pub fn show(run: &RunDetails, width: Option<u16>) -> Text {
    let line = &run.line;
    let mut text = Text::new();
    let mut field = |name: &str, style: Style, value: Option<String>| {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        text.add(Style::Dim, format!("{name:<11}"));
        text.add(style, one_line(&value));
        text.end_line();
    };
    field(line.kind.word(), Style::Plain, Some(line.id.to_string()));
    field("appset", Style::Bold, line.set.clone());
    field("result", result_style(line), Some(describe_result(line)));
    field("message", Style::Plain, Some(line.message.clone()));
    field("done", Style::Plain, Some(line.progress()));
    field("requester", Style::Plain, line.by.clone());
    field("reason", Style::Plain, line.reason.clone());
    field("revisions", Style::Plain, Some(line.revisions.join(", ")));
    field("started", Style::Plain, Some(line.started_at.to_string()));
    field("finished", Style::Plain, line.finished_at.map(|at| at.to_string()));
    field("took", Style::Plain, line.finished_at.map(|at| format_duration_between(line.started_at, at)));
    field("state", Style::Plain, run.explanation.as_ref().map(ToString::to_string));
    if let Some(rollout) = &run.rollout {
        text.end_line();
        text.append(application_set::format_rollout(rollout, width));
    }
    if let Some(deletion) = &run.deletion {
        text.end_line();
        text.append(application_set::format_deletion(deletion, width));
    }
    if !run.decisions.is_empty() {
        text.end_line();
        text.append(decision_table(&run.decisions, width));
    }
    if !run.waits.is_empty() {
        text.end_line();
        let rows = run.waits.iter().map(|wait| {
            let took = wait.until.map(|until| format_duration(until.since(wait.since)));
            let since = wait.since.to_string();
            [since, wait.subject.clone(), took.unwrap_or_else(|| "still".to_owned()), wait.reason.clone()]
        });
        text.append(table(["SINCE", "WAITING", "TIME", "REASON"], rows, width));
    }
    text
}

fn decision_table(events: &[RunEvent], width: Option<u16>) -> Text {
    let rows = events.iter().map(|event| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        [at, event.by.clone().unwrap_or_default(), event.text.clone()]
    });
    table(["TIME", "BY", "DECISION"], rows, width)
}

/// Formats all recorded events, in order.
pub fn event_table(events: &[RunEvent], width: Option<u16>) -> Text {
    let rows = events.iter().map(|event| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        [event.sequence.to_string(), at, event.text.clone()]
    });
    table(["NUMBER", "TIME", "EVENT"], rows, width)
}
