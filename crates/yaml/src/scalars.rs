use std::borrow::Cow;

use super::Problem;
use super::cursor::Cursor;
use super::scanner::Scanner;
use super::token::Token;

/// A text that is read run by run: a slice of the document for as long as it stands there in one piece.
#[derive(Default)]
struct Text {
    slice: (usize, usize),
    owned: Option<String>,
    started: bool,
}

impl Text {
    fn at(at: usize) -> Self {
        Self { slice: (at, at), owned: None, started: false }
    }

    /// Adds what stands between `from` and `to`, with the blanks before it (since `gap`).
    fn add(&mut self, cursor: &Cursor<'_>, gap: usize, to: usize) {
        match &mut self.owned {
            None => self.slice.1 = to,
            Some(text) => text.push_str(cursor.slice(gap, to)),
        }
        self.started = true;
    }

    /// Adds what does not stand in the document as it is.
    fn edit(&mut self, cursor: &Cursor<'_>) -> &mut String {
        let (from, to) = self.slice;
        self.owned.get_or_insert_with(|| cursor.slice(from, to).to_owned())
    }

    fn finish<'t>(self, cursor: &Cursor<'t>) -> Cow<'t, str> {
        self.owned.map_or_else(|| Cow::Borrowed(cursor.slice(self.slice.0, self.slice.1)), Cow::Owned)
    }
}

/// The white space between two pieces of a text that may go over several lines.
#[derive(Default)]
struct Gap {
    /// Whether it holds a line break, or an escaped one.
    broken: bool,
    first_break: &'static str,
    further_breaks: String,
}

impl Gap {
    fn line_break(&mut self, line_break: &'static str) {
        if self.broken {
            self.further_breaks.push_str(line_break);
        } else {
            self.broken = true;
            self.first_break = line_break;
        }
    }

    /// One line break is a space; of several, the first is dropped.
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
    /// A text without quotes.
    pub(super) fn plain_scalar(&mut self) -> Result<(), Problem> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.cursor.line;
        let mut text = Text::at(self.cursor.at);
        let mut gap = Gap::default();
        let mut gap_start = self.cursor.at;
        loop {
            if self.cursor.is_document_marker() || self.cursor.is(0, b'#') {
                break;
            }
            let run = self.plain_run()?;
            if run > 0 {
                if gap.broken {
                    gap.fold_into(text.edit(&self.cursor));
                    gap_start = self.cursor.at - run;
                    gap = Gap::default();
                }
                text.add(&self.cursor, gap_start, self.cursor.at);
            }
            if !(self.cursor.is_blank(0) || self.cursor.is_break()) {
                break;
            }
            gap_start = self.cursor.at;
            while self.cursor.is_blank(0) || self.cursor.is_break() {
                if self.cursor.is_break() {
                    gap.line_break(self.cursor.skip_break());
                } else if gap.broken && self.cursor.column < self.indent && self.cursor.is(0, b'\t') {
                    return Err(self.problem("a tab cannot indent; use spaces"));
                } else {
                    self.cursor.skip(1);
                }
            }
            if self.flow_level == 0 && self.cursor.column < self.indent {
                break;
            }
        }
        if gap.broken {
            self.key_allowed = true;
        }
        let text = text.finish(&self.cursor);
        self.content(Token::Scalar { text, plain: true }, line);
        Ok(())
    }

    /// Passes what belongs to a text without quotes, up to white space or what ends it; its length.
    fn plain_run(&mut self) -> Result<usize, Problem> {
        let (start, in_flow) = (self.cursor.at, self.flow_level > 0);
        self.cursor.run(|cursor| match cursor.byte(0) {
            Some(b':') => {
                let after = cursor.byte(1);
                let unclear = in_flow && matches!(after, Some(b',' | b'?' | b'[' | b']' | b'{' | b'}'));
                !unclear && !cursor.is_separation(1)
            }
            Some(b',' | b'[' | b']' | b'{' | b'}') => !in_flow,
            _ => !cursor.is_separation(0),
        });
        if in_flow && self.cursor.is(0, b':') && !self.cursor.is_separation(1) {
            return Err(self.problem("a `:` is not allowed in this place; put quotes around the text"));
        }
        Ok(self.cursor.at - start)
    }

    /// A text in quotes. Its further lines may begin anywhere.
    pub(super) fn quoted_scalar(&mut self, quote: u8) -> Result<(), Problem> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.cursor.line;
        self.cursor.skip(1);
        let mut text = Text::at(self.cursor.at);
        loop {
            if self.cursor.is_end() || self.cursor.is_document_marker() {
                return Err(Problem::syntax(line, "a text that begins with a quote has no quote at its end"));
            }
            let mut gap = Gap::default();
            self.quoted_run(quote, &mut text, &mut gap)?;
            if self.cursor.is(0, quote) {
                break;
            }
            let gap_start = self.cursor.at;
            while self.cursor.is_blank(0) || self.cursor.is_break() {
                if self.cursor.is_break() {
                    gap.line_break(self.cursor.skip_break());
                } else {
                    self.cursor.skip(1);
                }
            }
            if gap.broken {
                gap.fold_into(text.edit(&self.cursor));
            } else {
                text.add(&self.cursor, gap_start, self.cursor.at);
            }
        }
        self.cursor.skip(1);
        let text = text.finish(&self.cursor);
        self.content(Token::Scalar { text, plain: false }, line);
        Ok(())
    }

    /// Passes what stands in quotes, up to white space or the quote.
    fn quoted_run(&mut self, quote: u8, text: &mut Text, gap: &mut Gap) -> Result<(), Problem> {
        loop {
            let from = self.cursor.at;
            self.cursor.run(|cursor| {
                !(cursor.is(0, quote) || cursor.is_separation(0) || quote == b'"' && cursor.is(0, b'\\'))
            });
            if self.cursor.at > from {
                text.add(&self.cursor, from, self.cursor.at);
            }
            if quote == b'\'' && self.cursor.starts_with("''") {
                text.edit(&self.cursor).push('\'');
                self.cursor.skip(2);
            } else if quote == b'"' && self.cursor.is(0, b'\\') {
                text.edit(&self.cursor);
                self.cursor.skip(1);
                if self.cursor.is_break() {
                    self.cursor.skip_break();
                    gap.line_break("");
                    return Ok(());
                }
                let escaped = self.escape()?;
                text.edit(&self.cursor).push(escaped);
            } else {
                return Ok(());
            }
        }
    }

    /// The character that an escape stands for, behind its backslash.
    fn escape(&mut self) -> Result<char, Problem> {
        let digits = match self.cursor.byte(0) {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        if digits > 0 {
            self.cursor.skip(1);
            let code = self.cursor.slice(self.cursor.at, self.cursor.at + digits);
            let hex = code.len() == digits && code.bytes().all(|byte| byte.is_ascii_hexdigit());
            let value = u32::from_str_radix(code, 16).ok().filter(|_| hex).and_then(char::from_u32);
            self.cursor.skip(if hex { digits } else { 0 });
            return value
                .ok_or_else(|| self.problem("an escape (`\\x`, `\\u`, `\\U`) that names no character"));
        }
        let value = match self.cursor.byte(0) {
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
                return Err(
                    self.problem("an unknown escape; write `\\\\` for a backslash, or use single quotes")
                );
            }
        };
        self.cursor.skip(1);
        Ok(value)
    }

    /// A text after `|` (as it is) or `>` (folded).
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<(), Problem> {
        self.drop_key()?;
        self.key_allowed = true;
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
            text.push_str(self.cursor.run(|cursor| !cursor.is_line_end(0)));
            // kubectl ends the last line of a file, too.
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

    /// What stands behind `|` or `>`: what becomes of the last line breaks, and the indentation, 0 for that of the
    /// first line.
    fn block_header(&mut self) -> Result<(Chomping, usize), Problem> {
        let (mut chomping, mut increment) = (Chomping::Clip, None);
        while let Some(byte) = self.cursor.byte(0) {
            match byte {
                b'+' if chomping == Chomping::Clip => chomping = Chomping::Keep,
                b'-' if chomping == Chomping::Clip => chomping = Chomping::Strip,
                b'1'..=b'9' if increment.is_none() => increment = Some(usize::from(byte - b'0')),
                _ => break,
            }
            self.cursor.skip(1);
        }
        self.cursor.run(|cursor| cursor.is_blank(0));
        self.cursor.skip_comment();
        if !self.cursor.is_line_end(0) {
            return Err(
                self.problem("only a comment may follow `|` or `>` on its line; put quotes around the text")
            );
        }
        self.cursor.skip_break();
        Ok((chomping, increment.map_or(0, |increment| self.indent.saturating_sub(1) + increment)))
    }

    /// Passes the indentation and the empty lines before a line of a block text.
    fn block_empty_lines(&mut self, indent: &mut usize) -> Result<String, Problem> {
        let mut breaks = String::new();
        let mut deepest = 0;
        loop {
            let wanted = *indent;
            self.cursor.run(|cursor| (wanted == 0 || cursor.column < wanted) && cursor.is(0, b' '));
            deepest = deepest.max(self.cursor.column);
            if (wanted == 0 || self.cursor.column < wanted) && self.cursor.is(0, b'\t') {
                return Err(self.problem("a tab cannot indent the lines of a text; use spaces"));
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

/// What becomes of the line breaks at the end of a block text.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Clip,
    Strip,
    Keep,
}
