//! Markdown for the generated pages.

/// Returns a heading's anchor as code forges and mdBook generate it.
pub(super) fn anchor(heading: &str) -> String {
    let retained = heading.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
    retained.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the text on a single line, with `<` and `>` escaped outside code.
pub(super) fn prose(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = without_links(&line);
    let parts = line.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.replace('<', "\\<").replace('>', "\\>").replace('*', "\\*").replace('[', "\\["),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Replaces links to items in doc comments with the items' names.
fn without_links(text: &str) -> String {
    let mut line = text.replace("[`", "`").replace("`]", "`");
    while let Some(start) = line.find("`(") {
        let rest = line.get(start..).unwrap_or_default();
        let Some(end) = rest.find(')').filter(|end| rest.get(..*end).is_some_and(|link| link.contains("::")))
        else {
            break;
        };
        line.replace_range(start + 1..=start + end, "");
    }
    line
}

/// Returns the text as the content of a table cell.
pub(super) fn cell(text: &str) -> String {
    prose(text).replace('|', "\\|")
}

/// Maximum number of words in a table cell.
const CELL_WORDS_MAX: usize = 20;

/// Returns a field's description for a table cell. Adds text that doesn't fit to `notes` as a list item.
pub(super) fn meaning(name: &str, text: &str, notes: &mut String) -> String {
    let text = cell(text);
    let count = |text: &str| text.split_whitespace().count();
    if count(&text) <= CELL_WORDS_MAX {
        return text;
    }
    let ends = text.match_indices(". ").chain(text.match_indices("; ")).map(|(end, _)| end);
    let fitting = ends.filter(|end| count(&text[..*end]) <= CELL_WORDS_MAX).max();
    let Some(end) = fitting else {
        notes.push_str(&format!("- `{name}`: {}\n", end_sentence(&text)));
        return "See below.".to_owned();
    };
    let (start, rest) = (&text[..end], &text[end + 2..]);
    notes.push_str(&format!("- `{name}`: {}\n", end_sentence(rest)));
    format!("{start}.")
}

/// Returns the text as a sentence with a full stop.
pub(super) fn sentence(text: &str) -> String {
    end_sentence(&prose(text))
}

/// Adds a full stop to Markdown without final punctuation.
fn end_sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', ':', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Returns a table. The cells are Markdown with escaped pipes.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    [header, rule].iter().chain(rows).map(|cells| line(cells)).collect()
}

/// Returns the text as inline code.
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Returns a type name's plural.
pub(super) fn plural(kind: &str) -> String {
    match kind {
        "any value" => "any values".to_owned(),
        kind if kind.starts_with(['`', '[']) || kind.starts_with("list of") || kind.starts_with("map of") => {
            kind.to_owned()
        }
        kind => format!("{kind}s"),
    }
}
