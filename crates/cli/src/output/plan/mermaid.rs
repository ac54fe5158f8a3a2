//! A plan as a Mermaid flow chart, for Markdown.

use std::fmt::Write as _;

use tidegate_model::{Action, Phase, PlannedWave, Task};

use super::{PlanReport, object_name};
use crate::output::one_line;

/// Colours of the boxes.
const CLASSES: &str = "\
  classDef create fill:#e6f6ec,stroke:#2e8b57,color:#14402a
  classDef apply fill:#e8f1fb,stroke:#3b7dc4,color:#14304f
  classDef prune fill:#fdecea,stroke:#c0392b,color:#5a1a13
  classDef idle fill:#f3f4f6,stroke:#9aa3ad,color:#4a525b
  classDef hook stroke-width:2px,stroke-dasharray:5 3
";

pub fn diagram(report: &PlanReport<'_>) -> String {
    let mut diagram = "flowchart TD\n".to_owned();
    let mut phase = None;
    let mut number = 0_usize;
    let mut hooks = Vec::new();
    for (wave, (planned, tasks)) in report.waves().enumerate() {
        if phase.replace(planned.phase) != Some(planned.phase) {
            if wave > 0 {
                diagram.push_str("  end\n");
            }
            line(&mut diagram, &format!("  subgraph {0}[\"{0}\"]", planned.phase));
        }
        line(&mut diagram, &format!("    subgraph w{wave}[\"wave {}\"]", planned.wave));
        diagram.push_str("      direction LR\n");
        for task in tasks {
            line(&mut diagram, &format!("      t{number}{}", node(task)));
            if task.is_hook() {
                hooks.push(format!("t{number}"));
            }
            number = number.saturating_add(1);
        }
        diagram.push_str("    end\n");
    }
    if phase.is_some() {
        diagram.push_str("  end\n");
    }
    add_arrows(&mut diagram, &report.plan.waves);
    diagram.push_str(CLASSES);
    if !hooks.is_empty() {
        line(&mut diagram, &format!("  class {} hook", hooks.join(",")));
    }
    diagram
}

/// Writing to a String cannot fail.
fn line(diagram: &mut String, line: &str) {
    let _ = writeln!(diagram, "{line}");
}

/// Waves follow each other; the waves of a failure follow nothing in particular.
fn add_arrows(diagram: &mut String, waves: &[PlannedWave]) {
    let mut before: Option<(usize, Phase)> = None;
    for (wave, planned) in waves.iter().enumerate() {
        match before {
            Some((earlier, phase)) if phase != Phase::SyncFail && planned.phase == Phase::SyncFail => {
                line(diagram, &format!("  w{earlier} -. after a failure .-> w{wave}"));
            }
            Some((earlier, _)) => line(diagram, &format!("  w{earlier} --> w{wave}")),
            None => {}
        }
        before = Some((wave, planned.phase));
    }
}

fn node(task: &Task) -> String {
    let class = match task.action {
        Action::Create => "create",
        Action::Apply | Action::Replace => "apply",
        Action::Prune => "prune",
        Action::PruneSkipped | Action::Unchanged => "idle",
    };
    let name = format!("{} {}", task.gvk.kind, object_name(task));
    let label = format!("{}<br/><i>{}</i>", text(&name), task.action.as_str());
    if task.is_hook() { format!("([\"{label}\"]):::{class}") } else { format!("[\"{label}\"]:::{class}") }
}

/// Quotes and brackets have a meaning in Mermaid.
fn text(label: &str) -> String {
    one_line(label).chars().fold(String::new(), |mut text, c| {
        match c {
            '"' => text.push_str("#quot;"),
            '#' => text.push_str("#35;"),
            '<' => text.push_str("#lt;"),
            '>' => text.push_str("#gt;"),
            '&' => text.push_str("#amp;"),
            '`' => text.push_str("#96;"),
            c => text.push(c),
        }
        text
    })
}
