//! Plans as pictures: the phases from top to bottom, each wave a card, each object a row.

use tidegate_model::{Action, Phase, PlannedWave, Severity, Task, TaskId, format_duration};

use super::{PlanReport, format_count, object_name};
use crate::output::picture::{Card, Chip, Picture, Row};

pub fn picture(report: &PlanReport<'_>) -> String {
    let title = format!("Plan for {}", report.application);
    let mut picture =
        Picture::new(&title, &format!("{}, compared with {}", report.describe_size(), report.compared_with));
    let mut before: Option<(Phase, usize)> = None;
    for (wave, tasks) in report.waves() {
        if before.is_some_and(|(phase, _)| phase != wave.phase) {
            picture.add_space();
        }
        if let Some((phase, end)) = before {
            let only_on_failure = wave.phase == Phase::SyncFail && phase != Phase::SyncFail;
            picture.add_arrow(end, only_on_failure);
        }
        if before.is_none_or(|(phase, _)| phase != wave.phase) {
            let note = if wave.phase == Phase::SyncFail { "after a failure" } else { "" };
            picture.add_group(&wave.phase.to_string(), note, phase_color(wave.phase));
        }
        let (title, note) = (format!("wave {}", report.wave_number(wave)), wave_note(wave, tasks.len()));
        let rows = tasks.iter().map(build_row).collect();
        let links = row_links(report, wave);
        let end = picture.add_card(&Card {
            title: &title,
            note: &note,
            color: phase_color(wave.phase),
            rows,
            links,
        });
        before = Some((wave.phase, end));
    }
    let warnings = &report.plan.warnings;
    if !warnings.is_empty() {
        let errors = warnings.iter().filter(|warning| warning.severity == Severity::Error).count();
        let count = format_count(warnings.len(), "warning");
        picture.add_remark(&format!("{count} ({errors} blocking the sync); see the tree output"));
    }
    picture.finish()
}

/// Returns the dependencies within a wave, from each row to the rows that wait for it.
fn row_links(report: &PlanReport<'_>, wave: &PlannedWave) -> Vec<(usize, usize)> {
    let row = |id: TaskId| id.index().checked_sub(TaskId(wave.first).index());
    let links = wave.task_ids().flat_map(|dependent| {
        report.plan.dependencies_of(dependent).map(move |(dependency, _)| (dependency, dependent))
    });
    links.filter_map(|(from, to)| Some((row(from)?, row(to)?))).collect()
}

fn build_row(task: &Task) -> Row<'_> {
    Row {
        kind: &task.gvk.kind,
        name: object_name(task),
        reason: &task.reason,
        mark: if task.is_hook() { "hook".to_owned() } else { String::new() },
        chip: Some(Chip { word: task.action.as_str().to_owned(), colors: chip_colors(task.action) }),
    }
}

fn wave_note(wave: &PlannedWave, tasks: usize) -> String {
    let mut note = format_count(tasks, "object");
    if let Some(timeout) = wave.timeout {
        note.push_str(&format!(", at most {}", format_duration(timeout)));
    }
    if !wave.gates.is_empty() {
        note.push_str(&format!(", gated by {}", wave.gates.join(", ")));
    }
    note
}

fn phase_color(phase: Phase) -> &'static str {
    match phase {
        Phase::PreSync | Phase::PreDelete => "#8a5cb8",
        Phase::Sync => "#2f6fb5",
        Phase::PostSync | Phase::PostDelete => "#2e8b57",
        Phase::SyncFail => "#c0392b",
    }
}

/// Returns the background and text colors.
fn chip_colors(action: Action) -> (&'static str, &'static str) {
    match action {
        Action::Create => ("#d9f2e3", "#1c6b41"),
        Action::Apply | Action::Replace => ("#dbe9f9", "#1f5591"),
        Action::Prune => ("#fbdcd8", "#9c2b1f"),
        Action::PruneSkipped => ("#fdf0d2", "#8a6100"),
        Action::Unchanged => ("#e8ebee", "#5b6773"),
    }
}
