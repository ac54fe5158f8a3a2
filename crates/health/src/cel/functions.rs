//! Operators and functions of expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::run::{Fault, Outcome, Run, overflow, wrong};
use super::syntax::Operator;
use super::value::Value;

/// Longest text a function makes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Memory of one regular expression.
const REGEX_BYTES_MAX: usize = 256 << 10;
/// What making one takes.
const REGEX_STEPS: usize = 2_000;

pub(super) fn binary(operator: Operator, left: &Value, right: &Value) -> Outcome {
    use Operator as O;
    let ordered = |holds: fn(Ordering) -> bool| match left.compared(right) {
        Some(order) => Ok(Value::Boolean(holds(order))),
        None if matches!((left, right), (Value::Double(_), _) | (_, Value::Double(_))) => {
            Ok(Value::Boolean(false))
        }
        None => Err(wrong(format!("{} does not compare with {}", left.described(), right.described()))),
    };
    match operator {
        O::Equal => Ok(Value::Boolean(left.equals(right))),
        O::NotEqual => Ok(Value::Boolean(!left.equals(right))),
        O::Less => ordered(Ordering::is_lt),
        O::LessOrEqual => ordered(Ordering::is_le),
        O::Greater => ordered(Ordering::is_gt),
        O::GreaterOrEqual => ordered(Ordering::is_ge),
        O::In => match (left, right) {
            (_, Value::List(entries)) => Ok(Value::Boolean(entries.iter().any(|entry| entry.equals(left)))),
            (Value::Text(key), Value::Map(fields)) => Ok(Value::Boolean(fields.contains_key(key))),
            _ => Err(wrong(format!("in needs a list or a map, found {}", right.described()))),
        },
        _ => arithmetic(operator, left, right),
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Outcome {
    use Operator as O;
    match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => {
            let result = match operator {
                O::Add => left.checked_add(*right),
                O::Subtract => left.checked_sub(*right),
                O::Multiply => left.checked_mul(*right),
                O::Divide if *right != 0 => left.checked_div(*right),
                O::Remainder if *right != 0 => left.checked_rem(*right),
                _ => return Err(wrong("division by zero")),
            };
            result.map(Value::Integer).ok_or_else(overflow)
        }
        (Value::Integer(left), Value::Double(_)) => arithmetic(operator, &Value::Double(*left as f64), right),
        (Value::Double(_), Value::Integer(right)) => {
            arithmetic(operator, left, &Value::Double(*right as f64))
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(match operator {
            O::Add => left + right,
            O::Subtract => left - right,
            O::Multiply => left * right,
            O::Divide => left / right,
            _ => left % right,
        })),
        (Value::Text(left), Value::Text(right)) if operator == O::Add => text(format!("{left}{right}")),
        (Value::List(left), Value::List(right)) if operator == O::Add => {
            Ok(Value::List(Arc::new(left.iter().chain(right.iter()).cloned().collect())))
        }
        _ => Err(wrong(format!("{} and {} cannot be calculated with", left.described(), right.described()))),
    }
}

fn text(text: impl Into<Arc<str>>) -> Outcome {
    let text = text.into();
    if text.len() > TEXT_BYTES_MAX { Err(Fault::Exhausted) } else { Ok(Value::Text(text)) }
}

/// A function; for a method, its object is the first value.
pub(super) fn call(run: &mut Run<'_>, name: &str, values: &[Value]) -> Outcome {
    let boolean = |value| Ok(Value::Boolean(value));
    match (name, values) {
        ("size", [Value::Text(text)]) => count(text.chars().count()),
        ("size", [Value::List(entries)]) => count(entries.len()),
        ("size", [Value::Map(fields)]) => count(fields.len()),
        ("contains", [Value::Text(whole), Value::Text(part)]) => boolean(whole.contains(part.as_ref())),
        ("startsWith", [Value::Text(whole), Value::Text(part)]) => boolean(whole.starts_with(part.as_ref())),
        ("endsWith", [Value::Text(whole), Value::Text(part)]) => boolean(whole.ends_with(part.as_ref())),
        ("matches", [Value::Text(whole), Value::Text(pattern)]) => matches(run, whole, pattern),
        ("lowerAscii", [Value::Text(whole)]) => text(whole.to_ascii_lowercase()),
        ("upperAscii", [Value::Text(whole)]) => text(whole.to_ascii_uppercase()),
        ("trim", [Value::Text(whole)]) => text(whole.trim()),
        ("replace", [Value::Text(whole), Value::Text(from), Value::Text(to)]) => {
            let longest = whole.len().saturating_add(1).saturating_mul(to.len().saturating_add(1));
            run.charge(longest / 16)?;
            text(whole.replace(from.as_ref(), to))
        }
        ("split", [Value::Text(whole), Value::Text(at)]) => {
            run.charge(whole.len())?;
            Ok(Value::List(Arc::new(whole.split(at.as_ref()).map(|part| Value::Text(part.into())).collect())))
        }
        ("join", [Value::List(entries)]) => join(run, entries, ""),
        ("join", [Value::List(entries), Value::Text(between)]) => join(run, entries, between),
        ("dyn", [value]) => Ok(value.clone()),
        ("string", [value]) => match value {
            Value::Text(_) => Ok(value.clone()),
            Value::Integer(number) => text(number.to_string()),
            Value::Double(number) => text(number.to_string()),
            Value::Boolean(value) => text(value.to_string()),
            other => {
                Err(wrong(format!("string needs a text, number or boolean, found {}", other.described())))
            }
        },
        ("int" | "uint", [value]) => integer(value),
        ("double", [value]) => double(value),
        ("bool", [Value::Boolean(_)]) => Ok(values.first().cloned().unwrap_or(Value::Null)),
        ("bool", [Value::Text(value)]) => match value.as_ref() {
            "true" => boolean(true),
            "false" => boolean(false),
            other => Err(wrong(format!("{other:?} is no boolean"))),
        },
        ("orValue", [Value::Optional(value), default]) => {
            Ok(value.as_ref().map_or_else(|| default.clone(), |value| (**value).clone()))
        }
        ("hasValue", [Value::Optional(value)]) => boolean(value.is_some()),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(Fault::Missing("value".to_owned())),
        },
        _ => {
            let found: Vec<_> = values.iter().map(Value::described).collect();
            Err(wrong(format!("there is no function {name} of ({})", found.join(", "))))
        }
    }
}

fn matches(run: &mut Run<'_>, whole: &str, pattern: &str) -> Outcome {
    run.charge(whole.len().saturating_mul(pattern.len()) / 16 + REGEX_STEPS)?;
    let regex = regex_bites::bytes::RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    let regex = regex.map_err(|error| wrong(format!("{pattern:?} is no regular expression: {error}")))?;
    Ok(Value::Boolean(regex.is_match(whole.as_bytes())))
}

fn count(count: usize) -> Outcome {
    i64::try_from(count).map(Value::Integer).map_err(|_| overflow())
}

fn join(run: &mut Run<'_>, entries: &[Value], between: &str) -> Outcome {
    let mut parts = Vec::with_capacity(entries.len());
    for entry in entries {
        let Value::Text(part) = entry else { return Err(wrong("join needs a list of texts")) };
        run.charge((part.len() + between.len()) / 16 + 1)?;
        parts.push(part.as_ref());
    }
    text(parts.join(between))
}

fn integer(value: &Value) -> Outcome {
    match value {
        Value::Integer(number) => Ok(Value::Integer(*number)),
        Value::Double(number) if number.abs() < 9e18 => Ok(Value::Integer(*number as i64)),
        Value::Text(text) => {
            text.parse().map(Value::Integer).map_err(|_| wrong(format!("{text:?} is no whole number")))
        }
        other => Err(wrong(format!("int needs a number or text, found {}", other.described()))),
    }
}

fn double(value: &Value) -> Outcome {
    match value {
        Value::Integer(number) => Ok(Value::Double(*number as f64)),
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Text(text) => {
            text.parse().map(Value::Double).map_err(|_| wrong(format!("{text:?} is no number")))
        }
        other => Err(wrong(format!("double needs a number or text, found {}", other.described()))),
    }
}
