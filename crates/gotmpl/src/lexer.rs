//! Lexer compatible with Go's `text/template/parse`.

use std::fmt;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Bool,
    /// A printable character with a meaning only for the parser, such as a comma.
    Char,
    CharConstant,
    Assign,
    Declare,
    End,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Dot,
    Nil,
    Keyword(Keyword),
}

/// Keywords that begin or end a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A token of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind,
    /// Byte offset in the template.
    pub(crate) offset: usize,
    pub(crate) text: &'t str,
    pub(crate) line: usize,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TokenKind::End => f.write_str("EOF"),
            TokenKind::Keyword(_) | TokenKind::Dot | TokenKind::Nil => write!(f, "<{}>", self.text),
            _ if self.text.chars().count() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                write!(f, "{}...", crate::quote::quote_string(&start))
            }
            _ => f.write_str(&crate::quote::quote_string(self.text)),
        }
    }
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Returns the tokens of a template up to the first error, and the error message.
pub(crate) fn tokenize(text: &str) -> (Vec<Token<'_>>, Option<String>) {
    let mut lexer = Lexer { text, offset: 0, line: 1, tokens: Vec::new(), parens: 0 };
    let error = lexer.run().err();
    let end = Token { kind: TokenKind::End, offset: text.len(), text: "", line: lexer.line };
    lexer.tokens.push(end);
    (lexer.tokens, error)
}

struct Lexer<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
    tokens: Vec<Token<'t>>,
    parens: usize,
}

type LexResult = Result<(), String>;

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Emits a token that consists of the next `bytes` bytes.
    fn emit(&mut self, kind: TokenKind, bytes: usize) {
        let text = self.rest().get(..bytes).unwrap_or_default();
        self.tokens.push(Token { kind, offset: self.offset, text, line: self.line });
        self.skip(bytes);
    }

    fn skip(&mut self, bytes: usize) {
        let text = self.rest().get(..bytes).unwrap_or_default();
        self.line = self.line.saturating_add(text.matches('\n').count());
        self.offset = self.offset.saturating_add(bytes);
    }

    fn run(&mut self) -> LexResult {
        loop {
            let rest = self.rest();
            let Some(left) = rest.find(LEFT) else {
                if !rest.is_empty() {
                    self.emit(TokenKind::Text, rest.len());
                }
                return Ok(());
            };
            let trims = begins_with_trim(rest.get(left + LEFT.len()..).unwrap_or_default());
            let text = rest.get(..left).unwrap_or_default();
            let kept = if trims { text.trim_end_matches(SPACES).len() } else { text.len() };
            if kept > 0 {
                self.emit(TokenKind::Text, kept);
            }
            self.skip(left - kept);
            self.read_action(trims)?;
        }
    }

    /// Reads an action up to the right delimiter. `trims` is true if the left delimiter trims whitespace.
    fn read_action(&mut self, trims: bool) -> LexResult {
        let marker = if trims { 2 } else { 0 };
        if self.rest().get(LEFT.len() + marker..).is_some_and(|rest| rest.starts_with("/*")) {
            self.skip(LEFT.len() + marker);
            return self.read_comment();
        }
        self.emit(TokenKind::LeftDelim, LEFT.len());
        self.skip(marker);
        self.parens = 0;
        loop {
            if let Some(trims) = self.right_delimiter() {
                if self.parens > 0 {
                    return Err("unclosed left paren".to_owned());
                }
                if trims {
                    self.skip(2);
                }
                self.emit(TokenKind::RightDelim, RIGHT.len());
                if trims {
                    self.trim_space();
                }
                return Ok(());
            }
            self.read_inside()?;
        }
    }

    fn read_comment(&mut self) -> LexResult {
        let end = self.rest().find("*/").ok_or_else(|| "unclosed comment".to_owned())?;
        self.skip(end + 2);
        let trims =
            self.right_delimiter().ok_or_else(|| "comment ends before closing delimiter".to_owned())?;
        self.skip(RIGHT.len() + if trims { 2 } else { 0 });
        if trims {
            self.trim_space();
        }
        Ok(())
    }

    fn trim_space(&mut self) {
        let rest = self.rest();
        self.skip(rest.len() - rest.trim_start_matches(SPACES).len());
    }

    /// Returns true if the next right delimiter trims the whitespace after the action, false if it doesn't,
    /// and `None` if the action doesn't end here.
    fn right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if rest.starts_with(RIGHT) {
            return Some(false);
        }
        let mut characters = rest.chars();
        let trims = characters.next().is_some_and(|space| SPACES.contains(&space))
            && characters.next() == Some('-')
            && characters.as_str().starts_with(RIGHT);
        trims.then_some(true)
    }

    fn read_inside(&mut self) -> LexResult {
        let Some(next) = self.peek() else { return Err("unclosed action".to_owned()) };
        match next {
            ' ' | '\t' | '\r' | '\n' => self.read_spaces(),
            '=' => self.emit(TokenKind::Assign, 1),
            ':' if self.rest().starts_with(":=") => self.emit(TokenKind::Declare, 2),
            ':' => return Err("expected :=".to_owned()),
            '|' => self.emit(TokenKind::Pipe, 1),
            '"' => return self.read_quoted('"', TokenKind::String, "unterminated quoted string"),
            '\'' => {
                return self.read_quoted('\'', TokenKind::CharConstant, "unterminated character constant");
            }
            '`' => return self.read_raw(),
            '$' => return self.read_name(TokenKind::Variable),
            '.' if !self.rest().chars().nth(1).is_some_and(|digit| digit.is_ascii_digit()) => {
                return self.read_name(TokenKind::Field);
            }
            '+' | '-' | '.' | '0'..='9' => return self.read_number(),
            '(' => {
                self.parens = self.parens.saturating_add(1);
                self.emit(TokenKind::LeftParen, 1);
            }
            ')' => {
                self.parens =
                    self.parens.checked_sub(1).ok_or_else(|| "unexpected right paren".to_owned())?;
                self.emit(TokenKind::RightParen, 1);
            }
            letter if is_name(letter) => return self.read_word(),
            other if other.is_ascii_graphic() => self.emit(TokenKind::Char, 1),
            other => return Err(format!("unrecognized character in action: {}", describe_character(other))),
        }
        Ok(())
    }

    /// Skips spaces, except for the last space before a trim marker, which is part of the marker.
    fn read_spaces(&mut self) {
        let mut bytes = 0;
        for (offset, character) in self.rest().char_indices() {
            if !SPACES.contains(&character) {
                break;
            }
            bytes = offset + character.len_utf8();
        }
        let trims = self
            .rest()
            .get(bytes..)
            .is_some_and(|rest| rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(RIGHT)));
        let bytes = if trims { bytes - 1 } else { bytes };
        if bytes > 0 {
            self.emit(TokenKind::Space, bytes);
        }
    }

    fn read_quoted(&mut self, quote: char, kind: TokenKind, open: &str) -> LexResult {
        let mut escaped = false;
        for (offset, character) in self.rest().char_indices().skip(1) {
            match character {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if character == quote => {
                    self.emit(kind, offset + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(open.to_owned())
    }

    fn read_raw(&mut self) -> LexResult {
        let end = self.rest().get(1..).and_then(|rest| rest.find('`'));
        let end = end.ok_or_else(|| "unterminated raw quoted string".to_owned())?;
        self.emit(TokenKind::RawString, end + 2);
        Ok(())
    }

    /// Reads a field or a variable, which consists of a prefix and letters.
    fn read_name(&mut self, kind: TokenKind) -> LexResult {
        let bytes = 1 + self.rest().get(1..).map_or(0, name_bytes);
        self.check_end(bytes)?;
        let kind = if kind == TokenKind::Field && bytes == 1 { TokenKind::Dot } else { kind };
        self.emit(kind, bytes);
        Ok(())
    }

    fn read_word(&mut self) -> LexResult {
        let bytes = name_bytes(self.rest());
        self.check_end(bytes)?;
        let kind = match self.rest().get(..bytes).unwrap_or_default() {
            "true" | "false" => TokenKind::Bool,
            "nil" => TokenKind::Nil,
            "block" => TokenKind::Keyword(Keyword::Block),
            "break" => TokenKind::Keyword(Keyword::Break),
            "continue" => TokenKind::Keyword(Keyword::Continue),
            "define" => TokenKind::Keyword(Keyword::Define),
            "else" => TokenKind::Keyword(Keyword::Else),
            "end" => TokenKind::Keyword(Keyword::End),
            "if" => TokenKind::Keyword(Keyword::If),
            "range" => TokenKind::Keyword(Keyword::Range),
            "template" => TokenKind::Keyword(Keyword::Template),
            "with" => TokenKind::Keyword(Keyword::With),
            _ => TokenKind::Identifier,
        };
        self.emit(kind, bytes);
        Ok(())
    }

    /// Fails if the character at offset `bytes` can't follow a name.
    fn check_end(&self, bytes: usize) -> LexResult {
        let rest = self.rest().get(bytes..).unwrap_or_default();
        match rest.chars().next() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => Ok(()),
            Some(_) if rest.starts_with(RIGHT) => Ok(()),
            Some(other) => Err(format!("bad character {}", describe_character(other))),
        }
    }

    fn read_number(&mut self) -> LexResult {
        let rest = self.rest();
        let bytes = number_bytes(rest);
        let next = |at: usize| rest.get(at..).and_then(|rest| rest.chars().next());
        // Two numbers joined by a sign form a complex number, which this crate doesn't support.
        let is_sum = matches!(next(bytes), Some('+' | '-'));
        let end = if is_sum { bytes + number_bytes(rest.get(bytes..).unwrap_or_default()) } else { bytes };
        let letter = next(end).filter(|letter| is_name(*letter));
        if is_sum || letter.is_some() {
            let text = rest.get(..end + letter.map_or(0, char::len_utf8)).unwrap_or_default();
            return Err(format!("bad number syntax: {}", crate::quote::quote_string(text)));
        }
        self.emit(TokenKind::Number, bytes);
        Ok(())
    }
}

fn begins_with_trim(rest: &str) -> bool {
    let mut characters = rest.chars();
    characters.next() == Some('-') && characters.next().is_some_and(|space| SPACES.contains(&space))
}

fn is_name(character: char) -> bool {
    character == '_' || character.is_alphabetic() || character.is_numeric()
}

fn name_bytes(text: &str) -> usize {
    text.find(|character| !is_name(character)).unwrap_or(text.len())
}

/// Returns the length of the number at the start of the text: sign, base, digits, fraction and exponent.
fn number_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let mut at = usize::from(matches!(byte(0), b'+' | b'-'));
    let mut is_digit: fn(u8) -> bool = |digit| digit.is_ascii_digit() || digit == b'_';
    let (mut is_hex, mut is_decimal) = (false, true);
    if byte(at) == b'0' {
        at += 1;
        match byte(at) {
            b'x' | b'X' => {
                at += 1;
                is_hex = true;
                is_digit = |digit| digit.is_ascii_hexdigit() || digit == b'_';
            }
            b'o' | b'O' => {
                at += 1;
                is_decimal = false;
                is_digit = |digit| matches!(digit, b'0'..=b'7' | b'_');
            }
            b'b' | b'B' => {
                at += 1;
                is_decimal = false;
                is_digit = |digit| matches!(digit, b'0' | b'1' | b'_');
            }
            _ => {}
        }
    }
    while is_digit(byte(at)) {
        at += 1;
    }
    if byte(at) == b'.' {
        at += 1;
        while is_digit(byte(at)) {
            at += 1;
        }
    }
    let exponent = match byte(at) {
        b'p' | b'P' => is_hex,
        b'e' | b'E' => is_decimal && !is_hex,
        _ => false,
    };
    if exponent {
        at += 1;
        at += usize::from(matches!(byte(at), b'+' | b'-'));
        while byte(at).is_ascii_digit() || byte(at) == b'_' {
            at += 1;
        }
    }
    at
}

/// Describes a character like Go's `%#U`.
fn describe_character(character: char) -> String {
    if character.is_control() {
        format!("U+{:04X}", u32::from(character))
    } else {
        format!("U+{:04X} '{character}'", u32::from(character))
    }
}
