//! SVG pictures of sequences: groups from top to bottom, each made up of cards with rows.

use std::fmt::Write as _;

use super::one_line;

const WIDTH: usize = 860;
const MARGIN: usize = 28;
/// Left edge of the cards, to the right of the group's name.
const CARD_X: usize = 150;
const CARD_WIDTH: usize = WIDTH - CARD_X - MARGIN;
const HEADER_HEIGHT: usize = 84;
const CARD_HEADER_HEIGHT: usize = 34;
const ROW_HEIGHT: usize = 26;
const CARD_FOOTER_HEIGHT: usize = 8;
const GAP: usize = 26;
const GROUP_GAP: usize = 18;
const CHIP_WIDTH: usize = 96;
/// Position of a row's mark, to the left of the chip.
const MARK_X: usize = CARD_X + CARD_WIDTH - CHIP_WIDTH - 24;
/// Number of columns to the left of a card in which links can run side by side.
const LINK_LANES: usize = 5;
/// Distance between two columns of links.
const LANE_WIDTH: usize = 6;
/// Number of characters that fit next to the chip.
const NAME_CHARS_MAX: usize = 62;
/// Number of characters that fit in a card's header next to the note.
const HEADER_CHARS_MAX: usize = 58;

const STYLE: &str = "\
text{font-family:Inter,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2933}
.title{font-size:20px;font-weight:600}.sub{font-size:13px;fill:#5b6773}
.phase{font-size:14px;font-weight:600}.wave{font-size:13px;font-weight:600}
.note{font-size:12px;fill:#5b6773}.kind{fill:#5b6773}.row{font-size:13px}
.chip{font-size:11px;font-weight:600;text-anchor:middle}.hook{font-size:11px;fill:#7a5195;text-anchor:end}
.card{fill:#ffffff;stroke:#d5dbe1}.line{stroke:#9aa3ad;stroke-width:1.5;fill:none}
.link{stroke:#7a8794;stroke-width:1;stroke-linejoin:round;fill:none}
";

/// A picture that grows downward.
pub struct Picture {
    title: String,
    body: String,
    y: usize,
}

/// A card of rows that are processed together.
pub struct Card<'a> {
    pub title: &'a str,
    /// Text next to the title.
    pub note: &'a str,
    pub color: &'static str,
    pub rows: Vec<Row<'a>>,
    /// Arrows between rows, given by their indices.
    pub links: Vec<(usize, usize)>,
}

/// A row in a card.
pub struct Row<'a> {
    /// Text before the name; may be empty.
    pub kind: &'a str,
    pub name: String,
    /// Tooltip; may be empty.
    pub reason: &'a str,
    /// A word next to the chip; may be empty.
    pub mark: String,
    pub chip: Option<Chip>,
}

/// A word in a colored field.
pub struct Chip {
    pub word: String,
    /// Background and text colors.
    pub colors: (&'static str, &'static str),
}

impl Picture {
    pub fn new(title: &str, sub: &str) -> Self {
        let mut picture = Self { title: escape_text(title), body: String::new(), y: HEADER_HEIGHT };
        let (title, sub) = (picture.title.clone(), escape_text(sub));
        picture.add(&format!(r#"<text class="title" x="{MARGIN}" y="38">{title}</text>"#));
        picture.add(&format!(r#"<text class="sub" x="{MARGIN}" y="60">{sub}</text>"#));
        picture
    }

    /// Adds an element. Writing to a String can't fail.
    fn add(&mut self, element: &str) {
        let _ = writeln!(self.body, "{element}");
    }

    /// Adds space between two groups.
    pub fn add_space(&mut self) {
        self.y += GROUP_GAP;
    }

    /// Adds a group's name next to the group's first card. The note may be empty.
    pub fn add_group(&mut self, name: &str, note: &str, colour: &str) {
        let (name, note) = (escape_text(name), escape_text(note));
        let (y, text_y) = (self.y, self.y + 22);
        self.add(&format!(r#"<rect x="{MARGIN}" y="{y}" width="4" height="34" rx="2" fill="{colour}"/>"#));
        let x = MARGIN + 14;
        if note.is_empty() {
            self.add(&format!(r#"<text class="phase" x="{x}" y="{text_y}">{name}</text>"#));
        } else {
            let (first, second) = (self.y + 14, self.y + 31);
            self.add(&format!(r#"<text class="phase" x="{x}" y="{first}">{name}</text>"#));
            self.add(&format!(r#"<text class="note" x="{x}" y="{second}">{note}</text>"#));
        }
    }

    /// Draws an arrow from the bottom of the previous card to the next card.
    pub fn add_arrow(&mut self, from: usize, dashed: bool) {
        let (x, to) = (CARD_X + 40, self.y);
        let dash = if dashed { r#" stroke-dasharray="4 4""# } else { "" };
        let (end, tip) = (to.saturating_sub(2), to.saturating_sub(8));
        self.add(&format!(r#"<path class="line" d="M{x} {from}V{end}"{dash}/>"#));
        let (left, right) = (x - 4, x + 4);
        self.add(&format!(r##"<path d="M{left} {tip}H{right}L{x} {to}Z" fill="#9aa3ad"/>"##));
    }

    /// Draws a card. Returns the position of its bottom edge.
    pub fn add_card(&mut self, card: &Card<'_>) -> usize {
        let (top, height) = (self.y, CARD_HEADER_HEIGHT + ROW_HEIGHT * card.rows.len() + CARD_FOOTER_HEIGHT);
        self.add(&format!(
            r#"<rect class="card" x="{CARD_X}" y="{top}" width="{CARD_WIDTH}" height="{height}" rx="8"/>"#
        ));
        let (x, y, colour) = (CARD_X + 16, top + 22, card.color);
        let (title, note) = (escape_text(&shorten(card.title, HEADER_CHARS_MAX)), escape_text(card.note));
        self.add(&format!(r#"<text class="wave" x="{x}" y="{y}" style="fill:{colour}">{title}</text>"#));
        let right = CARD_X + CARD_WIDTH - 16;
        self.add(&format!(r#"<text class="note" x="{right}" y="{y}" text-anchor="end">{note}</text>"#));
        for (index, row) in card.rows.iter().enumerate() {
            self.add_row(row, top + CARD_HEADER_HEIGHT + ROW_HEIGHT * index);
        }
        self.add_links(&card.links, top + CARD_HEADER_HEIGHT);
        self.y = top + height + GAP;
        top + height
    }

    /// Draws arrows between rows, to the left of their card. Arrows in the same column don't overlap, as long as
    /// there are enough columns.
    fn add_links(&mut self, links: &[(usize, usize)], top: usize) {
        let mut sorted: Vec<(usize, usize)> = links.to_vec();
        sorted.sort_unstable_by_key(|(from, to)| (*from.min(to), *from.max(to)));
        // Last row that each column is used for.
        let mut columns: [Option<usize>; LINK_LANES] = [None; LINK_LANES];
        for (from, to) in sorted {
            let (first, last) = (from.min(to), from.max(to));
            let is_free = |used: &Option<usize>| used.is_none_or(|used| used < first);
            let column = columns.iter().position(is_free).unwrap_or(LINK_LANES.saturating_sub(1));
            if let Some(used) = columns.get_mut(column) {
                *used = (*used).max(Some(last));
            }
            let x = CARD_X - 8 - LANE_WIDTH * column;
            let [start, end] = [from, to].map(|row| top + ROW_HEIGHT * row + 13);
            let tip = CARD_X - 5;
            self.add(&format!(r#"<path class="link" d="M{CARD_X} {start}H{x}V{end}H{tip}"/>"#));
            let (above, below) = (end - 3, end + 3);
            self.add(&format!(r##"<path d="M{tip} {above}V{below}L{CARD_X} {end}Z" fill="#7a8794"/>"##));
        }
    }

    fn add_row(&mut self, row: &Row<'_>, top: usize) {
        let (x, y) = (CARD_X + 16, top + 17);
        let room = NAME_CHARS_MAX.saturating_sub(row.kind.chars().count());
        let (name, reason) = (escape_text(&shorten(&row.name, room)), escape_text(row.reason));
        let title = if reason.is_empty() { String::new() } else { format!("<title>{reason}</title>") };
        let kind = match row.kind {
            "" => String::new(),
            kind => format!(r#"<tspan class="kind">{}</tspan> "#, escape_text(kind)),
        };
        self.add(&format!(r#"<text class="row" x="{x}" y="{y}">{title}{kind}{name}</text>"#));
        if !row.mark.is_empty() {
            let mark = escape_text(&row.mark);
            self.add(&format!(r#"<text class="hook" x="{MARK_X}" y="{y}">{mark}</text>"#));
        }
        let Some(Chip { word, colors: (fill, ink) }) = &row.chip else { return };
        let (chip_x, chip_y) = (CARD_X + CARD_WIDTH - CHIP_WIDTH - 12, top + 3);
        let (middle, base) = (chip_x + CHIP_WIDTH / 2, top + 16);
        let word = escape_text(word);
        self.add(&format!(
            r#"<rect x="{chip_x}" y="{chip_y}" width="{CHIP_WIDTH}" height="19" rx="9.5" fill="{fill}"/>"#
        ));
        self.add(&format!(r#"<text class="chip" x="{middle}" y="{base}" style="fill:{ink}">{word}</text>"#));
    }

    /// Adds a line below all cards.
    pub fn add_remark(&mut self, words: &str) {
        let (y, words) = (self.y + 6, escape_text(words));
        self.add(&format!(r#"<text class="sub" x="{CARD_X}" y="{y}">{words}</text>"#));
        self.y += GAP;
    }

    pub fn finish(self) -> String {
        let height = self.y + MARGIN.saturating_sub(GAP) + 8;
        let Self { title, body, .. } = self;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>{title}</title>
<style>{STYLE}</style>
<rect width="{WIDTH}" height="{height}" fill="#f6f8fa"/>
{body}</svg>
"##
        )
    }
}

/// Shortens a name to at most `room` characters.
pub fn shorten(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// Escapes text for XML.
fn escape_text(content: &str) -> String {
    one_line(content).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
