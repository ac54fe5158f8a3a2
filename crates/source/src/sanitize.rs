//! Makes external text safe to show in messages.

/// Maximum length of external text in a message, in characters.
pub(crate) const TEXT_MAX: usize = 300;

/// Converts text to a single line of at most `TEXT_MAX` characters.
pub(crate) fn to_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.chars().count() <= TEXT_MAX {
        return line.to_owned();
    }
    line.chars().take(TEXT_MAX).chain(['…']).collect()
}

/// Converts text to a single line. Drops the middle if it is too long, because programs print their task
/// first and the cause of an error last.
pub(crate) fn to_line_keeping_ends(text: &str) -> String {
    const BEGIN: usize = TEXT_MAX / 3;
    let line: Vec<char> = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let begin = line.iter().take(BEGIN);
    let left_out = line.len().saturating_sub(TEXT_MAX);
    if left_out == 0 {
        return line.iter().collect();
    }
    begin.chain(&[' ', '…', ' ']).chain(line.iter().skip(BEGIN.saturating_add(left_out))).collect()
}
