//! A plan as a picture: phases from top to bottom, a card for each wave, a row for each object.

use std::fmt::Write as _;

use tidegate_model::{Action, Phase, PlannedWave, Severity, Task, format_duration};

use super::{PlanReport, counted, object_name};
use crate::output::one_line;

const WIDTH: usize = 860;
const MARGIN: usize = 28;
/// Where the cards begin, right of the phase's name.
const CARD_X: usize = 150;
const CARD_WIDTH: usize = WIDTH - CARD_X - MARGIN;
const HEAD: usize = 84;
const CARD_HEAD: usize = 34;
const ROW: usize = 26;
const CARD_FOOT: usize = 8;
const GAP: usize = 26;
const PHASE_GAP: usize = 18;
const CHIP_WIDTH: usize = 96;
/// Where a hook's word stands, left of the chip.
const HOOK_X: usize = CARD_X + CARD_WIDTH - CHIP_WIDTH - 24;
/// Characters that fit beside it.
const NAME_CHARS: usize = 62;

const STYLE: &str = "\
text{font-family:Inter,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2933}
.title{font-size:20px;font-weight:600}.sub{font-size:13px;fill:#5b6773}
.phase{font-size:14px;font-weight:600}.wave{font-size:13px;font-weight:600}
.note{font-size:12px;fill:#5b6773}.kind{fill:#5b6773}.row{font-size:13px}
.chip{font-size:11px;font-weight:600;text-anchor:middle}.hook{font-size:11px;fill:#7a5195;text-anchor:end}
.card{fill:#ffffff;stroke:#d5dbe1}.line{stroke:#9aa3ad;stroke-width:1.5;fill:none}
";

struct Picture {
    body: String,
    y: usize,
}

pub fn picture(report: &PlanReport<'_>) -> String {
    let mut picture = Picture { body: String::new(), y: HEAD };
    picture.head(report);
    let mut before: Option<(Phase, usize)> = None;
    for (wave, tasks) in report.waves() {
        if before.is_some_and(|(phase, _)| phase != wave.phase) {
            picture.y += PHASE_GAP;
        }
        if let Some((phase, end)) = before {
            let only_on_failure = wave.phase == Phase::SyncFail && phase != Phase::SyncFail;
            picture.arrow(end, only_on_failure);
        }
        if before.is_none_or(|(phase, _)| phase != wave.phase) {
            picture.phase(wave.phase);
        }
        let end = picture.card(wave, tasks);
        before = Some((wave.phase, end));
    }
    picture.finish(report)
}

impl Picture {
    /// Writing to a String cannot fail.
    fn add(&mut self, element: &str) {
        let _ = writeln!(self.body, "{element}");
    }

    fn head(&mut self, report: &PlanReport<'_>) {
        let title = text(&format!("Plan for {}", report.application));
        let sub = text(&format!("{}, compared with {}", report.size(), report.compared_with));
        self.add(&format!(r#"<text class="title" x="{MARGIN}" y="38">{title}</text>"#));
        self.add(&format!(r#"<text class="sub" x="{MARGIN}" y="60">{sub}</text>"#));
    }

    fn phase(&mut self, phase: Phase) {
        let (colour, note) =
            (colour_of(phase), if phase == Phase::SyncFail { "after a failure" } else { "" });
        let (y, text_y) = (self.y, self.y + 22);
        self.add(&format!(r#"<rect x="{MARGIN}" y="{y}" width="4" height="34" rx="2" fill="{colour}"/>"#));
        let x = MARGIN + 14;
        if note.is_empty() {
            self.add(&format!(r#"<text class="phase" x="{x}" y="{text_y}">{phase}</text>"#));
        } else {
            let (first, second) = (self.y + 14, self.y + 31);
            self.add(&format!(r#"<text class="phase" x="{x}" y="{first}">{phase}</text>"#));
            self.add(&format!(r#"<text class="note" x="{x}" y="{second}">{note}</text>"#));
        }
    }

    /// From the card above to the next one.
    fn arrow(&mut self, from: usize, dashed: bool) {
        let (x, to) = (CARD_X + 40, self.y);
        let dash = if dashed { r#" stroke-dasharray="4 4""# } else { "" };
        let (end, tip) = (to.saturating_sub(2), to.saturating_sub(8));
        self.add(&format!(r#"<path class="line" d="M{x} {from}V{end}"{dash}/>"#));
        let (left, right) = (x - 4, x + 4);
        self.add(&format!(r##"<path d="M{left} {tip}H{right}L{x} {to}Z" fill="#9aa3ad"/>"##));
    }

    /// A wave. Returns where it ends.
    fn card(&mut self, wave: &PlannedWave, tasks: &[Task]) -> usize {
        let (top, height) = (self.y, CARD_HEAD + ROW * tasks.len() + CARD_FOOT);
        let colour = colour_of(wave.phase);
        self.add(&format!(
            r#"<rect class="card" x="{CARD_X}" y="{top}" width="{CARD_WIDTH}" height="{height}" rx="8"/>"#
        ));
        let (x, y) = (CARD_X + 16, top + 22);
        self.add(&format!(
            r#"<text class="wave" x="{x}" y="{y}" style="fill:{colour}">wave {}</text>"#,
            wave.wave
        ));
        let note = text(&wave_note(wave, tasks.len()));
        let right = CARD_X + CARD_WIDTH - 16;
        self.add(&format!(r#"<text class="note" x="{right}" y="{y}" text-anchor="end">{note}</text>"#));
        for (row, task) in tasks.iter().enumerate() {
            self.row(task, top + CARD_HEAD + ROW * row);
        }
        self.y = top + height + GAP;
        top + height
    }

    fn row(&mut self, task: &Task, top: usize) {
        let (x, y) = (CARD_X + 16, top + 17);
        let room = NAME_CHARS.saturating_sub(task.gvk.kind.chars().count());
        let (kind, name) = (text(&task.gvk.kind), text(&shorten(&object_name(task), room)));
        let reason = text(&task.reason);
        self.add(&format!(
            r#"<text class="row" x="{x}" y="{y}"><title>{reason}</title><tspan class="kind">{kind}</tspan> {name}</text>"#
        ));
        if task.is_hook() {
            self.add(&format!(r#"<text class="hook" x="{HOOK_X}" y="{y}">hook</text>"#));
        }
        let (fill, ink) = chip_colours(task.action);
        let (chip_x, chip_y) = (CARD_X + CARD_WIDTH - CHIP_WIDTH - 12, top + 3);
        let (middle, base) = (chip_x + CHIP_WIDTH / 2, top + 16);
        let action = task.action.as_str();
        self.add(&format!(
            r#"<rect x="{chip_x}" y="{chip_y}" width="{CHIP_WIDTH}" height="19" rx="9.5" fill="{fill}"/>"#
        ));
        self.add(&format!(
            r#"<text class="chip" x="{middle}" y="{base}" style="fill:{ink}">{action}</text>"#
        ));
    }

    fn finish(mut self, report: &PlanReport<'_>) -> String {
        let warnings = &report.plan.warnings;
        if !warnings.is_empty() {
            let errors = warnings.iter().filter(|warning| warning.severity == Severity::Error).count();
            let count = format!("{} ({} that forbid the sync)", counted(warnings.len(), "finding"), errors);
            let y = self.y + 6;
            self.add(&format!(r#"<text class="sub" x="{CARD_X}" y="{y}">{count}: see the tree</text>"#));
            self.y += GAP;
        }
        let height = self.y + MARGIN.saturating_sub(GAP) + 8;
        let title = text(&format!("Plan for {}", report.application));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>{title}</title>
<style>{STYLE}</style>
<rect width="{WIDTH}" height="{height}" fill="#f6f8fa"/>
{}</svg>
"##,
            self.body
        )
    }
}

fn wave_note(wave: &PlannedWave, tasks: usize) -> String {
    let mut note = counted(tasks, "object");
    if let Some(timeout) = wave.timeout {
        note.push_str(&format!(", at most {}", format_duration(timeout)));
    }
    if !wave.gates.is_empty() {
        note.push_str(&format!(", behind {}", wave.gates.join(", ")));
    }
    note
}

fn colour_of(phase: Phase) -> &'static str {
    match phase {
        Phase::PreSync | Phase::PreDelete => "#8a5cb8",
        Phase::Sync => "#2f6fb5",
        Phase::PostSync | Phase::PostDelete => "#2e8b57",
        Phase::SyncFail => "#c0392b",
    }
}

/// Background and letters.
fn chip_colours(action: Action) -> (&'static str, &'static str) {
    match action {
        Action::Create => ("#d9f2e3", "#1c6b41"),
        Action::Apply | Action::Replace => ("#dbe9f9", "#1f5591"),
        Action::Prune => ("#fbdcd8", "#9c2b1f"),
        Action::PruneSkipped => ("#fdf0d2", "#8a6100"),
        Action::Unchanged => ("#e8ebee", "#5b6773"),
    }
}

fn shorten(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// Text for XML.
fn text(content: &str) -> String {
    one_line(content).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
