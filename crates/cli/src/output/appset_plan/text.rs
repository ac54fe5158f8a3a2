//! Plans of ApplicationSets as trees: rollout and deletion → step → Application.

use super::{MemberRow, Part, PlanDrawing, Stage};
use crate::output::{Style, Text, one_line};

/// Maximum width of the name column. Longer names aren't aligned.
const NAME_WIDTH_MAX: usize = 56;

pub fn text(plans: &[PlanDrawing]) -> Text {
    let mut text = Text::new();
    for (index, plan) in plans.iter().enumerate() {
        if index > 0 {
            text.end_line();
        }
        text.add(Style::Bold, &plan.title);
        text.add(Style::Plain, format!(": {}", plan.subtitle));
        text.end_line();
        plan.parts.iter().for_each(|part| add_part(&mut text, part));
    }
    text
}

fn add_part(text: &mut Text, part: &Part) {
    text.end_line();
    text.add(Style::Accent, part.name);
    if !part.note.is_empty() {
        text.add(Style::Dim, format!("  {}", part.note));
    }
    text.end_line();
    let names = part.stages.iter().flat_map(|stage| &stage.rows).map(|row| row.name.chars().count());
    let width = names.max().unwrap_or(0).min(NAME_WIDTH_MAX);
    let last = part.stages.len().saturating_sub(1);
    for (index, stage) in part.stages.iter().enumerate() {
        add_stage(text, stage, index == last, width);
    }
}

fn add_stage(text: &mut Text, stage: &Stage, is_last: bool, width: usize) {
    let (branch, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    text.add(Style::Dim, branch);
    text.add(Style::Bold, &stage.title);
    text.add(Style::Dim, format!("  {}", stage.note));
    for (word, what) in &stage.terms {
        text.add(Style::Dim, format!("  {word} {what}"));
    }
    text.end_line();
    let last = stage.rows.len().saturating_sub(1);
    for (index, row) in stage.rows.iter().enumerate() {
        text.add(Style::Dim, format!("{trunk}{}", if index == last { "└─ " } else { "├─ " }));
        add_row(text, row, width);
        for detail in &row.details {
            text.add(Style::Dim, format!("{trunk}{}", if index == last { "   " } else { "│  " }));
            text.add(Style::Plain, format!("   {}", one_line(detail)));
            text.end_line();
        }
    }
}

fn add_row(text: &mut Text, row: &MemberRow, width: usize) {
    let words = [&row.revision, &row.mark].into_iter().filter(|word| !word.is_empty());
    let words: Vec<&str> = words.map(String::as_str).collect();
    if words.is_empty() {
        text.add(Style::Plain, &row.name);
    } else {
        text.add(Style::Plain, format!("{:<width$}", row.name));
        text.add(Style::Dim, format!("  {}", words.join("  ")));
    }
    text.end_line();
}
