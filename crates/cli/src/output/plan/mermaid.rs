//! Plans as Mermaid flow charts for Markdown.

use tidegate_model::{Action, Phase, PlannedWave, Task};

use super::{PlanReport, object_name};
use crate::output::diagram::{Diagram, NodeStyle};

/// Maximum number of dependencies in a chart. By default, Mermaid rejects charts with more than 500 arrows.
const ARROWS_MAX: usize = 300;

pub fn diagram(report: &PlanReport<'_>) -> String {
    let mut diagram = Diagram::new();
    let mut phase = None;
    let mut nodes = Vec::new();
    for (wave, (planned, tasks)) in report.waves().enumerate() {
        if phase.replace(planned.phase) != Some(planned.phase) {
            if wave > 0 {
                diagram.end_group();
            }
            let name = planned.phase.to_string();
            diagram.begin_group(&name, &name);
        }
        diagram.begin_row(&format!("w{wave}"), &format!("wave {}", report.wave_number(planned)));
        for task in tasks {
            let name = format!("{} {}", task.gvk.kind, object_name(task));
            nodes.push(diagram.add_node(&name, task.action.as_str(), node_style(task)));
        }
        diagram.end_row();
    }
    if phase.is_some() {
        diagram.end_group();
    }
    // Mermaid rejects a chart with too many arrows.
    let has_arrows = report.plan.dependencies.len() <= ARROWS_MAX;
    if !has_arrows {
        let text = format!("{} dependencies, which `-o json` lists", report.plan.dependencies.len());
        diagram.add_node(&text, "not drawn", NodeStyle { class: "idle", is_hook: false });
    }
    for one in report.plan.dependencies.iter().filter(|_| has_arrows) {
        if let (Some(from), Some(to)) = (nodes.get(one.dependency.index()), nodes.get(one.dependent.index()))
        {
            diagram.add_arrow(from, "", to);
        }
    }
    add_arrows(&mut diagram, &report.plan.waves);
    diagram.finish()
}

/// Connects consecutive waves. The arrow to the first SyncFail wave has a label, because that wave runs only
/// after a failure.
fn add_arrows(diagram: &mut Diagram, waves: &[PlannedWave]) {
    let mut before: Option<(usize, Phase)> = None;
    for (wave, planned) in waves.iter().enumerate() {
        if let Some((earlier, phase)) = before {
            let is_failure = phase != Phase::SyncFail && planned.phase == Phase::SyncFail;
            let text = if is_failure { "after a failure" } else { "" };
            diagram.add_arrow(&format!("w{earlier}"), text, &format!("w{wave}"));
        }
        before = Some((wave, planned.phase));
    }
}

fn node_style(task: &Task) -> NodeStyle {
    let class = match task.action {
        Action::Create => "create",
        Action::Apply | Action::Replace => "apply",
        Action::Prune => "prune",
        Action::PruneSkipped | Action::Unchanged => "idle",
    };
    NodeStyle { class, is_hook: task.is_hook() }
}
