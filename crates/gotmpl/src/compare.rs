//! `eq`, `ne`, `lt` and their like: only values of one basic kind can be compared.

use std::cmp::Ordering;

use crate::format::plain;
use crate::printf::printf;
use crate::value::Val;

const BAD_TYPE: &str = "invalid type for comparison";
const MISSING: &str = "missing argument for comparison";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    Bool,
    Float,
    Int,
    Uint,
    Text,
}

fn basic(value: &Val) -> Option<Basic> {
    match value {
        Val::Bool(_) => Some(Basic::Bool),
        Val::Float(_) => Some(Basic::Float),
        Val::Int(_) | Val::Int64(_) => Some(Basic::Int),
        Val::Uint8(_) | Val::Uint64(_) => Some(Basic::Uint),
        Val::Str(_) => Some(Basic::Text),
        _ => None,
    }
}

/// Whether values of these kinds can be compared: whole numbers with a sign can be with those without.
fn fit(left: Basic, right: Basic) -> bool {
    let is_whole = |kind| matches!(kind, Basic::Int | Basic::Uint);
    left == right || is_whole(left) && is_whole(right)
}

/// Whether the first is equal to any of the others.
pub(crate) fn eq(values: &[Val]) -> Result<bool, String> {
    let (first, others) = values.split_first().ok_or(MISSING)?;
    if others.is_empty() {
        return Err(MISSING.to_owned());
    }
    for other in others {
        if is_equal(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal(left: &Val, right: &Val) -> Result<bool, String> {
    match (basic(left), basic(right)) {
        (None, None) => {
            for value in [left, right] {
                if matches!(value, Val::List(_) | Val::Map(_)) && !left.is_null() && !right.is_null() {
                    return Err(not_comparable(left, right));
                }
            }
            Ok(left.is_null() == right.is_null() && left.is_same(right))
        }
        (left_kind, right_kind)
            if !left_kind.zip(right_kind).is_some_and(|(left, right)| fit(left, right)) =>
        {
            if left.is_null() || right.is_null() { Ok(false) } else { Err(different(left, right)) }
        }
        _ => Ok(match (left, right) {
            (Val::Bool(left), Val::Bool(right)) => left == right,
            (Val::Float(left), Val::Float(right)) => left == right,
            (Val::Str(left), Val::Str(right)) => left == right,
            _ => left.integer() == right.integer(),
        }),
    }
}

fn different(left: &Val, right: &Val) -> String {
    format!("incompatible types for comparison: {} and {}", left.type_name(), right.type_name())
}

/// As `%s` prints it.
fn as_text(value: &Val) -> String {
    printf("%s", std::slice::from_ref(value), usize::MAX).unwrap_or_default()
}

fn not_comparable(left: &Val, right: &Val) -> String {
    if left.type_name() == right.type_name() {
        return format!("non-comparable type {}: {}", as_text(right), right.type_name());
    }
    format!(
        "non-comparable types {}: {}, {}: {}",
        as_text(left),
        left.type_name(),
        right.type_name(),
        plain(right)
    )
}

/// How two values of one ordered kind stand to each other; `None` for what is not a number.
fn order(values: &[Val]) -> Result<Option<Ordering>, String> {
    let [left, right] = values else { return Err(MISSING.to_owned()) };
    let (left_kind, right_kind) = (basic(left).ok_or(BAD_TYPE)?, basic(right).ok_or(BAD_TYPE)?);
    if !fit(left_kind, right_kind) {
        return Err(different(left, right));
    }
    match (left, right) {
        (Val::Bool(_), _) => Err(BAD_TYPE.to_owned()),
        (Val::Float(left), Val::Float(right)) => Ok(left.partial_cmp(right)),
        (Val::Str(left), Val::Str(right)) => Ok(Some(left.cmp(right))),
        _ => Ok(left.integer().partial_cmp(&right.integer())),
    }
}

pub(crate) fn lt(values: &[Val]) -> Result<bool, String> {
    Ok(order(values)? == Some(Ordering::Less))
}

/// `le` is `lt` or `eq`.
pub(crate) fn le(values: &[Val]) -> Result<bool, String> {
    Ok(lt(values)? || eq(values)?)
}

/// `gt` is not `le`, so it holds for what is not a number.
pub(crate) fn gt(values: &[Val]) -> Result<bool, String> {
    Ok(!le(values)?)
}

/// `ge` is not `lt`.
pub(crate) fn ge(values: &[Val]) -> Result<bool, String> {
    Ok(!lt(values)?)
}
