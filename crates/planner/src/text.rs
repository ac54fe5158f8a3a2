//! Text that came from outside, made safe to show.

use std::fmt::Write as _;

/// Escapes what could steer a terminal or hide from the reader: control characters, line and paragraph separators,
/// and the invisible characters that change the direction of text.
pub(crate) fn escape(text: &str) -> String {
    // Names are almost always plain.
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

/// The items of a comma-separated annotation: trimmed, without empty ones and without repetitions, in order.
pub(crate) fn words(value: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\n\u{202e}c é"), "a\\u{1b}[31mb\\n\\u{202e}c é");
    }

    #[test]
    fn words_are_trimmed_and_kept_once_in_order() {
        assert_eq!(words(" b, a ,,b,"), ["b", "a"]);
        assert!(words(" , ").is_empty());
    }
}
