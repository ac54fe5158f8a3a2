//! Who wants something, and why, of what is recorded with one text for both.

/// What is between the two.
const BECAUSE: &str = ", because: ";
/// The same in a name is none.
const NOT_BETWEEN: &str = ", because ";
/// So many characters of a reason are kept.
const REASON_MAX: usize = 1024;

/// Who wants something, and why: a fact that has room for a name alone keeps both as `ann, because: it is withdrawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wisher<'a> {
    /// The name of a person, or of what asked in their place.
    pub by: &'a str,
    /// Why; empty where that was not said.
    pub reason: &'a str,
}

impl<'a> Wisher<'a> {
    /// What is between the name of a person and what they have deleted, where an operation of the log deletes an application.
    pub const BY_DELETION: &'static str = ", by the deletion of ";

    /// The two that [`Self::text`] has put together. A text without a reason is a name.
    pub fn read(text: &'a str) -> Self {
        let (by, reason) = text.split_once(BECAUSE).unwrap_or((text, ""));
        Self { by, reason }
    }

    /// Who has asked for an operation, as the log has it, and why. Of a deletion the first says all that is known of it.
    pub fn of_operation(initiated_by: &'a str) -> Self {
        match Self::deleting(initiated_by) {
            Some(_) => Self { by: initiated_by, reason: "" },
            None => Self::read(initiated_by),
        }
    }

    /// The person who has asked for a deletion, of an operation that was begun by this, as the log has it. `None` of any other
    /// operation, and where nobody knows.
    pub fn deleting(initiated_by: &'a str) -> Option<&'a str> {
        let (by, _) = initiated_by.split_once(Self::BY_DELETION)?;
        // Why somebody wants a sync may be a deletion.
        Self::read(by).reason.is_empty().then_some(by)
    }

    /// Both as one text. A reason becomes one line of bounded length, and a name never looks like one with a reason.
    pub fn text(self) -> String {
        let by = self.by.replace(BECAUSE, NOT_BETWEEN);
        let reason = reason_line(self.reason);
        if reason.is_empty() { by } else { format!("{by}{BECAUSE}{reason}") }
    }

    /// Both, in words: `ann (it is withdrawn)`.
    pub fn who(self) -> String {
        let Self { by, reason } = self;
        if reason.is_empty() { by.to_owned() } else { format!("{by} ({reason})") }
    }

    /// Why, where that was said.
    pub fn why(self) -> Option<String> {
        Some(self.reason.to_owned()).filter(|reason| !reason.is_empty())
    }

    /// What they do, in words: `ann ends it: it is withdrawn`.
    pub fn does(self, what: &str) -> String {
        let Self { by, reason } = self;
        if reason.is_empty() { format!("{by} {what}") } else { format!("{by} {what}: {reason}") }
    }
}

/// What somebody says as their reason, as it is recorded: one line of bounded length, without what reorders it or is not seen. What
/// nobody sees is no reason.
pub fn reason_line(text: &str) -> String {
    let seen = text.chars().filter(|c| !is_format(*c));
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = seen.map(|c| if ends_line(c) { ' ' } else { c }).collect();
    let bounded: String = line.trim().chars().take(REASON_MAX).collect();
    let is_joiner = |c: char| matches!(c, '\u{200c}' | '\u{200d}');
    if bounded.chars().all(|c| c.is_whitespace() || is_joiner(c)) {
        return String::new();
    }
    bounded.trim_end().to_owned()
}

/// Whether a character has no width, or turns the direction of others. Those that join letters are part of some scripts.
fn is_format(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unseen = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    turns || is_unseen || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_no_reason() {
        assert_eq!(reason_line("safe \u{202e}exe.gpj\u{202c} now\u{200b}"), "safe exe.gpj now");
        assert_eq!(reason_line("two\u{2028}lines"), "two lines");
        for nothing in ["", " ", "\u{200b}", " \u{200d}\u{feff}\n"] {
            assert_eq!(reason_line(nothing), "", "{nothing:?}");
        }
        assert_eq!(
            reason_line("\u{646}\u{645}\u{6cc}\u{200c}\u{634}\u{648}\u{62f}"),
            "\u{646}\u{645}\u{6cc}\u{200c}\u{634}\u{648}\u{62f}"
        );
    }

    #[test]
    fn a_name_and_a_reason_are_one_text_and_two_again() {
        for (by, reason, text, does) in [
            ("ann", "", "ann", "ann ends it"),
            ("ann", "it is withdrawn", "ann, because: it is withdrawn", "ann ends it: it is withdrawn"),
            ("ann", " two\nlines ", "ann, because: two lines", "ann ends it: two lines"),
            ("ann", "so, because: so", "ann, because: so, because: so", "ann ends it: so, because: so"),
            ("", "why", ", because: why", " ends it: why"),
        ] {
            let kept = Wisher { by, reason }.text();
            assert_eq!(kept, text);
            assert_eq!(Wisher::read(&kept).by, by, "{kept}");
            assert_eq!(Wisher::read(&kept).does("ends it"), does);
        }
    }

    #[test]
    fn nobody_passes_for_another_by_their_name() {
        let kept = Wisher { by: "ann, because: of ben", reason: "" }.text();
        assert_eq!(Wisher::read(&kept), Wisher { by: "ann, because of ben", reason: "" });
        let long = Wisher { by: "ann", reason: &"é".repeat(5000) }.text();
        assert_eq!(Wisher::read(&long).reason.chars().count(), REASON_MAX);
    }
}
