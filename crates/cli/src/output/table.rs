//! Tables for people.

use comfy_table::{ContentArrangement, Table, TableStyle};

use super::text::{Style, Text, one_line};

/// Narrower terminals are treated as this wide: below it, wrapped cells cannot be read.
const WIDTH_MIN: u16 = 60;

/// Columns with upper-case heads. Cells are escaped and kept to the terminal's width.
pub fn table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<u16>,
) -> Text {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(heads);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(WIDTH_MIN));
    }
    for row in rows {
        table.add_row(row.map(|cell| one_line(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = Text::new();
    for (index, line) in table.lines().enumerate() {
        let style = if index == 0 { Style::Dim } else { Style::Plain };
        text.add(style, line.trim_end());
        text.end_line();
    }
    text
}
