//! Requesters and their reasons, recorded together as one string.

/// Separator between the name and the reason.
const REASON_SEPARATOR: &str = ", because: ";
/// Replacement for a separator inside a name.
const ESCAPED_SEPARATOR: &str = ", because ";
/// Maximum length of a stored reason in characters.
const REASON_MAX: usize = 1024;

/// Requester and reason of a request. Events with only a name field store both in it, as
/// `ann, because: it is withdrawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester<'a> {
    /// Name of the user or component.
    pub name: &'a str,
    /// Reason. Empty if none was given.
    pub reason: &'a str,
}

impl<'a> Requester<'a> {
    /// Separator between the requester's name and the deleted resource, in operations that delete an
    /// application.
    pub const DELETION_SEPARATOR: &'static str = ", by the deletion of ";

    /// Parses the result of [`Self::to_text`]. Without a reason, the whole text is the name.
    pub fn parse(text: &'a str) -> Self {
        let (by, reason) = text.split_once(REASON_SEPARATOR).unwrap_or((text, ""));
        Self { name: by, reason }
    }

    /// Returns the requester of a logged operation. For a deletion, the whole text is the name.
    pub fn from_operation(initiated_by: &'a str) -> Self {
        match Self::deletion_requester(initiated_by) {
            Some(_) => Self { name: initiated_by, reason: "" },
            None => Self::parse(initiated_by),
        }
    }

    /// Returns the name of the user who requested a deletion, from the operation's recorded requester.
    /// Returns `None` if the operation isn't a deletion or the user is unknown.
    pub fn deletion_requester(initiated_by: &'a str) -> Option<&'a str> {
        let (by, _) = initiated_by.split_once(Self::DELETION_SEPARATOR)?;
        // A sync's reason may contain the deletion separator too.
        Self::parse(by).reason.is_empty().then_some(by)
    }

    /// Returns the name and the reason as one string. The reason becomes a single line of bounded length. A
    /// separator inside the name is escaped, so that its rest isn't mistaken for a reason.
    pub fn to_text(self) -> String {
        let by = self.name.replace(REASON_SEPARATOR, ESCAPED_SEPARATOR);
        let reason = normalize_reason(self.reason);
        if reason.is_empty() { by } else { format!("{by}{REASON_SEPARATOR}{reason}") }
    }

    /// Returns the name and the reason for display, such as `ann (it is withdrawn)`.
    pub fn display(self) -> String {
        let Self { name: by, reason } = self;
        if reason.is_empty() { by.to_owned() } else { format!("{by} ({reason})") }
    }

    /// Returns the reason, if given.
    pub fn reason_text(self) -> Option<String> {
        Some(self.reason.to_owned()).filter(|reason| !reason.is_empty())
    }

    /// Returns a sentence such as `ann terminates the operation: it is withdrawn`.
    pub fn describe_action(self, what: &str) -> String {
        let Self { name: by, reason } = self;
        if reason.is_empty() { format!("{by} {what}") } else { format!("{by} {what}: {reason}") }
    }
}

/// Normalizes a reason before it is recorded: one line of bounded length, without invisible characters or
/// characters that change the text direction. A reason without visible characters becomes empty.
pub fn normalize_reason(text: &str) -> String {
    let seen = text.chars().filter(|c| !is_invisible(*c));
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = seen.map(|c| if ends_line(c) { ' ' } else { c }).collect();
    let bounded: String = line.trim().chars().take(REASON_MAX).collect();
    let is_joiner = |c: char| matches!(c, '\u{200c}' | '\u{200d}');
    if bounded.chars().all(|c| c.is_whitespace() || is_joiner(c)) {
        return String::new();
    }
    bounded.trim_end().to_owned()
}

/// Returns true if a character has no width or changes the text direction. Joiners don't count, because some
/// scripts need them.
fn is_invisible(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unseen = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    turns || is_unseen || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invisible_text_is_not_a_reason() {
        assert_eq!(normalize_reason("safe \u{202e}exe.gpj\u{202c} now\u{200b}"), "safe exe.gpj now");
        assert_eq!(normalize_reason("two\u{2028}lines"), "two lines");
        for nothing in ["", " ", "\u{200b}", " \u{200d}\u{feff}\n"] {
            assert_eq!(normalize_reason(nothing), "", "{nothing:?}");
        }
        assert_eq!(
            normalize_reason("\u{646}\u{645}\u{6cc}\u{200c}\u{634}\u{648}\u{62f}"),
            "\u{646}\u{645}\u{6cc}\u{200c}\u{634}\u{648}\u{62f}"
        );
    }

    #[test]
    fn name_and_reason_survive_a_round_trip() {
        for (by, reason, text, does) in [
            ("ann", "", "ann", "ann terminates the operation"),
            (
                "ann",
                "it is withdrawn",
                "ann, because: it is withdrawn",
                "ann terminates the operation: it is withdrawn",
            ),
            ("ann", " two\nlines ", "ann, because: two lines", "ann terminates the operation: two lines"),
            (
                "ann",
                "so, because: so",
                "ann, because: so, because: so",
                "ann terminates the operation: so, because: so",
            ),
            ("", "why", ", because: why", " terminates the operation: why"),
        ] {
            let kept = Requester { name: by, reason }.to_text();
            assert_eq!(kept, text);
            assert_eq!(Requester::parse(&kept).name, by, "{kept}");
            assert_eq!(Requester::parse(&kept).describe_action("terminates the operation"), does);
        }
    }

    #[test]
    fn a_name_cannot_imitate_another_requester() {
        let kept = Requester { name: "ann, because: of ben", reason: "" }.to_text();
        assert_eq!(Requester::parse(&kept), Requester { name: "ann, because of ben", reason: "" });
        let long = Requester { name: "ann", reason: &"é".repeat(5000) }.to_text();
        assert_eq!(Requester::parse(&long).reason.chars().count(), REASON_MAX);
    }
}
