//! Expressions as a tree, and the parser that makes it. Bounded in length and depth, so that no text hurts.

use super::quotes::{begins_text, quoted};
use super::value::Value;

/// Longest expression.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 16 << 10;
/// Expressions inside each other. With the next two, keeps our own stack small.
const DEPTH_MAX: usize = 32;
/// Operators, fields or calls in a row: a long row is a deep tree as well.
const ROW_MAX: usize = 64;
/// Words and signs of one expression; half of them bound how deep its tree is.
const TOKENS_MAX: usize = 2_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Literal(Value),
    Name(String),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `of.name`; `of.?name` where optional.
    Field {
        of: Box<Expression>,
        name: String,
        optional: bool,
    },
    /// `of[at]`; `of[?at]` where optional.
    Index {
        of: Box<Expression>,
        at: Box<Expression>,
        optional: bool,
    },
    /// `name(…)` or `of.name(…)`.
    Call {
        of: Option<Box<Expression>>,
        name: String,
        arguments: Vec<Expression>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// Text, how strongly it binds.
    const ALL: [(&'static str, Self, u8); 14] = [
        ("||", Self::Or, 1),
        ("&&", Self::And, 2),
        ("==", Self::Equal, 3),
        ("!=", Self::NotEqual, 3),
        ("<=", Self::LessOrEqual, 3),
        (">=", Self::GreaterOrEqual, 3),
        ("<", Self::Less, 3),
        (">", Self::Greater, 3),
        ("in", Self::In, 3),
        ("+", Self::Add, 4),
        ("-", Self::Subtract, 4),
        ("*", Self::Multiply, 5),
        ("/", Self::Divide, 5),
        ("%", Self::Remainder, 5),
    ];
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Literal(Value),
    Name(String),
    Sign(&'static str),
}

const SIGNS: [&str; 24] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// Reads an expression; the error says what is wrong, and where.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!(
            "the expression has {} bytes, and at most {EXPRESSION_BYTES_MAX} are allowed",
            text.len()
        ));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, length: text.len() };
    let expression = parser.expression()?;
    match parser.tokens.get(parser.at) {
        None => Ok(expression),
        Some((place, _)) => Err(format!("the expression does not end at character {}", place + 1)),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let place = text.len() - rest.len();
        let error = |what: &str| format!("{what} at character {}", place + 1);
        let token;
        if let Some((raw, body)) = begins_text(rest) {
            let (value, after) = quoted(body, raw).map_err(error)?;
            (token, rest) = (Token::Literal(Value::Text(value.into())), after);
        } else if first.is_ascii_digit() {
            let (value, after) = number(rest).map_err(error)?;
            (token, rest) = (Token::Literal(value), after);
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            token = match word {
                "true" => Token::Literal(Value::Boolean(true)),
                "false" => Token::Literal(Value::Boolean(false)),
                "null" => Token::Literal(Value::Null),
                word => Token::Name(word.to_owned()),
            };
            rest = after;
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| error(&format!("{first:?} is not understood")))?;
            rest = rest.get(sign.len()..).unwrap_or_default();
            token = Token::Sign(sign);
        }
        found.push((place, token));
        if found.len() > TOKENS_MAX {
            return Err(format!("the expression has more than {TOKENS_MAX} words and signs"));
        }
    }
}

fn number(text: &str) -> Result<(Value, &str), &'static str> {
    const WRONG: &str = "a number that is too large or not understood";
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        let end = hexadecimal.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
        let (digits, after) = hexadecimal.split_at(end);
        return Ok((Value::Integer(i64::from_str_radix(digits, 16).map_err(|_| WRONG)?), unsigned(after)));
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = digits(text);
    let mut whole = true;
    if let Some(fraction) = text.get(end..).and_then(|rest| rest.strip_prefix('.'))
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        end += 1 + digits(fraction);
        whole = false;
    }
    if let Some(exponent) = text.get(end..).and_then(|rest| rest.strip_prefix(['e', 'E'])) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let length = digits(exponent.get(sign..).unwrap_or_default());
        if length == 0 {
            return Err(WRONG);
        }
        end += 1 + sign + length;
        whole = false;
    }
    let (number, after) = text.split_at(end);
    let value = if whole {
        Value::Integer(number.parse().map_err(|_| WRONG)?)
    } else {
        Value::Double(number.parse().map_err(|_| WRONG)?)
    };
    Ok((value, if whole { unsigned(after) } else { after }))
}

/// `3u` is 3: there is one kind of whole number here.
fn unsigned(after: &str) -> &str {
    after.strip_prefix(['u', 'U']).unwrap_or(after)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    length: usize,
}

type Parsed = Result<Expression, String>;

impl Parser {
    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} expressions are inside each other"));
        }
        let condition = self.binary(1)?;
        let parsed = if self.takes("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            Expression::Choice(Box::new(condition), Box::new(yes), Box::new(self.expression()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn binary(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        let mut length = 0;
        while let Some((operator, strength)) = self.operator().filter(|(_, strength)| *strength >= least) {
            length += 1;
            if length > ROW_MAX {
                return Err(format!("more than {ROW_MAX} operators are in a row; put some in brackets"));
            }
            self.at += 1;
            let right = self.binary(strength + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let text = match &self.tokens.get(self.at)?.1 {
            Token::Sign(sign) => sign,
            Token::Name(name) => name.as_str(),
            Token::Literal(_) => return None,
        };
        Operator::ALL
            .into_iter()
            .find(|(sign, ..)| *sign == text)
            .map(|(_, operator, strength)| (operator, strength))
    }

    fn unary(&mut self) -> Parsed {
        let is_not = self.takes("!");
        if is_not || self.takes("-") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(format!("more than {DEPTH_MAX} expressions are inside each other"));
            }
            let inner = Box::new(self.unary()?);
            self.depth -= 1;
            return Ok(if is_not { Expression::Not(inner) } else { Expression::Negate(inner) });
        }
        let mut of = self.primary()?;
        let mut length = 0;
        loop {
            length += 1;
            if length > ROW_MAX {
                return Err(format!("more than {ROW_MAX} fields and calls are in a row"));
            }
            if self.takes(".") {
                let optional = self.takes("?");
                let name = self.name()?;
                of = if !optional && self.takes("(") {
                    let arguments = self.list(")")?;
                    Expression::Call { of: Some(Box::new(of)), name, arguments }
                } else {
                    Expression::Field { of: Box::new(of), name, optional }
                };
            } else if self.takes("[") {
                let optional = self.takes("?");
                let at = Box::new(self.expression()?);
                self.expect("]")?;
                of = Expression::Index { of: Box::new(of), at, optional };
            } else {
                return Ok(of);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let token = self.tokens.get(self.at).map(|(_, token)| token.clone());
        self.at += 1;
        match token {
            Some(Token::Literal(value)) => Ok(Expression::Literal(value)),
            Some(Token::Name(name)) if self.takes("(") => {
                Ok(Expression::Call { of: None, name, arguments: self.list(")")? })
            }
            Some(Token::Name(name)) => Ok(Expression::Name(name)),
            Some(Token::Sign("(")) => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => Ok(Expression::List(self.list("]")?)),
            Some(Token::Sign("{")) => self.map(),
            _ => {
                self.at -= 1;
                Err(self.wrong("a value"))
            }
        }
    }

    fn list(&mut self, end: &'static str) -> Result<Vec<Expression>, String> {
        let mut entries = Vec::new();
        while !self.takes(end) {
            entries.push(self.expression()?);
            if !self.takes(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(entries)
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.takes(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expression::Map(entries))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.tokens.get(self.at) {
            Some((_, Token::Name(name))) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err(self.wrong("a name")),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.tokens.get(self.at), Some((_, Token::Sign(found))) if *found == sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(self.wrong(&format!("{sign:?}"))) }
    }

    fn wrong(&self, wanted: &str) -> String {
        match self.tokens.get(self.at) {
            Some((place, _)) => format!("{wanted} is expected at character {}", place + 1),
            None => format!("{wanted} is expected at the end, character {}", self.length + 1),
        }
    }
}
