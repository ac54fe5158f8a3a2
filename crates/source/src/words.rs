//! Texts of others, as they are passed on.

/// Longest text of somebody else that is passed on, in characters.
pub(crate) const TEXT_MAX: usize = 300;

/// One line of reasonable length.
pub(crate) fn plain(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.chars().count() <= TEXT_MAX {
        return line.to_owned();
    }
    line.chars().take(TEXT_MAX).chain(['…']).collect()
}

/// The same of what a program says: what it was doing comes first, and why it could not at last.
pub(crate) fn plain_ends(text: &str) -> String {
    const BEGIN: usize = TEXT_MAX / 3;
    let line: Vec<char> = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let begin = line.iter().take(BEGIN);
    let left_out = line.len().saturating_sub(TEXT_MAX);
    if left_out == 0 {
        return line.iter().collect();
    }
    begin.chain(&[' ', '…', ' ']).chain(line.iter().skip(BEGIN.saturating_add(left_out))).collect()
}
