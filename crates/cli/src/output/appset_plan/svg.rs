//! Plans of ApplicationSets as pictures: the rollout and the deletion from top to bottom, each step a card,
//! each Application a row.

use super::{MemberRow, PlanDrawing, Stage};
use crate::output::picture::{Card, Chip, Picture, Row, shorten};

/// Prefix of a row with a changed field of the Application above it.
const CHANGE_PREFIX: &str = "↳";
const SYNC_COLOR: &str = "#2f6fb5";
const DELETION_COLOR: &str = "#c0392b";
const IDLE_COLOR: &str = "#5b6773";
/// Colors of a revision: background and text.
const REVISION_COLORS: (&str, &str) = ("#dbe9f9", "#1f5591");
/// Number of characters that fit in a chip.
const CHIP_CHARS_MAX: usize = 14;

pub fn picture(plan: &PlanDrawing) -> String {
    let mut picture = Picture::new(&plan.title, &plan.subtitle);
    for (number, part) in plan.parts.iter().enumerate() {
        if number > 0 {
            picture.add_space();
        }
        let colour = if part.is_deletion { DELETION_COLOR } else { SYNC_COLOR };
        picture.add_group(part.name, &part.note, colour);
        let mut before = None;
        for stage in &part.stages {
            if let Some(end) = before.filter(|_| stage.is_consecutive) {
                picture.add_arrow(end, false);
            }
            let color = if stage.is_idle { IDLE_COLOR } else { colour };
            before = Some(picture.add_card(&Card {
                title: &stage.title,
                note: &stage.note,
                color,
                rows: stage_rows(stage),
                links: Vec::new(),
            }));
        }
    }
    picture.finish()
}

fn stage_rows(stage: &Stage) -> Vec<Row<'_>> {
    let terms = stage.terms.iter().map(|(word, what)| Row {
        kind: word,
        name: what.clone(),
        reason: "",
        mark: String::new(),
        chip: None,
    });
    let members = stage.rows.iter().flat_map(member_rows);
    terms.chain(members).collect()
}

/// Returns a row for an Application, followed by one for each of its changes.
fn member_rows(row: &MemberRow) -> Vec<Row<'_>> {
    let own = Row {
        kind: "",
        name: row.name.clone(),
        reason: &row.revision,
        mark: row.mark.clone(),
        chip: (!row.revision.is_empty())
            .then(|| Chip { word: shorten(&row.revision, CHIP_CHARS_MAX), colors: REVISION_COLORS }),
    };
    let details = row.details.iter().map(|detail| Row {
        kind: CHANGE_PREFIX,
        name: detail.clone(),
        reason: detail,
        mark: String::new(),
        chip: None,
    });
    std::iter::once(own).chain(details).collect()
}
