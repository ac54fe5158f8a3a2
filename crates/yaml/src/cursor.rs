/// A place in a text, with its line and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    /// Offset in bytes.
    pub at: usize,
    /// Line, from 1.
    pub line: u64,
    /// Characters before it on the line.
    pub column: usize,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1, column: 0 }
    }

    /// What stands between two offsets.
    pub fn slice(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// The byte so many bytes ahead.
    pub fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at.saturating_add(ahead)).copied()
    }

    pub fn is(&self, ahead: usize, byte: u8) -> bool {
        self.byte(ahead) == Some(byte)
    }

    pub fn is_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b' ' | b'\t'))
    }

    pub fn is_break(&self) -> bool {
        self.break_length(0) > 0
    }

    /// A line break or the end of the text.
    pub fn is_line_end(&self, ahead: usize) -> bool {
        self.byte(ahead).is_none() || self.break_length(ahead) > 0
    }

    /// White space or the end of the text: what must follow an indicator such as `-`.
    pub fn is_separation(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_line_end(ahead)
    }

    /// `---` or `...` at the beginning of a line.
    pub fn is_document_marker(&self) -> bool {
        self.column == 0
            && (self.starts_with("---") || self.starts_with("..."))
            && self.is_separation(MARKER_LENGTH)
    }

    pub fn starts_with(&self, start: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(start))
    }

    /// The character at the place; `None` at the end of the text.
    pub fn character(&self) -> Option<char> {
        self.text.get(self.at..).and_then(|rest| rest.chars().next())
    }

    /// Bytes of the line break: YAML 1.1 also knows the breaks of Unicode.
    fn break_length(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            Some(b'\n') => 1,
            Some(b'\r') => 1 + usize::from(self.is(ahead + 1, b'\n')),
            Some(0xc2) if self.is(ahead + 1, 0x85) => 2,
            Some(0xe2) if self.is(ahead + 1, 0x80) && matches!(self.byte(ahead + 2), Some(0xa8 | 0xa9)) => 3,
            _ => 0,
        }
    }

    /// Passes so many ASCII characters.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.column += bytes;
    }

    /// Passes one character, whatever its length in bytes; nothing at the end of the text.
    pub fn skip_character(&mut self) {
        self.at += self.character().map_or(0, char::len_utf8);
        self.column += 1;
    }

    /// Passes bytes as long as they are wanted; what stands there.
    pub fn run(&mut self, wanted: impl Fn(&Self) -> bool) -> &'t str {
        let from = self.at;
        while let Some(byte) = self.byte(0) {
            if byte.is_ascii() {
                if !wanted(self) {
                    break;
                }
                self.skip(1);
            } else {
                if self.is_break() || !wanted(self) {
                    break;
                }
                self.skip_character();
            }
        }
        self.slice(from, self.at)
    }

    /// Passes a line break; what it stands for in a value.
    pub fn skip_break(&mut self) -> &'static str {
        let length = self.break_length(0);
        if length == 0 {
            return "";
        }
        let value = match (length, self.byte(2)) {
            (3, Some(0xa8)) => "\u{2028}",
            (3, _) => "\u{2029}",
            _ => "\n",
        };
        self.at += length;
        self.line += 1;
        self.column = 0;
        value
    }

    /// Passes a comment, up to the end of its line.
    pub fn skip_comment(&mut self) {
        if self.is(0, b'#') {
            self.run(|cursor| !cursor.is_line_end(0));
        }
    }
}

/// Length of `---` and `...`.
pub(super) const MARKER_LENGTH: usize = 3;
