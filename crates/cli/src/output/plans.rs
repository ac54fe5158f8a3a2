//! Stored plans in human-readable form.

use tidegate_model::argo::display_name;
use tidegate_state::summaries::{PlanState, PlanSummary};

use super::text::one_line;
use super::{Style, Text, table};

/// Number of digits in a short commit hash.
const SHORT_COMMIT_DIGITS: usize = 7;

/// Formats one line for each plan.
pub fn list(lines: &[PlanSummary], width: Option<u16>) -> Text {
    let rows = lines.iter().map(|one| {
        let approvals: Vec<String> = one.approvals.iter().map(|approval| approval.by.clone()).collect();
        let name = display_name(&one.namespace, &one.name);
        [
            one.short_hash().to_owned(),
            name,
            one.state.to_string(),
            format_revision(one),
            one.describe_actions(),
            one.created_at.to_string(),
            one.initiated_by.clone(),
            approvals.join(", "),
        ]
    });
    table(["PLAN", "NAME", "STATE", "REVISION", "CHANGES", "CREATED", "BY", "APPROVED BY"], rows, width)
}

/// Describes a plan's name and the next steps.
pub fn describe_next_steps(name: &str, line: &PlanSummary) -> Text {
    let mut text = Text::new();
    let mut say = |style, words: String| {
        text.add(style, words);
        text.end_line();
    };
    say(Style::Plain, String::new());
    say(Style::Plain, format!("plan {} (revision {})", line.hash, format_revision(line)));
    if !line.reason.is_empty() {
        say(Style::Plain, format!("requested by {}: {}", line.initiated_by, one_line(&line.reason)));
    }
    for approval in &line.approvals {
        say(Style::Plain, approval.describe());
    }
    if let Some(by) = &line.withdrawn_by {
        say(Style::Plain, format!("withdrawn by {}", by.approver_text()));
    }
    let short = line.short_hash();
    let next = match (&line.operation, &line.missing_approval) {
        (Some(operation), _) => format!("executed by operation {operation}"),
        (None, _) if matches!(line.state, PlanState::Withdrawn) => {
            format!("this plan can no longer be executed; create a new plan: tidegate app plan {name}")
        }
        (None, Some(who)) => format!("needs {who}; approve it with `tidegate app approve {name} {short}`"),
        (None, None) => format!("to execute it: tidegate app sync {name} --plan {short}"),
    };
    if line.operation.is_none() {
        say(Style::Dim, format!("to show its changes: tidegate app diff {name} --plan {short}"));
    }
    say(Style::Dim, next);
    text
}

fn format_revision(line: &PlanSummary) -> String {
    let short = |one: &str| one.chars().take(SHORT_COMMIT_DIGITS).collect::<String>();
    line.revision.split(',').map(short).collect::<Vec<_>>().join(" ")
}
