/// A position in the document's text, with its line and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    /// Offset in bytes.
    pub offset: usize,
    /// Line number, starting at 1.
    pub line: u64,
    /// Number of characters before the position on its line.
    pub column: usize,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, offset: 0, line: 1, column: 0 }
    }

    /// Returns the text between two byte offsets.
    pub fn slice(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Returns the byte `ahead` bytes after the position.
    pub fn peek_byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.offset.saturating_add(ahead)).copied()
    }

    pub fn has_byte(&self, ahead: usize, byte: u8) -> bool {
        self.peek_byte(ahead) == Some(byte)
    }

    pub fn is_end(&self) -> bool {
        self.offset >= self.text.len()
    }

    pub fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.peek_byte(ahead), Some(b' ' | b'\t'))
    }

    pub fn is_break(&self) -> bool {
        self.break_length(0) > 0
    }

    /// Returns true if a line break or the end of the text is `ahead` bytes after the position.
    pub fn is_line_end(&self, ahead: usize) -> bool {
        self.peek_byte(ahead).is_none() || self.break_length(ahead) > 0
    }

    /// Returns true if whitespace or the end of the text is `ahead` bytes after the position. An indicator
    /// such as `-` must be followed by whitespace or the end.
    pub fn is_separation(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_line_end(ahead)
    }

    /// Returns true if the position is at `---` or `...` at the start of a line.
    pub fn is_document_marker(&self) -> bool {
        self.column == 0
            && (self.starts_with("---") || self.starts_with("..."))
            && self.is_separation(MARKER_LENGTH)
    }

    pub fn starts_with(&self, start: &str) -> bool {
        self.text.get(self.offset..).is_some_and(|rest| rest.starts_with(start))
    }

    /// Returns the character at the position, or `None` at the end of the text.
    pub fn character(&self) -> Option<char> {
        self.text.get(self.offset..).and_then(|rest| rest.chars().next())
    }

    /// Returns the length of a line break in bytes. Unicode line breaks also count, as in YAML 1.1.
    fn break_length(&self, ahead: usize) -> usize {
        match self.peek_byte(ahead) {
            Some(b'\n') => 1,
            Some(b'\r') => 1 + usize::from(self.has_byte(ahead + 1, b'\n')),
            Some(0xc2) if self.has_byte(ahead + 1, 0x85) => 2,
            Some(0xe2)
                if self.has_byte(ahead + 1, 0x80)
                    && matches!(self.peek_byte(ahead + 2), Some(0xa8 | 0xa9)) =>
            {
                3
            }
            _ => 0,
        }
    }

    /// Skips the given number of ASCII characters.
    pub fn skip(&mut self, bytes: usize) {
        self.offset += bytes;
        self.column += bytes;
    }

    /// Skips one character of any length. Does nothing at the end of the text.
    pub fn skip_character(&mut self) {
        self.offset += self.character().map_or(0, char::len_utf8);
        self.column += 1;
    }

    /// Skips characters while `wanted` returns true, and returns them.
    pub fn take_while(&mut self, wanted: impl Fn(&Self) -> bool) -> &'t str {
        let from = self.offset;
        while let Some(byte) = self.peek_byte(0) {
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
        self.slice(from, self.offset)
    }

    /// Skips a line break. Returns its text in a scalar: a newline, or a Unicode line or paragraph separator.
    pub fn skip_break(&mut self) -> &'static str {
        let length = self.break_length(0);
        if length == 0 {
            return "";
        }
        let value = match (length, self.peek_byte(2)) {
            (3, Some(0xa8)) => "\u{2028}",
            (3, _) => "\u{2029}",
            _ => "\n",
        };
        self.offset += length;
        self.line += 1;
        self.column = 0;
        value
    }

    /// Skips a comment up to the end of its line.
    pub fn skip_comment(&mut self) {
        if self.has_byte(0, b'#') {
            self.take_while(|cursor| !cursor.is_line_end(0));
        }
    }
}

/// Length of the markers `---` and `...`.
pub(super) const MARKER_LENGTH: usize = 3;
