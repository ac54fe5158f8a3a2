//! Text to tokens, as `text/template/parse` of Go cuts it.

use std::fmt;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// A printable character that means something only to the parser, such as a comma.
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
    Word(Word),
}

/// The words that begin or end a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
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

/// One piece of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    /// Byte offset in the template.
    pub(crate) at: usize,
    pub(crate) text: &'t str,
    pub(crate) line: usize,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::End => f.write_str("EOF"),
            Kind::Word(_) | Kind::Dot | Kind::Nil => write!(f, "<{}>", self.text),
            _ if self.text.chars().count() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                write!(f, "{}...", crate::quote::quoted(&start))
            }
            _ => f.write_str(&crate::quote::quoted(self.text)),
        }
    }
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// All tokens of a template. When something is wrong, an error token is the last one.
pub(crate) fn tokens(text: &str) -> (Vec<Token<'_>>, Option<String>) {
    let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new(), parens: 0 };
    let error = lexer.run().err();
    let end = Token { kind: Kind::End, at: text.len(), text: "", line: lexer.line };
    lexer.tokens.push(end);
    (lexer.tokens, error)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'t>>,
    parens: usize,
}

type Lexed = Result<(), String>;

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next `bytes` bytes as a token.
    fn take(&mut self, kind: Kind, bytes: usize) {
        let text = self.rest().get(..bytes).unwrap_or_default();
        self.tokens.push(Token { kind, at: self.at, text, line: self.line });
        self.skip(bytes);
    }

    fn skip(&mut self, bytes: usize) {
        let text = self.rest().get(..bytes).unwrap_or_default();
        self.line = self.line.saturating_add(text.matches('\n').count());
        self.at = self.at.saturating_add(bytes);
    }

    fn run(&mut self) -> Lexed {
        loop {
            let rest = self.rest();
            let Some(left) = rest.find(LEFT) else {
                if !rest.is_empty() {
                    self.take(Kind::Text, rest.len());
                }
                return Ok(());
            };
            let trims = begins_with_trim(rest.get(left + LEFT.len()..).unwrap_or_default());
            let text = rest.get(..left).unwrap_or_default();
            let kept = if trims { text.trim_end_matches(SPACES).len() } else { text.len() };
            if kept > 0 {
                self.take(Kind::Text, kept);
            }
            self.skip(left - kept);
            self.action(trims)?;
        }
    }

    /// From the left delimiter to the right one, and the space after it that is trimmed.
    fn action(&mut self, trims: bool) -> Lexed {
        let marker = if trims { 2 } else { 0 };
        if self.rest().get(LEFT.len() + marker..).is_some_and(|rest| rest.starts_with("/*")) {
            self.skip(LEFT.len() + marker);
            return self.comment();
        }
        self.take(Kind::LeftDelim, LEFT.len());
        self.skip(marker);
        self.parens = 0;
        loop {
            if let Some(trims) = self.at_right() {
                if self.parens > 0 {
                    return Err("unclosed left paren".to_owned());
                }
                if trims {
                    self.skip(2);
                }
                self.take(Kind::RightDelim, RIGHT.len());
                if trims {
                    self.trim();
                }
                return Ok(());
            }
            self.inside()?;
        }
    }

    fn comment(&mut self) -> Lexed {
        let end = self.rest().find("*/").ok_or_else(|| "unclosed comment".to_owned())?;
        self.skip(end + 2);
        let trims = self.at_right().ok_or_else(|| "comment ends before closing delimiter".to_owned())?;
        self.skip(RIGHT.len() + if trims { 2 } else { 0 });
        if trims {
            self.trim();
        }
        Ok(())
    }

    fn trim(&mut self) {
        let rest = self.rest();
        self.skip(rest.len() - rest.trim_start_matches(SPACES).len());
    }

    /// Whether the action ends here, and if so whether what follows is trimmed.
    fn at_right(&self) -> Option<bool> {
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

    fn inside(&mut self) -> Lexed {
        let Some(next) = self.peek() else { return Err("unclosed action".to_owned()) };
        match next {
            ' ' | '\t' | '\r' | '\n' => self.spaces(),
            '=' => self.take(Kind::Assign, 1),
            ':' if self.rest().starts_with(":=") => self.take(Kind::Declare, 2),
            ':' => return Err("expected :=".to_owned()),
            '|' => self.take(Kind::Pipe, 1),
            '"' => return self.quoted('"', Kind::String, "unterminated quoted string"),
            '\'' => return self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => return self.raw(),
            '$' => return self.name(Kind::Variable),
            '.' if !self.rest().chars().nth(1).is_some_and(|digit| digit.is_ascii_digit()) => {
                return self.name(Kind::Field);
            }
            '+' | '-' | '.' | '0'..='9' => return self.number(),
            '(' => {
                self.parens = self.parens.saturating_add(1);
                self.take(Kind::LeftParen, 1);
            }
            ')' => {
                self.parens =
                    self.parens.checked_sub(1).ok_or_else(|| "unexpected right paren".to_owned())?;
                self.take(Kind::RightParen, 1);
            }
            letter if is_name(letter) => return self.word(),
            other if other.is_ascii_graphic() => self.take(Kind::Char, 1),
            other => return Err(format!("unrecognized character in action: {}", described(other))),
        }
        Ok(())
    }

    /// Spaces up to the next other character; the last one belongs to a trim marker if one follows.
    fn spaces(&mut self) {
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
            self.take(Kind::Space, bytes);
        }
    }

    fn quoted(&mut self, quote: char, kind: Kind, open: &str) -> Lexed {
        let mut escaped = false;
        for (offset, character) in self.rest().char_indices().skip(1) {
            match character {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if character == quote => {
                    self.take(kind, offset + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(open.to_owned())
    }

    fn raw(&mut self) -> Lexed {
        let end = self.rest().get(1..).and_then(|rest| rest.find('`'));
        let end = end.ok_or_else(|| "unterminated raw quoted string".to_owned())?;
        self.take(Kind::RawString, end + 2);
        Ok(())
    }

    /// A field or a variable: its sign and the letters after it.
    fn name(&mut self, kind: Kind) -> Lexed {
        let bytes = 1 + self.rest().get(1..).map_or(0, name_bytes);
        self.check_end(bytes)?;
        let kind = if kind == Kind::Field && bytes == 1 { Kind::Dot } else { kind };
        self.take(kind, bytes);
        Ok(())
    }

    fn word(&mut self) -> Lexed {
        let bytes = name_bytes(self.rest());
        self.check_end(bytes)?;
        let kind = match self.rest().get(..bytes).unwrap_or_default() {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            "block" => Kind::Word(Word::Block),
            "break" => Kind::Word(Word::Break),
            "continue" => Kind::Word(Word::Continue),
            "define" => Kind::Word(Word::Define),
            "else" => Kind::Word(Word::Else),
            "end" => Kind::Word(Word::End),
            "if" => Kind::Word(Word::If),
            "range" => Kind::Word(Word::Range),
            "template" => Kind::Word(Word::Template),
            "with" => Kind::Word(Word::With),
            _ => Kind::Identifier,
        };
        self.take(kind, bytes);
        Ok(())
    }

    /// Whether a name may end after `bytes`.
    fn check_end(&self, bytes: usize) -> Lexed {
        let rest = self.rest().get(bytes..).unwrap_or_default();
        match rest.chars().next() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => Ok(()),
            Some(_) if rest.starts_with(RIGHT) => Ok(()),
            Some(other) => Err(format!("bad character {}", described(other))),
        }
    }

    fn number(&mut self) -> Lexed {
        let rest = self.rest();
        let bytes = number_bytes(rest);
        let next = |at: usize| rest.get(at..).and_then(|rest| rest.chars().next());
        // Two numbers with a sign between them would be a complex one, of which there are none here.
        let is_sum = matches!(next(bytes), Some('+' | '-'));
        let end = if is_sum { bytes + number_bytes(rest.get(bytes..).unwrap_or_default()) } else { bytes };
        let letter = next(end).filter(|letter| is_name(*letter));
        if is_sum || letter.is_some() {
            let text = rest.get(..end + letter.map_or(0, char::len_utf8)).unwrap_or_default();
            return Err(format!("bad number syntax: {}", crate::quote::quoted(text)));
        }
        self.take(Kind::Number, bytes);
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

/// How far a number goes: sign, base, digits, fraction, exponent.
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

/// A character as Go's `%#U` shows it.
fn described(character: char) -> String {
    if character.is_control() {
        format!("U+{:04X}", u32::from(character))
    } else {
        format!("U+{:04X} '{character}'", u32::from(character))
    }
}
