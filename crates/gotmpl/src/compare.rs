//! The template functions `eq`, `ne`, `lt` and so on. Only values of the same basic kind can be compared.

use std::cmp::Ordering;

use crate::format::format_plain;
use crate::printf::printf;
use crate::value::Val;

const BAD_TYPE: &str = "invalid type for comparison";
const MISSING: &str = "missing argument for comparison";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BasicKind {
    Bool,
    Float,
    Int,
    Uint,
    Text,
}

fn basic_kind(value: &Val) -> Option<BasicKind> {
    match value {
        Val::Bool(_) => Some(BasicKind::Bool),
        Val::Float(_) => Some(BasicKind::Float),
        Val::Int(_) | Val::Int64(_) => Some(BasicKind::Int),
        Val::Uint8(_) | Val::Uint64(_) => Some(BasicKind::Uint),
        Val::Str(_) => Some(BasicKind::Text),
        _ => None,
    }
}

/// Returns true if values of these kinds can be compared. Signed and unsigned integers can be compared with
/// each other.
fn are_comparable(left: BasicKind, right: BasicKind) -> bool {
    let is_whole = |kind| matches!(kind, BasicKind::Int | BasicKind::Uint);
    left == right || is_whole(left) && is_whole(right)
}

/// Returns true if the first value equals at least one of the other values.
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
    match (basic_kind(left), basic_kind(right)) {
        (None, None) => {
            for value in [left, right] {
                if matches!(value, Val::List(_) | Val::Map(_)) && !left.is_null() && !right.is_null() {
                    return Err(not_comparable(left, right));
                }
            }
            Ok(left.is_null() == right.is_null() && left.is_same(right))
        }
        (left_kind, right_kind)
            if !left_kind.zip(right_kind).is_some_and(|(left, right)| are_comparable(left, right)) =>
        {
            if left.is_null() || right.is_null() {
                Ok(false)
            } else {
                Err(incompatible_types_message(left, right))
            }
        }
        _ => Ok(match (left, right) {
            (Val::Bool(left), Val::Bool(right)) => left == right,
            (Val::Float(left), Val::Float(right)) => left == right,
            (Val::Str(left), Val::Str(right)) => left == right,
            _ => left.integer() == right.integer(),
        }),
    }
}

fn incompatible_types_message(left: &Val, right: &Val) -> String {
    format!("incompatible types for comparison: {} and {}", left.type_name(), right.type_name())
}

/// Formats a value like `%s`.
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
        format_plain(right)
    )
}

/// Compares two values of the same basic kind. Returns `None` if either value is NaN.
fn compare_ordered(values: &[Val]) -> Result<Option<Ordering>, String> {
    let [left, right] = values else { return Err(MISSING.to_owned()) };
    let (left_kind, right_kind) = (basic_kind(left).ok_or(BAD_TYPE)?, basic_kind(right).ok_or(BAD_TYPE)?);
    if !are_comparable(left_kind, right_kind) {
        return Err(incompatible_types_message(left, right));
    }
    match (left, right) {
        (Val::Bool(_), _) => Err(BAD_TYPE.to_owned()),
        (Val::Float(left), Val::Float(right)) => Ok(left.partial_cmp(right)),
        (Val::Str(left), Val::Str(right)) => Ok(Some(left.cmp(right))),
        _ => Ok(left.integer().partial_cmp(&right.integer())),
    }
}

pub(crate) fn lt(values: &[Val]) -> Result<bool, String> {
    Ok(compare_ordered(values)? == Some(Ordering::Less))
}

/// Implements `le` as `lt` or `eq`.
pub(crate) fn le(values: &[Val]) -> Result<bool, String> {
    Ok(lt(values)? || eq(values)?)
}

/// Implements `gt` as the negation of `le`, so it returns true for NaN, as in Go.
pub(crate) fn gt(values: &[Val]) -> Result<bool, String> {
    Ok(!le(values)?)
}

/// Implements `ge` as the negation of `lt`.
pub(crate) fn ge(values: &[Val]) -> Result<bool, String> {
    Ok(!lt(values)?)
}
