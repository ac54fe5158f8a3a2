//! Syntax tree of a template. Nodes are formatted as in Go, because error messages quote them.

use std::fmt;
use std::rc::Rc;

/// A piece of text or an action in a template.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipe),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template { offset: usize, name: String, pipe: Option<Pipe> },
    Break,
    Continue,
}

/// A condition or loop, with its two branches.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// A pipeline. Each command receives the value of the previous command as its last argument.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    pub(crate) offset: usize,
    /// True if the pipeline assigns the variables rather than declaring them.
    pub(crate) is_assignment: bool,
    pub(crate) variables: Vec<String>,
    pub(crate) commands: Vec<Rc<Command>>,
}

/// A function with its arguments, or a single operand.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) offset: usize,
    /// Operands, at least one.
    pub(crate) operands: Vec<Operand>,
}

/// An operand of a command.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) offset: usize,
    pub(crate) kind: OperandKind,
}

#[derive(Clone, Debug)]
pub(crate) enum OperandKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    /// A string, and its literal as written in the template.
    Text(Rc<str>, String),
    Identifier(String),
    /// Fields of dot, outermost first.
    Field(Vec<String>),
    /// A variable with its `$`, followed by fields.
    Variable(Vec<String>),
    /// Fields of another operand.
    Chain(Box<Operand>, Vec<String>),
    Pipe(Box<Pipe>),
}

/// A number literal as written in the template, with its value in each numeric type that can represent it.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) is_char: bool,
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            write!(f, "{} {} ", self.variables.join(", "), if self.is_assignment { "=" } else { ":=" })?;
        }
        for (number, command) in self.commands.iter().enumerate() {
            if number > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, operand) in self.operands.iter().enumerate() {
            if number > 0 {
                f.write_str(" ")?;
            }
            match &operand.kind {
                OperandKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{operand}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            OperandKind::Dot => f.write_str("."),
            OperandKind::Nil => f.write_str("nil"),
            OperandKind::Bool(value) => write!(f, "{value}"),
            OperandKind::Number(number) => f.write_str(&number.text),
            OperandKind::Text(_, written) => f.write_str(written),
            OperandKind::Identifier(name) => f.write_str(name),
            OperandKind::Field(fields) => fields.iter().try_for_each(|field| write!(f, ".{field}")),
            OperandKind::Variable(names) => f.write_str(&names.join(".")),
            OperandKind::Chain(inner, fields) => {
                match &inner.kind {
                    OperandKind::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{inner}")?,
                }
                fields.iter().try_for_each(|field| write!(f, ".{field}"))
            }
            OperandKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}

impl Number {
    /// Parses a number literal. Returns an error message if it is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut number = Self { text: text.to_owned(), int: None, uint: None, float: None, is_char: false };
        if text.starts_with('\'') {
            let value = crate::quote::unquote(text).filter(|value| value.chars().count() == 1);
            let character = value.and_then(|value| value.chars().next());
            let code = character.ok_or_else(|| format!("malformed character constant: {text}"))?;
            number.int = Some(i64::from(u32::from(code)));
            number.uint = Some(u64::from(u32::from(code)));
            number.float = Some(f64::from(u32::from(code)));
            number.is_char = true;
            return Ok(number);
        }
        number.uint = parse_unsigned(text);
        number.int = parse_signed(text);
        if number.int == Some(0) {
            number.uint = Some(0);
        }
        if let Some(int) = number.int {
            #[expect(
                clippy::cast_precision_loss,
                clippy::as_conversions,
                reason = "rounds as Go does for a constant"
            )]
            let float = int as f64;
            number.float = Some(float);
        } else if number.uint.is_none() {
            let float = parse_float(text);
            if float.is_some() && !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", crate::quote::quote_string(text)));
            }
            number.float = float;
            number.int = float.filter(|value| value.fract() == 0.0 && value.abs() < 9e18).map(|value| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::as_conversions,
                    reason = "a whole number in range"
                )]
                let int = value as i64;
                int
            });
            number.uint = number.int.and_then(|int| u64::try_from(int).ok());
        }
        if number.int.is_none() && number.uint.is_none() && number.float.is_none() {
            return Err(format!("illegal number syntax: {}", crate::quote::quote_string(text)));
        }
        Ok(number)
    }

    /// Returns true if the literal contains a decimal point or an exponent.
    pub(crate) fn is_float(&self) -> bool {
        let lower = self.text.to_ascii_lowercase();
        let is_hex = lower.trim_start_matches(['+', '-']).starts_with("0x") && !lower.contains('p');
        self.float.is_some() && !is_hex && !self.is_char && lower.contains(['.', 'e', 'p'])
    }
}

fn parse_signed(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = i128::from(parse_unsigned(digits)?);
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Parses an unsigned integer in any base that Go supports, with underscores where Go allows them.
pub(crate) fn parse_unsigned(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    let has_base = digits.len() < lower.len();
    if digits.contains("__") || digits.ends_with('_') || (digits.starts_with('_') && !has_base) {
        return None;
    }
    let digits = digits.replace('_', "");
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

fn parse_float(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let unsigned = plain.trim_start_matches(['+', '-']);
    if unsigned.is_empty() || !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}
