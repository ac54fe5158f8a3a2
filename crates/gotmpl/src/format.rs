//! Formatting of values as in Go: `%v`, `%#v` and `%g`.

use std::fmt::Write as _;

use crate::quote::quote_string;
use crate::value::Val;

/// Maximum nesting depth of printed values. Needed because `set` can insert a map into itself.
const MAX_NESTED: usize = 64;
/// Smallest power of ten that the shortest form of a float writes with an exponent.
const SHORTEST_LIMIT: i32 = 6;

/// Formats a value like `%v`.
pub(crate) fn format_plain(value: &Val) -> String {
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
        Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
            let _ = write!(text, "{}", value.integer().unwrap_or_default());
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
        Val::Time(time) => text.push_str(&time.to_go_text()),
        Val::Version(version) => {
            let _ = write!(text, "{version}");
        }
    }
}

/// Formats a float with the fewest digits that identify it, without an exponent.
pub(crate) fn without_exponent(value: f64) -> String {
    let (is_negative, digits, exponent) = shortest(value);
    format!("{}{}", if is_negative { "-" } else { "" }, positional(&digits, exponent))
}

/// Formats a float like `%v`: with the fewest digits that identify it, and with an exponent if the number is
/// very large or very small.
pub(crate) fn float(value: f64) -> String {
    general(value, None)
}

/// Number of decimal places checked to detect a tie between two candidates.
const EXACT_DIGITS: usize = 60;

/// Formats a nonnegative float with an exponent and the fewest digits that identify it, such as `1.5e3`. If
/// two candidates are equally close, chooses the one with an even last digit, as Go does.
pub(crate) fn scientific(value: f64) -> String {
    let written = format!("{value:e}");
    let exact = format!("{value:.EXACT_DIGITS$e}");
    let exponent = written.split_once('e').map_or("", |(_, exponent)| exponent);
    let length = written.len() - exponent.len() - 1;
    let Some((lower, rest)) = exact.split_at_checked(length).filter(|_| length > 2) else { return written };
    let is_half = rest.split_once('e').is_some_and(|(rest, _)| rest.trim_end_matches('0') == "5");
    let is_even = lower.bytes().next_back().is_some_and(|digit| digit % 2 == 0);
    let lower = format!("{lower}e{exponent}");
    if is_half && is_even && lower.parse() == Ok(value) { lower } else { written }
}

/// Returns a float's sign, the fewest digits that identify it, and the power of ten of the first digit.
fn shortest(value: f64) -> (bool, String, i32) {
    let scientific = scientific(value.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    (value.is_sign_negative(), digits.replace('.', ""), exponent.parse().unwrap_or_default())
}

pub(crate) fn special_float(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        _ if value == f64::INFINITY => Some("+Inf"),
        _ if value == f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// Formats a float like `%g`. The result has an exponent if the power of ten is less than -4 or at least the
/// precision. Without a precision, the upper limit is `SHORTEST_LIMIT`.
pub(crate) fn general(value: f64, precision: Option<usize>) -> String {
    if let Some(word) = special_float(value) {
        return word.to_owned();
    }
    let (negative, mut digits, mut exponent) = shortest(value);
    let mut limit = SHORTEST_LIMIT;
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
        return format!("{sign}{first}{point}{rest}e{}", exponent_text(exponent));
    }
    format!("{sign}{}", positional(&digits, exponent))
}

pub(crate) fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.abs())
}

/// Formats digits without an exponent.
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

/// Formats a value like `%#v`.
pub(crate) fn go_syntax(value: &Val) -> String {
    match value {
        Val::Absent | Val::Nil => "<nil>".to_owned(),
        Val::Str(text) => quote_string(text),
        Val::List(_) if value.is_nil_list() => format!("{}(nil)", value.type_name()),
        Val::List(list) => {
            let items: Vec<String> = list.items.iter().map(nested_syntax).collect();
            format!("{}{{{}}}", value.type_name(), items.join(", "))
        }
        Val::Map(map) => {
            let items: Vec<String> = map
                .entries()
                .iter()
                .map(|(key, item)| format!("{}:{}", quote_string(key), nested_syntax(item)))
                .collect();
            format!("{}{{{}}}", value.type_name(), items.join(", "))
        }
        Val::Uint8(value) => format!("{value:#x}"),
        Val::Uint64(value) => format!("{value:#x}"),
        other => format_plain(other),
    }
}

fn nested_syntax(value: &Val) -> String {
    if value.is_null() { "interface {}(nil)".to_owned() } else { go_syntax(value) }
}

/// Formats values like `print`, which adds a space between two operands if neither is a string.
pub(crate) fn print(values: &[Val]) -> String {
    let mut text = String::new();
    let mut before_is_text = true;
    for (number, value) in values.iter().enumerate() {
        let is_text = matches!(value, Val::Str(_));
        if number > 0 && !is_text && !before_is_text {
            text.push(' ');
        }
        text.push_str(&format_plain(value));
        before_is_text = is_text;
    }
    text
}

/// Formats values like `println`, which adds spaces between all operands, and a newline at the end.
pub(crate) fn println(values: &[Val]) -> String {
    let text: Vec<String> = values.iter().map(format_plain).collect();
    format!("{}\n", text.join(" "))
}
