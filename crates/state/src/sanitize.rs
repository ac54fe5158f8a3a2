//! Sanitizes untrusted text for terminals, log lines and files.

use std::fmt::Write as _;

/// Sanitizes text for a terminal. Escapes control characters and characters that reorder text. Keeps line
/// breaks, but not the invisible characters after them.
pub fn escape(text: &str) -> String {
    if !text.chars().any(is_dangerous) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        match c {
            '\t' => safe.push(' '),
            c if is_dangerous(c) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
        safe
    })
}

/// Sanitizes text like [`escape`], and joins its lines into one.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    escape(&lines.join("; "))
}

/// Returns true if a character may control a terminal or disguise text.
pub fn is_dangerous(c: char) -> bool {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n') || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_characters_are_escaped() {
        assert_eq!(escape("shop/api \u{1b}[31mred\u{7}\u{9b}2J\r\u{202e}"), {
            "shop/api \\u{1b}[31mred\\u{7}\\u{9b}2J\\u{d}\\u{202e}"
        });
        assert_eq!(escape("täglich\nzwei"), "täglich\nzwei");
        assert_eq!(one_line("a\n  b\n\nc"), "a; b; c");
    }
}
