//! Plans as trees: phase → wave → object.

use tidegate_model::{Action, Phase, PlannedWave, Severity, Task, TaskId, Warning, format_duration};

use super::{PlanReport, format_count, object_name};
use crate::output::{Style, Text, one_line};

/// Maximum width of the name column. Longer names aren't aligned.
const NAME_WIDTH_MAX: usize = 56;

/// Maximum number of dependencies listed for an object.
const DEPENDENCIES_MAX: usize = 3;

pub fn text(report: &PlanReport<'_>) -> Text {
    let mut text = Text::new();
    text.add(Style::Bold, format!("Plan for {}", report.application));
    text.add(Style::Plain, format!(": {} ", report.describe_size()));
    text.add(Style::Dim, format!("(compared with {})", report.compared_with));
    text.end_line();
    let widths = Widths::measure(&report.plan.tasks);
    let mut phase = None;
    let mut judges = report.judges.iter().copied();
    let mut waves = report.waves().peekable();
    while let Some((wave, tasks)) = waves.next() {
        if phase.replace(wave.phase) != Some(wave.phase) {
            text.end_line();
            text.add(Style::Accent, wave.phase.to_string());
            text.add(Style::Dim, phase_note(wave.phase));
            text.end_line();
        }
        let is_last = waves.peek().is_none_or(|(next, _)| next.phase != wave.phase);
        add_wave(&mut text, report, (wave, tasks), is_last, &widths, &mut judges);
    }
    add_excluded(&mut text, report);
    add_warnings(&mut text, &report.plan.warnings);
    text
}

fn phase_note(phase: Phase) -> &'static str {
    match phase {
        Phase::SyncFail => "  only after a failure",
        _ => "",
    }
}

struct Widths {
    name: usize,
    action: usize,
}

impl Widths {
    fn measure(tasks: &[Task]) -> Self {
        let widest = |width: fn(&Task) -> usize| tasks.iter().map(width).max().unwrap_or(0);
        Self {
            name: widest(|task| format_title(task).chars().count()).min(NAME_WIDTH_MAX),
            action: widest(|task| task.action.as_str().len()),
        }
    }
}

fn format_title(task: &Task) -> String {
    format!("{} {}", task.gvk.kind, object_name(task))
}

fn add_wave(
    text: &mut Text,
    report: &PlanReport<'_>,
    (wave, tasks): (&PlannedWave, &[Task]),
    is_last: bool,
    widths: &Widths,
    judges: &mut dyn Iterator<Item = Option<&'static str>>,
) {
    let (branch, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    text.add(Style::Dim, branch);
    text.add(Style::Bold, format!("wave {}", report.wave_number(wave)));
    text.add(Style::Dim, wave_note(wave));
    text.end_line();
    let last = tasks.len().saturating_sub(1);
    for ((index, task), id) in tasks.iter().enumerate().zip(wave.task_ids()) {
        text.add(Style::Dim, format!("{trunk}{}", if index == last { "└─ " } else { "├─ " }));
        let title = format_title(task);
        text.add(Style::Plain, format!("{title:<width$}  ", width = widths.name));
        let action = task.action.as_str();
        text.add(action_style(task.action), format!("{action:<width$}", width = widths.action));
        text.add(Style::Plain, format!("  {}", one_line(&task.reason)));
        if let Some(hook) = &task.hook {
            let policies: Vec<String> =
                hook.delete_policies.iter().map(|policy| format!("{policy:?}")).collect();
            let mut note = format!("  deleted by {}", policies.join(", "));
            if let Some(timeout) = hook.timeout {
                note.push_str(&format!("; at most {}", format_duration(timeout)));
            }
            if let Some(runner) = &hook.runner {
                note.push_str(&format!("; run by {runner}"));
            }
            text.add(Style::Dim, note);
        }
        text.add(Style::Dim, dependency_note(report, id));
        // Users expect a built-in rule. Only mention others.
        if let Some(judge @ ("user" | "convention" | "judge")) = judges.next().flatten() {
            text.add(Style::Dim, format!("  health rule: {judge}"));
        }
        text.end_line();
    }
}

/// Lists the objects that a task waits for, such as `  after Secret shop/password and 2 more`.
fn dependency_note(report: &PlanReport<'_>, id: TaskId) -> String {
    let titles: Vec<String> = report.plan.dependencies_of(id).map(|(_, task)| format_title(task)).collect();
    let shown = titles.get(..DEPENDENCIES_MAX).unwrap_or(&titles).join(", ");
    match titles.len().saturating_sub(DEPENDENCIES_MAX) {
        _ if titles.is_empty() => String::new(),
        0 => format!("  after {shown}"),
        more => format!("  after {shown} and {more} more"),
    }
}

fn wave_note(wave: &PlannedWave) -> String {
    let timeout = wave.timeout.map(|timeout| format!("  at most {}", format_duration(timeout)));
    let gates = (!wave.gates.is_empty()).then(|| format!("  gated by {}", wave.gates.join(", ")));
    timeout.into_iter().chain(gates).collect()
}

fn action_style(action: Action) -> Style {
    match action {
        Action::Create => Style::Good,
        Action::Apply | Action::Replace => Style::Accent,
        Action::Prune => Style::Bad,
        Action::PruneSkipped => Style::Warn,
        Action::Unchanged => Style::Dim,
    }
}

fn add_excluded(text: &mut Text, report: &PlanReport<'_>) {
    if report.excluded.is_empty() {
        return;
    }
    text.end_line();
    text.add(Style::Accent, "Excluded");
    text.end_line();
    for left in report.excluded {
        text.add(Style::Plain, format!("   {}  {}", one_line(&left.object), one_line(&left.reason)));
        text.add(Style::Dim, format!("  {}", one_line(&left.origin)));
        text.end_line();
    }
}

fn add_warnings(text: &mut Text, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    let errors = warnings.iter().filter(|warning| warning.severity == Severity::Error).count();
    let mut heads = Vec::new();
    if errors > 0 {
        heads.push(format_count(errors, "error"));
    }
    if let only @ 1.. = warnings.len().saturating_sub(errors) {
        heads.push(format_count(only, "warning"));
    }
    text.end_line();
    text.add(Style::Bold, heads.join(", "));
    text.end_line();
    for warning in warnings {
        let (style, word) = match warning.severity {
            Severity::Error => (Style::Bad, "error  "),
            Severity::Warning => (Style::Warn, "warning"),
        };
        text.add(Style::Plain, "   ");
        text.add(style, word);
        text.add(Style::Plain, format!("  {}", one_line(&warning.to_string())));
        text.add(Style::Dim, format!("  [{}]", warning.code));
        text.end_line();
    }
}
