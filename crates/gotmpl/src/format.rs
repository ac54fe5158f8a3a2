//! How Go prints values: `%v`, and the other verbs of `printf`.

use std::fmt::Write as _;

use crate::quote::{quoted, quoted_char};
use crate::value::Val;

/// Maps and lists nested deeper than this are cut, since `set` can put a map into itself.
const MAX_NESTED: usize = 64;
/// A width or precision beyond this is refused, as Go does.
const MAX_WIDTH: usize = 1_000_000;
/// From this power of ten on, the shortest form of a float has an exponent.
const SHORTEST_LIMIT: i32 = 6;

/// A value as `%v` prints it.
pub(crate) fn plain(value: &Val) -> String {
    let mut text = String::new();
    push_plain(&mut text, value, 0);
    text
}

fn push_plain(text: &mut String, value: &Val, depth: usize) {
    if depth > MAX_NESTED {
        text.push_str("...");
        return;
    }
    match value {
        Val::Absent | Val::Nil => text.push_str("<nil>"),
        Val::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Val::Int(value) | Val::Int64(value) => {
            let _ = write!(text, "{value}");
        }
        Val::Float(value) => text.push_str(&float(*value)),
        Val::Str(value) => text.push_str(value),
        Val::List(list) => {
            text.push('[');
            for (number, item) in list.items.iter().enumerate() {
                if number > 0 {
                    text.push(' ');
                }
                push_plain(text, item, depth + 1);
            }
            text.push(']');
        }
        Val::Map(map) => {
            text.push_str("map[");
            for (number, (key, item)) in map.entries().iter().enumerate() {
                if number > 0 {
                    text.push(' ');
                }
                text.push_str(key);
                text.push(':');
                push_plain(text, item, depth + 1);
            }
            text.push(']');
        }
        Val::Time(time) => text.push_str(&time.plain()),
        Val::Version(version) => {
            let _ = write!(text, "{version}");
        }
    }
}

/// A float as `%v` prints it: the shortest digits, with an exponent when it is large or small.
pub(crate) fn float(value: f64) -> String {
    general(value, None, SHORTEST_LIMIT)
}

/// The shortest digits of a float, and the power of ten of the first one.
fn shortest(value: f64) -> (bool, String, i32) {
    let scientific = format!("{:e}", value.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    (value.is_sign_negative(), digits.replace('.', ""), exponent.parse().unwrap_or_default())
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        _ if value == f64::INFINITY => Some("+Inf"),
        _ if value == f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// `%g`: an exponent below -4 or from `threshold` (the precision, if there is one) on.
fn general(value: f64, precision: Option<usize>, threshold: i32) -> String {
    if let Some(word) = special(value) {
        return word.to_owned();
    }
    let (negative, mut digits, mut exponent) = shortest(value);
    let mut limit = threshold;
    if let Some(precision) = precision {
        let precision = precision.max(1);
        let rounded = format!("{:.*e}", precision.saturating_sub(1), value.abs());
        let (mantissa, power) = rounded.split_once('e').unwrap_or((&rounded, "0"));
        digits = mantissa.replace('.', "").trim_end_matches('0').to_owned();
        if digits.is_empty() {
            digits.push('0');
        }
        exponent = power.parse().unwrap_or_default();
        limit = i32::try_from(precision).unwrap_or(i32::MAX);
        let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
        if limit > count && count > exponent {
            limit = count;
        }
    }
    let sign = if negative { "-" } else { "" };
    if exponent < -4 || exponent >= limit {
        let (first, rest) = digits.split_at(digits.len().min(1));
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}e{}", power(exponent));
    }
    format!("{sign}{}", positional(&digits, exponent))
}

fn power(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.abs())
}

/// Digits without an exponent.
fn positional(digits: &str, exponent: i32) -> String {
    let Ok(whole) = usize::try_from(exponent.saturating_add(1)) else {
        let zeros = usize::try_from(-exponent.saturating_add(1)).unwrap_or_default();
        return format!("0.{}{digits}", "0".repeat(zeros));
    };
    if whole == 0 {
        return format!("0.{digits}");
    }
    match digits.split_at_checked(whole) {
        Some((whole, "")) => whole.to_owned(),
        Some((whole, fraction)) => format!("{whole}.{fraction}"),
        None => format!("{digits}{}", "0".repeat(whole.saturating_sub(digits.len()))),
    }
}

/// One directive of a format, such as `%-8.3f`.
#[derive(Clone, Debug, Default)]
struct Directive {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// `printf`.
pub(crate) fn printf(format: &str, arguments: &[Val]) -> String {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    let mut given = arguments.iter();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let mut directive = Directive::default();
        while let Some(flag) = rest.peek() {
            match flag {
                '+' => directive.plus = true,
                '-' => directive.minus = true,
                '#' => directive.sharp = true,
                ' ' => directive.space = true,
                '0' => directive.zero = true,
                _ => break,
            }
            rest.next();
        }
        directive.width = width(&mut rest, &mut given, &mut text, "%!(BADWIDTH)", &mut directive.minus);
        if rest.next_if_eq(&'.').is_some() {
            let mut negative = false;
            let precision = width(&mut rest, &mut given, &mut text, "%!(BADPREC)", &mut negative);
            directive.precision = if negative { None } else { Some(precision.unwrap_or_default()) };
        }
        directive.zero &= !directive.minus;
        match rest.next() {
            None => text.push_str("%!(NOVERB)"),
            Some('%') => text.push('%'),
            Some(verb) => match given.next() {
                Some(value) => text.push_str(&directive.print(verb, value)),
                None => {
                    let _ = write!(text, "%!{verb}(MISSING)");
                }
            },
        }
    }
    let extra: Vec<String> = given
        .map(|value| match value {
            Val::Absent | Val::Nil => "<nil>".to_owned(),
            _ => format!("{}={}", value.type_name(), plain(value)),
        })
        .collect();
    if !extra.is_empty() {
        let _ = write!(text, "%!(EXTRA {})", extra.join(", "));
    }
    text
}

/// A width or precision: digits, or `*` for the next argument.
fn width(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    given: &mut std::slice::Iter<'_, Val>,
    text: &mut String,
    bad: &str,
    negative: &mut bool,
) -> Option<usize> {
    if rest.next_if_eq(&'*').is_some() {
        let value = match given.next() {
            Some(Val::Int(value) | Val::Int64(value)) => {
                *negative |= *value < 0;
                usize::try_from(value.unsigned_abs()).ok()
            }
            _ => None,
        };
        let value = value.filter(|width| *width <= MAX_WIDTH);
        if value.is_none() {
            text.push_str(bad);
        }
        return value;
    }
    let mut width = None;
    while let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
        rest.next();
        let digit = usize::try_from(digit).unwrap_or_default();
        width = Some(width.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit).min(MAX_WIDTH));
    }
    width
}

impl Directive {
    fn print(&self, verb: char, value: &Val) -> String {
        match verb {
            'T' => return self.pad(value.type_name().to_owned(), false),
            'v' if self.sharp => return self.pad(go_syntax(value), false),
            // With this verb a plus is about the fields of structs.
            'v' if self.plus => return Self { plus: false, ..self.clone() }.print(verb, value),
            'p' => return self.bad(verb, value),
            _ => {}
        }
        match value {
            Val::Absent | Val::Nil if verb == 'v' => self.pad("<nil>".to_owned(), false),
            Val::Absent | Val::Nil => format!("%!{verb}(<nil>)"),
            Val::Bool(value) if matches!(verb, 't' | 'v') => self.pad(value.to_string(), false),
            Val::Int(number) | Val::Int64(number) => {
                self.integer(verb, *number).unwrap_or_else(|| self.bad(verb, value))
            }
            Val::Float(number) => self.float(verb, *number).unwrap_or_else(|| self.bad(verb, value)),
            Val::Str(text) => self.text(verb, text).unwrap_or_else(|| self.bad(verb, value)),
            Val::Version(version) => {
                self.text(verb, &version.to_string()).unwrap_or_else(|| self.bad(verb, value))
            }
            Val::Time(time) => self.text(verb, &time.plain()).unwrap_or_else(|| self.bad(verb, value)),
            Val::List(list) => {
                let items: Vec<String> = list.items.iter().map(|item| self.inner(verb, item)).collect();
                format!("[{}]", items.join(" "))
            }
            Val::Map(map) => {
                let items: Vec<String> = map
                    .entries()
                    .iter()
                    .map(|(key, item)| {
                        format!("{}:{}", self.print(verb, &Val::str(key.as_str())), self.inner(verb, item))
                    })
                    .collect();
                format!("map[{}]", items.join(" "))
            }
            Val::Bool(_) => self.bad(verb, value),
        }
    }

    /// An element of a list or map; there, nothing is the same in every verb.
    fn inner(&self, verb: char, value: &Val) -> String {
        if value.is_null() { self.pad("<nil>".to_owned(), false) } else { self.print(verb, value) }
    }

    /// What a verb says of a value that it cannot print.
    fn bad(&self, verb: char, value: &Val) -> String {
        let plain = Self { sharp: false, ..self.clone() };
        let printed = match value {
            Val::Int(number) | Val::Int64(number) => plain.integer('v', *number),
            Val::Float(number) => plain.float('v', *number),
            Val::Str(text) => plain.text('v', text),
            Val::Bool(value) => Some(plain.pad(value.to_string(), false)),
            _ => None,
        };
        let printed = printed.unwrap_or_else(|| self::plain(value));
        format!("%!{verb}({}={printed})", value.type_name())
    }

    fn pad(&self, text: String, is_number: bool) -> String {
        let missing = self.width.unwrap_or_default().saturating_sub(text.chars().count());
        if missing == 0 {
            return text;
        }
        if self.minus {
            return format!("{text}{}", " ".repeat(missing));
        }
        if self.zero {
            let sign = text.chars().next().filter(|sign| is_number && matches!(sign, '+' | '-' | ' '));
            let digits = sign.map_or(text.as_str(), |sign| text.get(sign.len_utf8()..).unwrap_or_default());
            let sign = sign.map(String::from).unwrap_or_default();
            return format!("{sign}{}{digits}", "0".repeat(missing));
        }
        format!("{}{text}", " ".repeat(missing))
    }

    fn signed(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, verb: char, value: i64) -> Option<String> {
        let size = value.unsigned_abs();
        let (digits, prefix) = match verb {
            'd' | 'v' => (size.to_string(), ""),
            'b' => (format!("{size:b}"), "0b"),
            'o' => (format!("{size:o}"), "0"),
            'O' => {
                let text = format!("{}0o{size:o}", self.signed(value < 0));
                return Some(self.pad(text, true));
            }
            'x' => (format!("{size:x}"), "0x"),
            'X' => (format!("{size:X}"), "0X"),
            'c' => return Some(self.pad(character(value).to_string(), false)),
            'q' => return Some(self.pad(quoted_char(character(value)), false)),
            'U' => return Some(self.pad(format!("U+{:04X}", value.cast_unsigned()), false)),
            _ => return None,
        };
        let digits = match self.precision {
            Some(0) if value == 0 => String::new(),
            Some(precision) => format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len()))),
            None => digits,
        };
        let prefix = if self.sharp { prefix } else { "" };
        let unpadded = Self { zero: self.zero && self.precision.is_none(), ..self.clone() };
        Some(unpadded.pad(format!("{}{prefix}{digits}", self.signed(value < 0)), true))
    }

    fn float(&self, verb: char, value: f64) -> Option<String> {
        let text = match verb {
            'v' | 'g' | 'G' => general(value.abs(), self.precision, SHORTEST_LIMIT),
            'f' | 'F' => match special(value.abs()) {
                Some(word) => word.to_owned(),
                None => format!("{:.*}", self.precision.unwrap_or(6), value.abs()),
            },
            'e' | 'E' => match special(value.abs()) {
                Some(word) => word.to_owned(),
                None => {
                    let text = format!("{:.*e}", self.precision.unwrap_or(6), value.abs());
                    let (mantissa, exponent) = text.split_once('e')?;
                    format!("{mantissa}e{}", power(exponent.parse().ok()?))
                }
            },
            _ => return None,
        };
        let text = if verb.is_ascii_uppercase() && verb != 'F' { text.to_uppercase() } else { text };
        let negative = value.is_sign_negative() && !value.is_nan();
        let text = text.trim_start_matches('+');
        let plus = if value == f64::INFINITY && !self.space { "+" } else { self.signed(negative) };
        let is_number = value.is_finite();
        let unpadded = Self { zero: self.zero && is_number, ..self.clone() };
        Some(unpadded.pad(format!("{plus}{text}"), is_number))
    }

    fn text(&self, verb: char, text: &str) -> Option<String> {
        let cut: String = match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        let hex = |upper: bool| {
            let bytes =
                cut.bytes().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
            let prefix = match (self.sharp && !cut.is_empty(), upper) {
                (false, _) => "",
                (true, false) => "0x",
                (true, true) => "0X",
            };
            let separator = if self.space { format!(" {prefix}") } else { String::new() };
            format!("{prefix}{}", bytes.collect::<Vec<_>>().join(&separator))
        };
        let printed = match verb {
            's' | 'v' => cut,
            'q' if self.sharp
                && !cut.contains('`')
                && !cut.contains(|c: char| c.is_control() && c != '\t') =>
            {
                format!("`{cut}`")
            }
            'q' => quoted(&cut),
            'x' => hex(false),
            'X' => hex(true),
            _ => return None,
        };
        Some(self.pad(printed, false))
    }
}

fn character(value: i64) -> char {
    u32::try_from(value).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// A value as `%#v` prints it.
fn go_syntax(value: &Val) -> String {
    match value {
        Val::Absent | Val::Nil => "<nil>".to_owned(),
        Val::Str(text) => quoted(text),
        Val::List(list) => {
            let items: Vec<String> = list.items.iter().map(nested_syntax).collect();
            format!("{}{{{}}}", value.type_name(), items.join(", "))
        }
        Val::Map(map) => {
            let items: Vec<String> = map
                .entries()
                .iter()
                .map(|(key, item)| format!("{}:{}", quoted(key), nested_syntax(item)))
                .collect();
            format!("{}{{{}}}", value.type_name(), items.join(", "))
        }
        other => plain(other),
    }
}

fn nested_syntax(value: &Val) -> String {
    if value.is_null() { "interface {}(nil)".to_owned() } else { go_syntax(value) }
}

/// `print`: a space between two operands when neither is a text.
pub(crate) fn print(values: &[Val]) -> String {
    let mut text = String::new();
    let mut before_is_text = true;
    for (number, value) in values.iter().enumerate() {
        let is_text = matches!(value, Val::Str(_));
        if number > 0 && !is_text && !before_is_text {
            text.push(' ');
        }
        text.push_str(&plain(value));
        before_is_text = is_text;
    }
    text
}

/// `println`: a space between all operands, and an end of line.
pub(crate) fn println(values: &[Val]) -> String {
    let words: Vec<String> = values.iter().map(plain).collect();
    format!("{}\n", words.join(" "))
}
