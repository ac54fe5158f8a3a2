//! Escaping and splitting of text from external sources.

use std::fmt::Write as _;

/// Escapes characters that could control a terminal or mislead the reader: control characters, line and
/// paragraph separators, and invisible characters that change the text direction.
pub(crate) fn escape(text: &str) -> String {
    // Names are almost always plain ASCII.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "{}", c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Splits a comma-separated annotation into trimmed items, in order, dropping empty items and duplicates.
pub(crate) fn split_list(value: &str) -> Vec<&str> {
    let mut text: Vec<&str> = Vec::new();
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !text.contains(&word) {
            text.push(word);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("a\u{1b}[31mb\n\u{202e}c é"), "a\\u{1b}[31mb\\n\\u{202e}c é");
    }

    #[test]
    fn items_are_trimmed_and_deduplicated_in_order() {
        assert_eq!(split_list(" b, a ,,b,"), ["b", "a"]);
        assert!(split_list(" , ").is_empty());
    }
}
