//! The plan of a set as a picture: rollout and deletion from top to bottom, a card for each step, a row for each
//! Application.

use super::{Drawn, Line, Stage};
use crate::output::picture::{Card, Chip, Picture, Row, shorten};

/// What stands before something that would change of the Application above.
const CHANGE: &str = "↳";
const SYNC: &str = "#2f6fb5";
const DELETION: &str = "#c0392b";
const LEFT_ALONE: &str = "#5b6773";
/// Background and letters of a revision.
const REVISION: (&str, &str) = ("#dbe9f9", "#1f5591");
/// Letters that fit into a chip.
const CHIP_CHARS: usize = 14;

pub fn picture(plan: &Drawn) -> String {
    let mut picture = Picture::new(&plan.title, &plan.sub);
    for (number, part) in plan.parts.iter().enumerate() {
        if number > 0 {
            picture.part();
        }
        let colour = if part.is_deletion { DELETION } else { SYNC };
        picture.group(part.name, &part.note, colour);
        let mut before = None;
        for stage in &part.stages {
            if let Some(end) = before.filter(|_| stage.follows) {
                picture.arrow(end, false);
            }
            let colour = if stage.is_idle { LEFT_ALONE } else { colour };
            before = Some(picture.card(&Card {
                title: &stage.title,
                note: &stage.note,
                colour,
                rows: rows(stage),
            }));
        }
    }
    picture.finish()
}

fn rows(stage: &Stage) -> Vec<Row<'_>> {
    let terms = stage.terms.iter().map(|(word, what)| Row {
        kind: word,
        name: what.clone(),
        reason: "",
        mark: String::new(),
        chip: None,
    });
    let members = stage.rows.iter().flat_map(member);
    terms.chain(members).collect()
}

/// A row for an Application, and one for each thing that would change of it.
fn member(row: &Line) -> Vec<Row<'_>> {
    let own = Row {
        kind: "",
        name: row.name.clone(),
        reason: &row.revision,
        mark: row.mark.clone(),
        chip: (!row.revision.is_empty())
            .then(|| Chip { word: shorten(&row.revision, CHIP_CHARS), colours: REVISION }),
    };
    let details = row.details.iter().map(|detail| Row {
        kind: CHANGE,
        name: detail.clone(),
        reason: detail,
        mark: String::new(),
        chip: None,
    });
    std::iter::once(own).chain(details).collect()
}
