use std::collections::VecDeque;

use super::Problem;
use super::cursor::{Cursor, MARKER_LENGTH};
use super::token::Token;

/// A token that becomes a key if a `:` follows.
#[derive(Clone, Copy, Debug, Default)]
struct PossibleKey {
    is_possible: bool,
    /// True if only a key is valid at this position.
    is_required: bool,
    /// Index of the key's first token in the document.
    token: usize,
    offset: usize,
    line: u64,
    column: usize,
}

/// Maximum length of a key without `?`, in bytes. Such a key must also be on a single line.
const KEY_LENGTH_MAX: usize = 1024;

/// Scanner that makes the same decisions about indentation and keys as libyaml. kubectl's parser is a port of
/// libyaml.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    pub(super) cursor: Cursor<'t>,
    tokens: VecDeque<(Token<'t>, u64)>,
    /// Number of tokens consumed so far.
    tokens_taken: usize,
    /// Line of the last consumed token.
    pub(super) taken_line: u64,
    is_ended: bool,
    pub(super) flow_level: usize,
    /// Column of the innermost block plus one, or 0 outside all blocks.
    pub(super) indent: usize,
    outer_indents: Vec<usize>,
    /// True if the next token can be a key.
    pub(super) is_key_allowed: bool,
    /// Possible keys: an entry for the current block, followed by an entry for each open bracket.
    keys: Vec<PossibleKey>,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            tokens_taken: 0,
            taken_line: 1,
            is_ended: false,
            flow_level: 0,
            indent: 0,
            outer_indents: Vec::new(),
            is_key_allowed: true,
            keys: vec![PossibleKey::default()],
        }
    }

    /// Returns the next token and its line, without consuming it.
    pub fn peek(&mut self) -> Result<(&Token<'t>, u64), Problem> {
        self.fill()?;
        Ok(self.tokens.front().map_or((&Token::End, self.cursor.line), |(token, line)| (token, *line)))
    }

    /// Consumes the next token.
    pub fn take(&mut self) -> Result<(Token<'t>, u64), Problem> {
        self.fill()?;
        self.tokens_taken += 1;
        let (token, line) = self.tokens.pop_front().unwrap_or((Token::End, self.cursor.line));
        self.taken_line = line;
        Ok((token, line))
    }

    /// Scans until the type of the next token is certain. A token turns out to be a key only once the `:`
    /// after it is scanned.
    fn fill(&mut self) -> Result<(), Problem> {
        while !self.is_ended {
            if !self.tokens.is_empty() {
                self.expire_keys()?;
                if !self.keys.iter().any(|key| key.is_possible && key.token == self.tokens_taken) {
                    break;
                }
            }
            self.fetch()?;
        }
        Ok(())
    }

    fn push(&mut self, token: Token<'t>, line: u64) {
        self.tokens.push_back((token, line));
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::syntax(self.cursor.line, message)
    }

    fn fetch(&mut self) -> Result<(), Problem> {
        self.skip_to_token();
        self.expire_keys()?;
        self.unroll(self.cursor.column + 1);
        let Some(byte) = self.cursor.peek_byte(0) else { return self.end() };
        if self.cursor.column == 0 && byte == b'%' {
            return self.directive();
        }
        if self.cursor.is_document_marker() {
            return self.document_marker(byte);
        }
        let in_flow = self.flow_level > 0;
        match byte {
            b'[' => self.open(Token::FlowSequence),
            b'{' => self.open(Token::FlowMapping),
            b']' => self.close(Token::FlowSequenceEnd),
            b'}' => self.close(Token::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if self.cursor.is_separation(1) => self.block_entry(),
            b'?' if in_flow || self.cursor.is_separation(1) => self.key(),
            b':' if in_flow || self.cursor.is_separation(1) => self.value(),
            b'*' => self.scan_anchor_or_alias(Token::Alias),
            b'&' => self.scan_anchor_or_alias(Token::Anchor),
            b'!' => self.tag(),
            b'|' | b'>' if !in_flow => self.block_scalar(byte == b'|'),
            b'\'' | b'"' => self.quoted_scalar(byte),
            _ if self.starts_plain(byte) => self.plain_scalar(),
            b'\t' => {
                Err(self
                    .problem("a tab is not allowed as indentation or at the start of a value; use spaces"))
            }
            _ => {
                let found = self.cursor.character().unwrap_or_default();
                Err(self
                    .problem(format!("a value cannot start with {found:?}; put quotes around the string")))
            }
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            if self.cursor.column == 0 && self.cursor.starts_with("\u{feff}") {
                self.cursor.skip_character();
            }
            let tabs = self.flow_level > 0 || !self.is_key_allowed;
            self.cursor.take_while(|cursor| cursor.has_byte(0, b' ') || (tabs && cursor.has_byte(0, b'\t')));
            self.cursor.skip_comment();
            if !self.cursor.is_break() {
                return;
            }
            self.cursor.skip_break();
            if self.flow_level == 0 {
                self.is_key_allowed = true;
            }
        }
    }

    fn starts_plain(&self, byte: u8) -> bool {
        match byte {
            b'-' => !self.cursor.is_blank(1),
            b'?' | b':' => self.flow_level == 0 && !self.cursor.is_separation(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' => false,
            b'\'' | b'"' | b'%' | b'@' | b'`' => false,
            _ => !self.cursor.is_separation(0),
        }
    }

    /// Drops possible keys that started on an earlier line or more than `KEY_LENGTH_MAX` bytes ago.
    fn expire_keys(&mut self) -> Result<(), Problem> {
        let (line, at) = (self.cursor.line, self.cursor.offset);
        for key in &mut self.keys {
            if key.is_possible && (key.line < line || key.offset + KEY_LENGTH_MAX < at) {
                if key.is_required {
                    return Err(missing_colon(key));
                }
                key.is_possible = false;
            }
        }
        Ok(())
    }

    /// Marks the next token as a possible key.
    pub(super) fn save_key(&mut self) -> Result<(), Problem> {
        if !self.is_key_allowed {
            return Ok(());
        }
        self.drop_key()?;
        let Cursor { offset: at, line, column, .. } = self.cursor;
        let required = self.flow_level == 0 && self.indent == column + 1;
        let token = self.tokens_taken + self.tokens.len();
        if let Some(key) = self.keys.last_mut() {
            *key = PossibleKey { is_possible: true, is_required: required, token, offset: at, line, column };
        }
        Ok(())
    }

    /// Drops the possible key of the current block or bracket.
    pub(super) fn drop_key(&mut self) -> Result<(), Problem> {
        match self.keys.last_mut() {
            Some(key) if key.is_possible && key.is_required => Err(missing_colon(key)),
            Some(key) => {
                key.is_possible = false;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Opens a block if `column` is to the right of the current block. Inserts the block's first token at
    /// index `place` of the scanned tokens.
    fn roll(&mut self, column: usize, place: usize, token: Token<'t>, line: u64) {
        if self.flow_level == 0 && self.indent < column + 1 {
            self.outer_indents.push(self.indent);
            self.indent = column + 1;
            self.tokens.insert(place.min(self.tokens.len()), (token, line));
        }
    }

    /// Closes all blocks to the right of `indent`.
    fn unroll(&mut self, indent: usize) {
        while self.flow_level == 0 && self.indent > indent {
            self.push(Token::BlockEnd, self.cursor.line);
            self.indent = self.outer_indents.pop().unwrap_or_default();
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.before_directive()?;
        self.is_ended = true;
        self.push(Token::End, self.cursor.line);
        Ok(())
    }

    /// Closes all blocks before a directive or a document marker.
    pub(super) fn before_directive(&mut self) -> Result<(), Problem> {
        self.unroll(0);
        self.drop_key()?;
        self.is_key_allowed = false;
        Ok(())
    }

    fn document_marker(&mut self, byte: u8) -> Result<(), Problem> {
        self.before_directive()?;
        let token = if byte == b'-' { Token::DocumentStart } else { Token::DocumentEnd };
        self.push(token, self.cursor.line);
        self.cursor.skip(MARKER_LENGTH);
        Ok(())
    }

    fn open(&mut self, token: Token<'t>) -> Result<(), Problem> {
        self.save_key()?;
        self.keys.push(PossibleKey::default());
        self.flow_level += 1;
        self.is_key_allowed = true;
        self.indicator(token);
        Ok(())
    }

    fn close(&mut self, token: Token<'t>) -> Result<(), Problem> {
        self.drop_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.keys.pop();
        }
        self.is_key_allowed = false;
        self.indicator(token);
        Ok(())
    }

    fn indicator(&mut self, token: Token<'t>) {
        self.push(token, self.cursor.line);
        self.cursor.skip(1);
    }

    fn flow_entry(&mut self) -> Result<(), Problem> {
        self.drop_key()?;
        self.is_key_allowed = true;
        self.indicator(Token::FlowEntry);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            if !self.is_key_allowed {
                return Err(self.problem("a list entry (`- `) is not allowed here"));
            }
            let Cursor { column, line, .. } = self.cursor;
            self.roll(column, usize::MAX, Token::BlockSequence, line);
        }
        self.drop_key()?;
        self.is_key_allowed = true;
        self.indicator(Token::BlockEntry);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            if !self.is_key_allowed {
                return Err(self.problem("a key (`? `) is not allowed here"));
            }
            let Cursor { column, line, .. } = self.cursor;
            self.roll(column, usize::MAX, Token::BlockMapping, line);
        }
        self.drop_key()?;
        self.is_key_allowed = self.flow_level == 0;
        self.indicator(Token::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Problem> {
        match self.keys.last_mut().filter(|key| key.is_possible) {
            Some(key) => {
                key.is_possible = false;
                let PossibleKey { token, line, column, .. } = *key;
                let place = token.saturating_sub(self.tokens_taken);
                self.tokens.insert(place.min(self.tokens.len()), (Token::Key, line));
                self.roll(column, place, Token::BlockMapping, line);
                self.is_key_allowed = false;
            }
            None => {
                if self.flow_level == 0 {
                    if !self.is_key_allowed {
                        let hint = "a `key: value` is not allowed here; check the indentation, \
                                    or put quotes around a string that contains `: `";
                        return Err(self.problem(hint));
                    }
                    let Cursor { column, line, .. } = self.cursor;
                    self.roll(column, usize::MAX, Token::BlockMapping, line);
                }
                self.is_key_allowed = self.flow_level == 0;
            }
        }
        self.indicator(Token::Value);
        Ok(())
    }

    /// Emits a token that can start a key, such as a scalar.
    pub(super) fn content(&mut self, token: Token<'t>, line: u64) {
        self.push(token, line);
    }
}

fn missing_colon(key: &PossibleKey) -> Problem {
    Problem::syntax(key.line, "a key has no `:`; use `key: value`, or indent the continuation of a string")
}
