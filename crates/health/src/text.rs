//! Texts of bounded length.

/// Longest message of a verdict. Messages are recorded as facts and shown on one screen; a container's last words
/// may be longer.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// A text of at most so many bytes; what is cut off leaves a mark.
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
