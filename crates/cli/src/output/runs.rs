//! Rollouts and deletions of ApplicationSets for people: `appset runs` and `appset show-run`.

use std::time::Duration;

use tidegate_model::{Timestamp, format_duration};
use tidegate_service::documents::runs::{RunDocument, RunFact, RunLine};

use super::{Style, Text, one_line, set, table};

/// One line for each.
pub fn list(lines: &[RunLine], now: Timestamp, width: Option<u16>) -> Text {
    let rows = lines.iter().map(|line| {
        let revisions: Vec<String> = line.revisions.iter().map(|revision| set::short(revision)).collect();
        [
            line.id.to_string(),
            line.kind.word().to_owned(),
            line.set.clone().unwrap_or_default(),
            result(line),
            line.progress(),
            format!("{} ago", seconds(line.started_at, now)),
            line.finished_at.map(|at| seconds(line.started_at, at)).unwrap_or_default(),
            revisions.join(" "),
            line.by.clone().unwrap_or_default(),
            line.damage.as_ref().unwrap_or(&line.message).clone(),
        ]
    });
    let heads = ["ID", "KIND", "SET", "RESULT", "DONE", "BEGAN", "TOOK", "REVISION", "BY", "MESSAGE"];
    table(heads, rows, width)
}

fn seconds(from: Timestamp, to: Timestamp) -> String {
    format_duration(Duration::from_secs(to.since(from).as_secs()))
}

/// How it ended, or how it stands.
fn result(line: &RunLine) -> String {
    let words = [
        line.end.clone().or_else(|| Some("under way".to_owned()).filter(|_| line.finished_at.is_none())),
        line.paused.then(|| "paused".to_owned()),
        line.damage.is_some().then(|| "damaged".to_owned()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn style(line: &RunLine) -> Style {
    match line.end.as_deref() {
        Some("Completed") => Style::Good,
        Some("Superseded") => Style::Plain,
        Some(_) => Style::Bad,
        None => Style::Accent,
    }
}

/// What one has come to: its steps and Applications, who decided what, and what it waited for.
pub fn show(run: &RunDocument, width: Option<u16>) -> Text {
    let line = &run.line;
    let mut text = Text::new();
    let mut field = |name: &str, style: Style, value: Option<String>| {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        text.add(Style::Dim, format!("{name:<11}"));
        text.add(style, one_line(&value));
        text.end_line();
    };
    field(line.kind.word(), Style::Plain, Some(line.id.to_string()));
    field("set", Style::Bold, line.set.clone());
    field("result", style(line), Some(result(line)));
    field("message", Style::Plain, Some(line.message.clone()));
    field("done", Style::Plain, Some(line.progress()));
    field("asked by", Style::Plain, line.by.clone());
    field("why", Style::Plain, line.reason.clone());
    field("revisions", Style::Plain, Some(line.revisions.join(", ")));
    field("began", Style::Plain, Some(line.started_at.to_string()));
    field("ended", Style::Plain, line.finished_at.map(|at| at.to_string()));
    field("took", Style::Plain, line.finished_at.map(|at| seconds(line.started_at, at)));
    field("stands", Style::Plain, run.explanation.as_ref().map(ToString::to_string));
    if let Some(rollout) = &run.rollout {
        text.end_line();
        text.append(set::progress(rollout, width));
    }
    if let Some(deletion) = &run.deletion {
        text.end_line();
        text.append(set::deletion(deletion, width));
    }
    if !run.decisions.is_empty() {
        text.end_line();
        text.append(decisions(&run.decisions, width));
    }
    if !run.waits.is_empty() {
        text.end_line();
        let rows = run.waits.iter().map(|wait| {
            let took = wait.until.map(|until| format_duration(until.since(wait.since)));
            let since = wait.since.to_string();
            [since, wait.what.clone(), took.unwrap_or_else(|| "still".to_owned()), wait.why.clone()]
        });
        text.append(table(["SINCE", "WHO WAITED", "FOR", "BECAUSE"], rows, width));
    }
    text
}

fn decisions(facts: &[RunFact], width: Option<u16>) -> Text {
    let rows = facts.iter().map(|fact| {
        let at = fact.at.map(|at| at.to_string()).unwrap_or_default();
        [at, fact.by.clone().unwrap_or_default(), fact.text.clone()]
    });
    table(["AT", "WHO", "DECIDED"], rows, width)
}

/// Everything that was recorded, in order.
pub fn log(facts: &[RunFact], width: Option<u16>) -> Text {
    let rows = facts.iter().map(|fact| {
        let at = fact.at.map(|at| at.to_string()).unwrap_or_default();
        [fact.sequence.to_string(), at, fact.text.clone()]
    });
    table(["NUMBER", "AT", "WHAT"], rows, width)
}
