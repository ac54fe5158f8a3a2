//! Kept plans for people.

use tidegate_service::lines::{PlanLine, PlanState};

use super::text::one_line;
use super::{Style, Text, table};

/// Digits of a commit that tell it from others.
const SHORT: usize = 7;

/// One line for each.
pub fn list(lines: &[PlanLine], width: Option<u16>) -> Text {
    let rows = lines.iter().map(|one| {
        let approvals: Vec<String> = one.approvals.iter().map(|approval| approval.by.clone()).collect();
        let name = match one.namespace.as_str() {
            "argocd" => one.name.clone(),
            namespace => format!("{namespace}/{}", one.name),
        };
        [
            one.short().to_owned(),
            name,
            one.state.to_string(),
            revision(one),
            one.does(),
            one.made_at.to_string(),
            one.by.clone(),
            approvals.join(", "),
        ]
    });
    table(["PLAN", "NAME", "STATE", "REVISION", "DOES", "MADE", "BY", "APPROVED BY"], rows, width)
}

/// How a plan is called, and what can be done with it.
pub fn what_next(name: &str, line: &PlanLine) -> Text {
    let mut text = Text::new();
    let mut say = |style, words: String| {
        text.add(style, words);
        text.end_line();
    };
    say(Style::Plain, String::new());
    say(Style::Plain, format!("plan {} (revision {})", line.hash, revision(line)));
    if !line.reason.is_empty() {
        say(Style::Plain, format!("asked for by {}: {}", line.by, one_line(&line.reason)));
    }
    for approval in &line.approvals {
        say(Style::Plain, approval.words());
    }
    if let Some(by) = &line.withdrawn_by {
        say(Style::Plain, format!("withdrawn by {}", by.who()));
    }
    let short = line.short();
    let next = match (&line.operation, &line.needs) {
        (Some(operation), _) => format!("operation {operation} carries it out, or has"),
        (None, _) if matches!(line.state, PlanState::Withdrawn) => {
            format!("it is not carried out any more; make another: tidegate app plan {name}")
        }
        (None, Some(who)) => format!("needs {who}: tidegate app approve {name} {short}"),
        (None, None) => format!("to carry it out: tidegate app sync {name} --plan {short}"),
    };
    if line.operation.is_none() {
        say(Style::Dim, format!("what it changes: tidegate app diff {name} --plan {short}"));
    }
    say(Style::Dim, next);
    text
}

fn revision(line: &PlanLine) -> String {
    let short = |one: &str| one.chars().take(SHORT).collect::<String>();
    line.revision.split(',').map(short).collect::<Vec<_>>().join(" ")
}
