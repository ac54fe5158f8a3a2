//! Plans of ApplicationSets as Mermaid flow charts for Markdown.

use super::changes::REMOVAL;
use super::{Part, PlanDrawing};
use crate::output::diagram::{Diagram, NodeStyle};

pub fn diagram(plan: &PlanDrawing) -> String {
    let mut diagram = Diagram::new();
    for part in &plan.parts {
        let note = if part.note.is_empty() { String::new() } else { format!(": {}", part.note) };
        diagram.begin_group(part.name, &format!("{}{note}", part.name));
        for (number, stage) in part.stages.iter().enumerate() {
            let terms = stage.terms.iter().map(|(word, what)| format!(", {word} {what}"));
            let title = format!("{} ({}{})", stage.title, stage.note, terms.collect::<String>());
            diagram.begin_row(&node_id(part, number), &title);
            let class = match (stage.is_idle, part.is_deletion) {
                (true, _) => "idle",
                (false, true) => "prune",
                (false, false) => "apply",
            };
            for row in &stage.rows {
                let text = [&row.revision, &row.mark].into_iter().chain(&row.details).map(String::as_str);
                let class = if row.is_idle { "idle" } else { class };
                diagram.add_node_with_lines(&row.name, text, NodeStyle { class, is_hook: false });
            }
            diagram.end_row();
        }
        diagram.end_group();
    }
    for part in &plan.parts {
        let follow = part.stages.iter().enumerate().skip(1).filter(|(_, stage)| stage.is_consecutive);
        for (number, _) in follow {
            diagram.add_arrow(&node_id(part, number.saturating_sub(1)), "", &node_id(part, number));
        }
    }
    diagram.finish()
}

/// Returns the ID of a node, such as `r0` or `d0`.
fn node_id(part: &Part, number: usize) -> String {
    let letter = match part.is_deletion {
        false => 'r',
        true if part.name == REMOVAL => 'x',
        true => 'd',
    };
    format!("{letter}{number}")
}
