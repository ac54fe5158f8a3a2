use std::collections::VecDeque;

use super::Problem;
use super::cursor::{Cursor, MARKER_LENGTH};
use super::token::Token;

/// Something that is a key if a `:` follows it.
#[derive(Clone, Copy, Debug, Default)]
struct PossibleKey {
    possible: bool,
    /// Nothing else may stand there.
    required: bool,
    /// Which token it begins with, counted from the first of the document.
    token: usize,
    at: usize,
    line: u64,
    column: usize,
}

/// A key that needs no `?` ends within so many bytes, and on its line.
const KEY_LENGTH_MAX: usize = 1024;

/// Cuts a document into tokens, in the way of libyaml, of which kubectl's parser is a port: what has this indentation
/// here, and which text turns out to be a key, is decided as there.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    pub(super) cursor: Cursor<'t>,
    tokens: VecDeque<(Token<'t>, u64)>,
    /// Tokens that were taken.
    taken: usize,
    /// Line of the last one.
    pub(super) taken_line: u64,
    ended: bool,
    pub(super) flow_level: usize,
    /// Column of the innermost block, plus one; 0 outside of all.
    pub(super) indent: usize,
    outer_indents: Vec<usize>,
    /// Whether what comes next may be a key.
    pub(super) key_allowed: bool,
    /// One for the block, and one for each open bracket.
    keys: Vec<PossibleKey>,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            taken_line: 1,
            ended: false,
            flow_level: 0,
            indent: 0,
            outer_indents: Vec::new(),
            key_allowed: true,
            keys: vec![PossibleKey::default()],
        }
    }

    /// The next token and its line, which stays.
    pub fn peek(&mut self) -> Result<(&Token<'t>, u64), Problem> {
        self.fill()?;
        Ok(self.tokens.front().map_or((&Token::End, self.cursor.line), |(token, line)| (token, *line)))
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Result<(Token<'t>, u64), Problem> {
        self.fill()?;
        self.taken += 1;
        let (token, line) = self.tokens.pop_front().unwrap_or((Token::End, self.cursor.line));
        self.taken_line = line;
        Ok((token, line))
    }

    /// Reads on until it is certain what the next token is: a key is only known by the `:` behind it.
    fn fill(&mut self) -> Result<(), Problem> {
        while !self.ended {
            if !self.tokens.is_empty() {
                self.expire_keys()?;
                if !self.keys.iter().any(|key| key.possible && key.token == self.taken) {
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
        let Some(byte) = self.cursor.byte(0) else { return self.end() };
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
            b'*' => self.named(Token::Alias),
            b'&' => self.named(Token::Anchor),
            b'!' => self.tag(),
            b'|' | b'>' if !in_flow => self.block_scalar(byte == b'|'),
            b'\'' | b'"' => self.quoted_scalar(byte),
            _ if self.starts_plain(byte) => self.plain_scalar(),
            b'\t' => Err(self.problem("a tab cannot indent, and no value starts with one; use spaces")),
            _ => {
                let found = self.cursor.character().unwrap_or_default();
                Err(self.problem(format!("no value starts with {found:?}; put quotes around the text")))
            }
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            if self.cursor.column == 0 && self.cursor.starts_with("\u{feff}") {
                self.cursor.skip_character();
            }
            let tabs = self.flow_level > 0 || !self.key_allowed;
            self.cursor.run(|cursor| cursor.is(0, b' ') || (tabs && cursor.is(0, b'\t')));
            self.cursor.skip_comment();
            if !self.cursor.is_break() {
                return;
            }
            self.cursor.skip_break();
            if self.flow_level == 0 {
                self.key_allowed = true;
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

    /// What began on an earlier line, or too far back, is no key any more.
    fn expire_keys(&mut self) -> Result<(), Problem> {
        let (line, at) = (self.cursor.line, self.cursor.at);
        for key in &mut self.keys {
            if key.possible && (key.line < line || key.at + KEY_LENGTH_MAX < at) {
                if key.required {
                    return Err(missing_colon(key));
                }
                key.possible = false;
            }
        }
        Ok(())
    }

    /// What comes next may be a key.
    pub(super) fn save_key(&mut self) -> Result<(), Problem> {
        if !self.key_allowed {
            return Ok(());
        }
        self.drop_key()?;
        let Cursor { at, line, column, .. } = self.cursor;
        let required = self.flow_level == 0 && self.indent == column + 1;
        let token = self.taken + self.tokens.len();
        if let Some(key) = self.keys.last_mut() {
            *key = PossibleKey { possible: true, required, token, at, line, column };
        }
        Ok(())
    }

    /// What came before is no key.
    pub(super) fn drop_key(&mut self) -> Result<(), Problem> {
        match self.keys.last_mut() {
            Some(key) if key.possible && key.required => Err(missing_colon(key)),
            Some(key) => {
                key.possible = false;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A block begins here if this is further right than the one around it. `place` among the waiting tokens.
    fn roll(&mut self, column: usize, place: usize, token: Token<'t>, line: u64) {
        if self.flow_level == 0 && self.indent < column + 1 {
            self.outer_indents.push(self.indent);
            self.indent = column + 1;
            self.tokens.insert(place.min(self.tokens.len()), (token, line));
        }
    }

    /// Blocks that are further right than this have ended.
    fn unroll(&mut self, indent: usize) {
        while self.flow_level == 0 && self.indent > indent {
            self.push(Token::BlockEnd, self.cursor.line);
            self.indent = self.outer_indents.pop().unwrap_or_default();
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.before_directive()?;
        self.ended = true;
        self.push(Token::End, self.cursor.line);
        Ok(())
    }

    /// A directive or a marker ends all blocks.
    pub(super) fn before_directive(&mut self) -> Result<(), Problem> {
        self.unroll(0);
        self.drop_key()?;
        self.key_allowed = false;
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
        self.key_allowed = true;
        self.indicator(token);
        Ok(())
    }

    fn close(&mut self, token: Token<'t>) -> Result<(), Problem> {
        self.drop_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.keys.pop();
        }
        self.key_allowed = false;
        self.indicator(token);
        Ok(())
    }

    fn indicator(&mut self, token: Token<'t>) {
        self.push(token, self.cursor.line);
        self.cursor.skip(1);
    }

    fn flow_entry(&mut self) -> Result<(), Problem> {
        self.drop_key()?;
        self.key_allowed = true;
        self.indicator(Token::FlowEntry);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("a list entry (`- `) is not allowed in this place"));
            }
            let Cursor { column, line, .. } = self.cursor;
            self.roll(column, usize::MAX, Token::BlockSequence, line);
        }
        self.drop_key()?;
        self.key_allowed = true;
        self.indicator(Token::BlockEntry);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("a key (`? `) is not allowed in this place"));
            }
            let Cursor { column, line, .. } = self.cursor;
            self.roll(column, usize::MAX, Token::BlockMapping, line);
        }
        self.drop_key()?;
        self.key_allowed = self.flow_level == 0;
        self.indicator(Token::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Problem> {
        match self.keys.last_mut().filter(|key| key.possible) {
            Some(key) => {
                key.possible = false;
                let PossibleKey { token, line, column, .. } = *key;
                let place = token.saturating_sub(self.taken);
                self.tokens.insert(place.min(self.tokens.len()), (Token::Key, line));
                self.roll(column, place, Token::BlockMapping, line);
                self.key_allowed = false;
            }
            None => {
                if self.flow_level == 0 {
                    if !self.key_allowed {
                        let hint = "a `key: value` is not allowed in this place; check the indentation, \
                                    or put quotes around a text that holds `: `";
                        return Err(self.problem(hint));
                    }
                    let Cursor { column, line, .. } = self.cursor;
                    self.roll(column, usize::MAX, Token::BlockMapping, line);
                }
                self.key_allowed = self.flow_level == 0;
            }
        }
        self.indicator(Token::Value);
        Ok(())
    }

    /// A token that may begin a key, such as a text.
    pub(super) fn content(&mut self, token: Token<'t>, line: u64) {
        self.push(token, line);
    }
}

fn missing_colon(key: &PossibleKey) -> Problem {
    Problem::syntax(
        key.line,
        "a key without `:` behind it; write `key: value`, or indent what continues a text",
    )
}
