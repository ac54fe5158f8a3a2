//! Parser for expressions. Their length and depth are limited, so any text is safe to parse.

use super::string_literals::{parse_string, string_prefix};
use super::value::Value;

/// Maximum length of an expression in bytes.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 16 << 10;
/// Maximum nesting of expressions. Together with the next two limits, this bounds the stack.
const DEPTH_MAX: usize = 32;
/// Maximum number of consecutive operators, fields or calls, because a long chain makes a deep tree.
const CHAIN_MAX: usize = 64;
/// Maximum number of tokens in an expression. The tree is at most half as deep.
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
    /// Access to a field: `of.name`, or `of.?name` if optional.
    Field {
        object: Box<Expression>,
        name: String,
        is_optional: bool,
    },
    /// Access by index: `of[at]`, or `of[?at]` if optional.
    Index {
        object: Box<Expression>,
        index: Box<Expression>,
        is_optional: bool,
    },
    /// Call: `name(…)` or `of.name(…)`.
    Call {
        object: Option<Box<Expression>>,
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
    /// All binary operators: text, operator and precedence.
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

/// Parses an expression. The error gives the reason and the position.
pub(super) fn parse_expression(text: &str) -> Result<Expression, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!(
            "the expression is too long: {} bytes (maximum: {EXPRESSION_BYTES_MAX})",
            text.len()
        ));
    }
    let tokens = tokenize(text)?;
    let mut parser = Parser { tokens, position: 0, depth: 0, length: text.len() };
    let expression = parser.parse_expression()?;
    match parser.tokens.get(parser.position) {
        None => Ok(expression),
        Some((place, _)) => Err(format!("unexpected text after the expression at character {}", place + 1)),
    }
}

fn tokenize(text: &str) -> Result<Vec<(usize, Token)>, String> {
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
        if let Some((raw, body)) = string_prefix(rest) {
            let (value, after) = parse_string(body, raw).map_err(error)?;
            (token, rest) = (Token::Literal(Value::Text(value.into())), after);
        } else if first.is_ascii_digit() {
            let (value, after) = parse_number(rest).map_err(error)?;
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
            let sign = sign.ok_or_else(|| error(&format!("unexpected {first:?}")))?;
            rest = rest.get(sign.len()..).unwrap_or_default();
            token = Token::Sign(sign);
        }
        found.push((place, token));
        if found.len() > TOKENS_MAX {
            return Err(format!("the expression contains more than {TOKENS_MAX} tokens"));
        }
    }
}

fn parse_number(text: &str) -> Result<(Value, &str), &'static str> {
    const WRONG: &str = "invalid or too large number";
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        let end = hexadecimal.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
        let (digits, after) = hexadecimal.split_at(end);
        return Ok((
            Value::Integer(i64::from_str_radix(digits, 16).map_err(|_| WRONG)?),
            skip_unsigned_suffix(after),
        ));
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
    Ok((value, if whole { skip_unsigned_suffix(after) } else { after }))
}

/// Skips the suffix of unsigned numbers: `3u` is 3, because there is only one integer type.
fn skip_unsigned_suffix(after: &str) -> &str {
    after.strip_prefix(['u', 'U']).unwrap_or(after)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    position: usize,
    depth: usize,
    length: usize,
}

type ParseResult = Result<Expression, String>;

impl Parser {
    fn parse_expression(&mut self) -> ParseResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("expressions are nested deeper than {DEPTH_MAX} levels"));
        }
        let condition = self.parse_binary(1)?;
        let parsed = if self.take_sign("?") {
            let yes = self.parse_expression()?;
            self.expect(":")?;
            Expression::Choice(Box::new(condition), Box::new(yes), Box::new(self.parse_expression()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn parse_binary(&mut self, least: u8) -> ParseResult {
        let mut left = self.parse_unary()?;
        let mut length = 0;
        while let Some((operator, strength)) = self.peek_operator().filter(|(_, strength)| *strength >= least)
        {
            length += 1;
            if length > CHAIN_MAX {
                return Err(format!("more than {CHAIN_MAX} operators in a row; group some with parentheses"));
            }
            self.position += 1;
            let right = self.parse_binary(strength + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn peek_operator(&self) -> Option<(Operator, u8)> {
        let text = match &self.tokens.get(self.position)?.1 {
            Token::Sign(sign) => sign,
            Token::Name(name) => name.as_str(),
            Token::Literal(_) => return None,
        };
        Operator::ALL
            .into_iter()
            .find(|(sign, ..)| *sign == text)
            .map(|(_, operator, strength)| (operator, strength))
    }

    fn parse_unary(&mut self) -> ParseResult {
        let is_not = self.take_sign("!");
        if is_not || self.take_sign("-") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(format!("expressions are nested deeper than {DEPTH_MAX} levels"));
            }
            let inner = Box::new(self.parse_unary()?);
            self.depth -= 1;
            return Ok(if is_not { Expression::Not(inner) } else { Expression::Negate(inner) });
        }
        let mut of = self.parse_primary()?;
        let mut length = 0;
        loop {
            length += 1;
            if length > CHAIN_MAX {
                return Err(format!("more than {CHAIN_MAX} fields and calls in a row"));
            }
            if self.take_sign(".") {
                let optional = self.take_sign("?");
                let name = self.parse_name()?;
                of = if !optional && self.take_sign("(") {
                    let arguments = self.parse_list(")")?;
                    Expression::Call { object: Some(Box::new(of)), name, arguments }
                } else {
                    Expression::Field { object: Box::new(of), name, is_optional: optional }
                };
            } else if self.take_sign("[") {
                let optional = self.take_sign("?");
                let at = Box::new(self.parse_expression()?);
                self.expect("]")?;
                of = Expression::Index { object: Box::new(of), index: at, is_optional: optional };
            } else {
                return Ok(of);
            }
        }
    }

    fn parse_primary(&mut self) -> ParseResult {
        let token = self.tokens.get(self.position).map(|(_, token)| token.clone());
        self.position += 1;
        match token {
            Some(Token::Literal(value)) => Ok(Expression::Literal(value)),
            Some(Token::Name(name)) if self.take_sign("(") => {
                Ok(Expression::Call { object: None, name, arguments: self.parse_list(")")? })
            }
            Some(Token::Name(name)) => Ok(Expression::Name(name)),
            Some(Token::Sign("(")) => {
                let inner = self.parse_expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => Ok(Expression::List(self.parse_list("]")?)),
            Some(Token::Sign("{")) => self.parse_map(),
            _ => {
                self.position -= 1;
                Err(self.error_at("a value"))
            }
        }
    }

    fn parse_list(&mut self, end: &'static str) -> Result<Vec<Expression>, String> {
        let mut entries = Vec::new();
        while !self.take_sign(end) {
            entries.push(self.parse_expression()?);
            if !self.take_sign(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(entries)
    }

    fn parse_map(&mut self) -> ParseResult {
        let mut entries = Vec::new();
        while !self.take_sign("}") {
            let key = self.parse_expression()?;
            self.expect(":")?;
            entries.push((key, self.parse_expression()?));
            if !self.take_sign(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expression::Map(entries))
    }

    fn parse_name(&mut self) -> Result<String, String> {
        match self.tokens.get(self.position) {
            Some((_, Token::Name(name))) => {
                self.position += 1;
                Ok(name.clone())
            }
            _ => Err(self.error_at("a name")),
        }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_there =
            matches!(self.tokens.get(self.position), Some((_, Token::Sign(found))) if *found == sign);
        self.position += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.error_at(&format!("{sign:?}"))) }
    }

    fn error_at(&self, wanted: &str) -> String {
        match self.tokens.get(self.position) {
            Some((place, _)) => format!("expected {wanted} at character {}", place + 1),
            None => format!("expected {wanted} at the end of the expression (character {})", self.length + 1),
        }
    }
}
