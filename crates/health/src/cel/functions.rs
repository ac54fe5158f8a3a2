//! Operators and functions in expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::budget::Budget;
use super::error::{EvaluationError, EvaluationResult, invalid, overflow};
use super::parse::Operator;
use super::value::Value;

/// Maximum length in bytes of a string created by a function.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum memory of a compiled regular expression in bytes.
const REGEX_BYTES_MAX: usize = 256 << 10;
/// Cost in steps of compiling a regular expression.
const REGEX_STEPS: usize = 2_000;

pub(super) fn evaluate_binary(operator: Operator, left: &Value, right: &Value) -> EvaluationResult {
    use Operator as O;
    let ordered = |holds: fn(Ordering) -> bool| match left.compare(right) {
        Some(order) => Ok(Value::Boolean(holds(order))),
        None if matches!((left, right), (Value::Double(_), _) | (_, Value::Double(_))) => {
            Ok(Value::Boolean(false))
        }
        None => Err(invalid(format!("cannot compare {} with {}", left.type_name(), right.type_name()))),
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
            _ => Err(invalid(format!("`in` needs a list or a map, found {}", right.type_name()))),
        },
        _ => evaluate_arithmetic(operator, left, right),
    }
}

fn evaluate_arithmetic(operator: Operator, left: &Value, right: &Value) -> EvaluationResult {
    use Operator as O;
    match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => {
            let result = match operator {
                O::Add => left.checked_add(*right),
                O::Subtract => left.checked_sub(*right),
                O::Multiply => left.checked_mul(*right),
                O::Divide if *right != 0 => left.checked_div(*right),
                O::Remainder if *right != 0 => left.checked_rem(*right),
                _ => return Err(invalid("division by zero")),
            };
            result.map(Value::Integer).ok_or_else(overflow)
        }
        (Value::Integer(left), Value::Double(_)) => {
            evaluate_arithmetic(operator, &Value::Double(*left as f64), right)
        }
        (Value::Double(_), Value::Integer(right)) => {
            evaluate_arithmetic(operator, left, &Value::Double(*right as f64))
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(match operator {
            O::Add => left + right,
            O::Subtract => left - right,
            O::Multiply => left * right,
            O::Divide => left / right,
            _ => left % right,
        })),
        (Value::Text(left), Value::Text(right)) if operator == O::Add => text_value(format!("{left}{right}")),
        (Value::List(left), Value::List(right)) if operator == O::Add => {
            Ok(Value::List(Arc::new(left.iter().chain(right.iter()).cloned().collect())))
        }
        _ => Err(invalid(format!("cannot calculate with {} and {}", left.type_name(), right.type_name()))),
    }
}

fn text_value(text: impl Into<Arc<str>>) -> EvaluationResult {
    let text = text.into();
    if text.len() > TEXT_BYTES_MAX { Err(EvaluationError::Exhausted) } else { Ok(Value::Text(text)) }
}

/// Calls a function. For a method, the first value is the receiver.
pub(super) fn call_function(budget: &mut Budget, name: &str, values: &[Value]) -> EvaluationResult {
    let boolean = |value| Ok(Value::Boolean(value));
    match (name, values) {
        ("size", [Value::Text(text)]) => count_value(text.chars().count()),
        ("size", [Value::List(entries)]) => count_value(entries.len()),
        ("size", [Value::Map(fields)]) => count_value(fields.len()),
        ("contains", [Value::Text(whole), Value::Text(part)]) => boolean(whole.contains(part.as_ref())),
        ("startsWith", [Value::Text(whole), Value::Text(part)]) => boolean(whole.starts_with(part.as_ref())),
        ("endsWith", [Value::Text(whole), Value::Text(part)]) => boolean(whole.ends_with(part.as_ref())),
        ("matches", [Value::Text(whole), Value::Text(pattern)]) => matches_regex(budget, whole, pattern),
        ("lowerAscii", [Value::Text(whole)]) => text_value(whole.to_ascii_lowercase()),
        ("upperAscii", [Value::Text(whole)]) => text_value(whole.to_ascii_uppercase()),
        ("trim", [Value::Text(whole)]) => text_value(whole.trim()),
        ("replace", [Value::Text(whole), Value::Text(from), Value::Text(to)]) => {
            let longest = whole.len().saturating_add(1).saturating_mul(to.len().saturating_add(1));
            budget.take_steps(longest / 16)?;
            text_value(whole.replace(from.as_ref(), to))
        }
        ("split", [Value::Text(whole), Value::Text(at)]) => {
            budget.take_steps(whole.len())?;
            Ok(Value::List(Arc::new(whole.split(at.as_ref()).map(|part| Value::Text(part.into())).collect())))
        }
        ("join", [Value::List(entries)]) => join_entries(budget, entries, ""),
        ("join", [Value::List(entries), Value::Text(between)]) => join_entries(budget, entries, between),
        ("dyn", [value]) => Ok(value.clone()),
        ("string", [value]) => match value {
            Value::Text(_) => Ok(value.clone()),
            Value::Integer(number) => text_value(number.to_string()),
            Value::Double(number) => text_value(number.to_string()),
            Value::Boolean(value) => text_value(value.to_string()),
            other => {
                let found = other.type_name();
                Err(invalid(format!("`string` needs a string, number or boolean, found {found}")))
            }
        },
        ("int" | "uint", [value]) => to_integer(value),
        ("double", [value]) => to_double(value),
        ("bool", [Value::Boolean(_)]) => Ok(values.first().cloned().unwrap_or(Value::Null)),
        ("bool", [Value::Text(value)]) => match value.as_ref() {
            "true" => boolean(true),
            "false" => boolean(false),
            other => Err(invalid(format!("{other:?} is not a boolean"))),
        },
        ("orValue", [Value::Optional(value), default]) => {
            Ok(value.as_ref().map_or_else(|| default.clone(), |value| (**value).clone()))
        }
        ("hasValue", [Value::Optional(value)]) => boolean(value.is_some()),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(EvaluationError::MissingField("value".to_owned())),
        },
        _ => {
            let found: Vec<_> = values.iter().map(Value::type_name).collect();
            Err(invalid(format!("no matching overload of {name}({})", found.join(", "))))
        }
    }
}

fn matches_regex(budget: &mut Budget, whole: &str, pattern: &str) -> EvaluationResult {
    budget.take_steps(whole.len().saturating_mul(pattern.len()) / 16 + REGEX_STEPS)?;
    let regex = regex_bites::bytes::RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    let regex = regex.map_err(|error| invalid(format!("invalid regular expression {pattern:?}: {error}")))?;
    Ok(Value::Boolean(regex.is_match(whole.as_bytes())))
}

fn count_value(count: usize) -> EvaluationResult {
    i64::try_from(count).map(Value::Integer).map_err(|_| overflow())
}

fn join_entries(budget: &mut Budget, entries: &[Value], between: &str) -> EvaluationResult {
    let mut parts = Vec::with_capacity(entries.len());
    for entry in entries {
        let Value::Text(part) = entry else { return Err(invalid("`join` needs a list of strings")) };
        budget.take_steps((part.len() + between.len()) / 16 + 1)?;
        parts.push(part.as_ref());
    }
    text_value(parts.join(between))
}

fn to_integer(value: &Value) -> EvaluationResult {
    match value {
        Value::Integer(number) => Ok(Value::Integer(*number)),
        Value::Double(number) if number.abs() < 9e18 => Ok(Value::Integer(*number as i64)),
        Value::Text(text) => {
            text.parse().map(Value::Integer).map_err(|_| invalid(format!("{text:?} is not a whole number")))
        }
        other => Err(invalid(format!("`int` needs a number or string, found {}", other.type_name()))),
    }
}

fn to_double(value: &Value) -> EvaluationResult {
    match value {
        Value::Integer(number) => Ok(Value::Double(*number as f64)),
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Text(text) => {
            text.parse().map(Value::Double).map_err(|_| invalid(format!("{text:?} is not a number")))
        }
        other => Err(invalid(format!("`double` needs a number or string, found {}", other.type_name()))),
    }
}
