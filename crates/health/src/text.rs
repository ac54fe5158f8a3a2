//! Texts of bounded length.

/// Maximum length of a message in bytes. Messages are recorded in events and shown on a single screen, but a
/// container's termination message can be longer.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// Truncates a text to this many bytes, marking the cut.
pub(crate) fn shorten(mut text: String, bytes_max: usize) -> String {
    const MARK: &str = "…";
    if text.len() > bytes_max {
        let mut end = bytes_max.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

/// Maximum length of a sentence that explains a wait. It is recorded and shown on a single line.
const SENTENCE_CHARS_MAX: usize = 300;

/// Returns the sentence as a single line of bounded length.
pub(crate) fn shorten_sentence(sentence: String) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SENTENCE_CHARS_MAX {
        return line;
    }
    line.chars().take(SENTENCE_CHARS_MAX.saturating_sub(1)).chain(['…']).collect()
}
