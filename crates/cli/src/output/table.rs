//! Human-readable tables.

use comfy_table::{ContentArrangement, Table, TableStyle};

use super::text::{Style, Text, one_line};

/// Minimum width of a table. Wrapped cells would be unreadable on a narrower terminal, so each row becomes a
/// block with a line per cell.
const WIDTH_MIN: u16 = 60;

/// Formats columns with upper-case headings. Escapes the cells and fits them to the terminal width.
pub fn table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<u16>,
) -> Text {
    let rows: Vec<[String; N]> = rows.into_iter().map(|row| row.map(|cell| one_line(&cell))).collect();
    let whole = format_lines(Some(heads), &rows, None);
    let fits = |width: u16| whole.iter().all(|line| line.chars().count() <= usize::from(width));
    match width {
        Some(width) if width < WIDTH_MIN && !fits(width) => format_blocks(heads, rows, width),
        Some(width) => add_header(format_lines(Some(heads), &rows, Some(width))),
        None => add_header(whole),
    }
}

fn format_lines<const N: usize>(
    heads: Option<[&str; N]>,
    rows: &[[String; N]],
    width: Option<u16>,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    if let Some(heads) = heads {
        table.set_header(heads);
    }
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn add_header(lines: Vec<String>) -> Text {
    let mut text = Text::new();
    for (index, line) in lines.into_iter().enumerate() {
        let style = if index == 0 { Style::Dim } else { Style::Plain };
        text.add(style, line);
        text.end_line();
    }
    text
}

/// Formats each row as a block of lines, such as `NAME  shop/api`, skipping empty cells.
fn format_blocks<const N: usize>(heads: [&str; N], rows: Vec<[String; N]>, width: u16) -> Text {
    let mut text = Text::new();
    for (index, row) in rows.into_iter().enumerate() {
        if index > 0 {
            text.end_line();
        }
        let cells: Vec<[String; 2]> = heads
            .iter()
            .zip(row)
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(head, cell)| [(*head).to_owned(), cell])
            .collect();
        for line in format_lines(None, &cells, Some(width)) {
            text.add(Style::Plain, line);
            text.end_line();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_forty_columns() {
        let row = || {
            [
                "Deployment",
                "shop/a-rather-long-name-of-an-object-that-does-not-fit",
                "",
                "waiting for 3 of 14 replicas",
            ]
            .map(str::to_owned)
        };
        let heads = ["KIND", "NAME", "RESULT", "MESSAGE"];
        for width in [40, 50, 59, 60, 80, 120] {
            let text = table(heads, [row(), row()], Some(width)).render(false);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}:\n{text}");
            let letters: String = text.split_whitespace().collect();
            assert!(letters.contains("Deployment") && letters.contains("replicas"), "{width}:\n{text}");
        }
        let narrow = table(heads, [row()], Some(40)).render(false);
        assert!(
            narrow.contains("KIND") && narrow.contains("MESSAGE") && !narrow.contains("RESULT"),
            "{narrow}"
        );
        let short = table(["A", "B"], [["x", "y"].map(str::to_owned)], Some(40)).render(false);
        assert_eq!(short, "A  B\nx  y\n");
    }
}
