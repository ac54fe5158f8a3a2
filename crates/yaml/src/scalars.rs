use std::borrow::Cow;

use super::Problem;
use super::cursor::Cursor;
use super::scanner::Scanner;
use super::token::Token;

/// Builder for the text of a scalar. The text borrows from the document until it differs, for example because
/// of an escape.
#[derive(Default)]
struct TextBuilder {
    slice: (usize, usize),
    owned: Option<String>,
    is_started: bool,
}

impl TextBuilder {
    fn new(at: usize) -> Self {
        Self { slice: (at, at), owned: None, is_started: false }
    }

    /// Appends the document's text from `gap`, where the preceding whitespace starts, up to `to`.
    fn push_run(&mut self, cursor: &Cursor<'_>, gap: usize, to: usize) {
        match &mut self.owned {
            None => self.slice.1 = to,
            Some(text) => text.push_str(cursor.slice(gap, to)),
        }
        self.is_started = true;
    }

    /// Switches to an owned string, which is necessary once the text differs from the document.
    fn make_owned(&mut self, cursor: &Cursor<'_>) -> &mut String {
        let (from, to) = self.slice;
        self.owned.get_or_insert_with(|| cursor.slice(from, to).to_owned())
    }

    fn finish<'t>(self, cursor: &Cursor<'t>) -> Cow<'t, str> {
        self.owned.map_or_else(|| Cow::Borrowed(cursor.slice(self.slice.0, self.slice.1)), Cow::Owned)
    }
}

/// Whitespace between two runs of characters in a scalar.
#[derive(Default)]
struct Gap {
    /// True if the gap contains a line break, escaped or not.
    has_line_break: bool,
    first_break: &'static str,
    further_breaks: String,
}

impl Gap {
    fn line_break(&mut self, line_break: &'static str) {
        if self.has_line_break {
            self.further_breaks.push_str(line_break);
        } else {
            self.has_line_break = true;
            self.first_break = line_break;
        }
    }

    /// Appends the folded line breaks. A single one becomes a space; of several, the first is dropped.
    fn fold_into(&self, text: &mut String) {
        if self.first_break != "\n" {
            text.push_str(self.first_break);
        } else if self.further_breaks.is_empty() {
            text.push(' ');
        }
        text.push_str(&self.further_breaks);
    }
}

impl<'t> Scanner<'t> {
    /// Scans a plain scalar.
    pub(super) fn plain_scalar(&mut self) -> Result<(), Problem> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        let mut text = TextBuilder::new(self.cursor.offset);
        let mut gap = Gap::default();
        let mut gap_start = self.cursor.offset;
        loop {
            if self.cursor.is_document_marker() || self.cursor.has_byte(0, b'#') {
                break;
            }
            let run = self.plain_run()?;
            if run > 0 {
                if gap.has_line_break {
                    gap.fold_into(text.make_owned(&self.cursor));
                    gap_start = self.cursor.offset - run;
                    gap = Gap::default();
                }
                text.push_run(&self.cursor, gap_start, self.cursor.offset);
            }
            if !(self.cursor.is_blank(0) || self.cursor.is_break()) {
                break;
            }
            gap_start = self.cursor.offset;
            while self.cursor.is_blank(0) || self.cursor.is_break() {
                if self.cursor.is_break() {
                    gap.line_break(self.cursor.skip_break());
                } else if gap.has_line_break
                    && self.cursor.column < self.indent
                    && self.cursor.has_byte(0, b'\t')
                {
                    return Err(self.problem("tabs are not allowed as indentation; use spaces"));
                } else {
                    self.cursor.skip(1);
                }
            }
            if self.flow_level == 0 && self.cursor.column < self.indent {
                break;
            }
        }
        if gap.has_line_break {
            self.is_key_allowed = true;
        }
        let text = text.finish(&self.cursor);
        self.content(Token::Scalar { text, plain: true }, line);
        Ok(())
    }

    /// Skips the characters of a plain scalar up to whitespace or the end of the scalar. Returns their length
    /// in bytes.
    fn plain_run(&mut self) -> Result<usize, Problem> {
        let (start, in_flow) = (self.cursor.offset, self.flow_level > 0);
        self.cursor.take_while(|cursor| match cursor.peek_byte(0) {
            Some(b':') => {
                let after = cursor.peek_byte(1);
                let unclear = in_flow && matches!(after, Some(b',' | b'?' | b'[' | b']' | b'{' | b'}'));
                !unclear && !cursor.is_separation(1)
            }
            Some(b',' | b'[' | b']' | b'{' | b'}') => !in_flow,
            _ => !cursor.is_separation(0),
        });
        if in_flow && self.cursor.has_byte(0, b':') && !self.cursor.is_separation(1) {
            return Err(self.problem("`:` is not allowed here; put quotes around the string"));
        }
        Ok(self.cursor.offset - start)
    }

    /// Scans a quoted scalar. Continuation lines can start at any column.
    pub(super) fn quoted_scalar(&mut self, quote: u8) -> Result<(), Problem> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        self.cursor.skip(1);
        let mut text = TextBuilder::new(self.cursor.offset);
        loop {
            if self.cursor.is_end() || self.cursor.is_document_marker() {
                return Err(Problem::syntax(line, "unterminated quoted string"));
            }
            let mut gap = Gap::default();
            self.quoted_run(quote, &mut text, &mut gap)?;
            if self.cursor.has_byte(0, quote) {
                break;
            }
            let gap_start = self.cursor.offset;
            while self.cursor.is_blank(0) || self.cursor.is_break() {
                if self.cursor.is_break() {
                    gap.line_break(self.cursor.skip_break());
                } else {
                    self.cursor.skip(1);
                }
            }
            if gap.has_line_break {
                gap.fold_into(text.make_owned(&self.cursor));
            } else {
                text.push_run(&self.cursor, gap_start, self.cursor.offset);
            }
        }
        self.cursor.skip(1);
        let text = text.finish(&self.cursor);
        self.content(Token::Scalar { text, plain: false }, line);
        Ok(())
    }

    /// Skips quoted characters up to whitespace or the closing quote.
    fn quoted_run(&mut self, quote: u8, text: &mut TextBuilder, gap: &mut Gap) -> Result<(), Problem> {
        loop {
            let from = self.cursor.offset;
            self.cursor.take_while(|cursor| {
                !(cursor.has_byte(0, quote)
                    || cursor.is_separation(0)
                    || quote == b'"' && cursor.has_byte(0, b'\\'))
            });
            if self.cursor.offset > from {
                text.push_run(&self.cursor, from, self.cursor.offset);
            }
            if quote == b'\'' && self.cursor.starts_with("''") {
                text.make_owned(&self.cursor).push('\'');
                self.cursor.skip(2);
            } else if quote == b'"' && self.cursor.has_byte(0, b'\\') {
                text.make_owned(&self.cursor);
                self.cursor.skip(1);
                if self.cursor.is_break() {
                    self.cursor.skip_break();
                    gap.line_break("");
                    return Ok(());
                }
                let escaped = self.escape()?;
                text.make_owned(&self.cursor).push(escaped);
            } else {
                return Ok(());
            }
        }
    }

    /// Reads the rest of an escape sequence after its backslash and returns the character.
    fn escape(&mut self) -> Result<char, Problem> {
        let digits = match self.cursor.peek_byte(0) {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        if digits > 0 {
            self.cursor.skip(1);
            let code = self.cursor.slice(self.cursor.offset, self.cursor.offset + digits);
            let hex = code.len() == digits && code.bytes().all(|byte| byte.is_ascii_hexdigit());
            let value = u32::from_str_radix(code, 16).ok().filter(|_| hex).and_then(char::from_u32);
            self.cursor.skip(if hex { digits } else { 0 });
            return value.ok_or_else(|| self.problem("invalid character in an escape (`\\x`, `\\u`, `\\U`)"));
        }
        let value = match self.cursor.peek_byte(0) {
            Some(b'0') => '\0',
            Some(b'a') => '\u{7}',
            Some(b'b') => '\u{8}',
            Some(b't' | b'\t') => '\t',
            Some(b'n') => '\n',
            Some(b'v') => '\u{b}',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'e') => '\u{1b}',
            Some(b'N') => '\u{85}',
            Some(b'_') => '\u{a0}',
            Some(b'L') => '\u{2028}',
            Some(b'P') => '\u{2029}',
            Some(byte @ (b' ' | b'"' | b'\'' | b'/' | b'\\')) => char::from(byte),
            _ => {
                return Err(self.problem("unknown escape; use `\\\\` for a backslash, or use single quotes"));
            }
        };
        self.cursor.skip(1);
        Ok(value)
    }

    /// Scans a block scalar: `|` (literal) or `>` (folded).
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<(), Problem> {
        self.drop_key()?;
        self.is_key_allowed = true;
        let line = self.cursor.line;
        self.cursor.skip(1);
        let (chomping, mut indent) = self.block_header()?;
        let mut text = String::new();
        let mut line_break = "";
        let mut blank_before = false;
        let mut empty_lines = self.block_empty_lines(&mut indent)?;
        while self.cursor.column == indent && !self.cursor.is_end() {
            let blank = self.cursor.is_blank(0);
            if !literal && line_break == "\n" && !blank_before && !blank {
                if empty_lines.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(line_break);
            }
            text.push_str(&empty_lines);
            blank_before = blank;
            text.push_str(self.cursor.take_while(|cursor| !cursor.is_line_end(0)));
            // As in kubectl, the last line of a file is treated as terminated.
            line_break = if self.cursor.is_end() { "\n" } else { self.cursor.skip_break() };
            empty_lines = self.block_empty_lines(&mut indent)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(line_break);
        }
        if chomping == Chomping::Keep {
            text.push_str(&empty_lines);
        }
        self.content(Token::Scalar { text: Cow::Owned(text), plain: false }, line);
        Ok(())
    }

    /// Reads the header after `|` or `>`. Returns the chomping and the indentation, which is 0 if the first
    /// line determines it.
    fn block_header(&mut self) -> Result<(Chomping, usize), Problem> {
        let (mut chomping, mut increment) = (Chomping::Clip, None);
        while let Some(byte) = self.cursor.peek_byte(0) {
            match byte {
                b'+' if chomping == Chomping::Clip => chomping = Chomping::Keep,
                b'-' if chomping == Chomping::Clip => chomping = Chomping::Strip,
                b'1'..=b'9' if increment.is_none() => increment = Some(usize::from(byte - b'0')),
                _ => break,
            }
            self.cursor.skip(1);
        }
        self.cursor.take_while(|cursor| cursor.is_blank(0));
        self.cursor.skip_comment();
        if !self.cursor.is_line_end(0) {
            return Err(self
                .problem("only a comment may follow `|` or `>` on its line; put quotes around the string"));
        }
        self.cursor.skip_break();
        Ok((chomping, increment.map_or(0, |increment| self.indent.saturating_sub(1) + increment)))
    }

    /// Skips indentation and empty lines that precede a line of a block scalar.
    fn block_empty_lines(&mut self, indent: &mut usize) -> Result<String, Problem> {
        let mut breaks = String::new();
        let mut deepest = 0;
        loop {
            let wanted = *indent;
            self.cursor
                .take_while(|cursor| (wanted == 0 || cursor.column < wanted) && cursor.has_byte(0, b' '));
            deepest = deepest.max(self.cursor.column);
            if (wanted == 0 || self.cursor.column < wanted) && self.cursor.has_byte(0, b'\t') {
                return Err(self.problem("tabs are not allowed as indentation of a block string; use spaces"));
            }
            if !self.cursor.is_break() {
                break;
            }
            breaks.push_str(self.cursor.skip_break());
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent).max(1);
        }
        Ok(breaks)
    }
}

/// Treatment of line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Clip,
    Strip,
    Keep,
}
