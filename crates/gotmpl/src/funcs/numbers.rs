//! Functions for integers, floats and lists of numbers.

use super::decimals::Decimal;
use super::{Builtin, Call, CallResult, Ty, at, fixed, from, int_at, str_at, variadic};
use crate::value::Val;

const ANY: &[Ty] = &[Ty::Any];
const ANY2: &[Ty] = &[Ty::Any, Ty::Any];

pub(super) const SPRIG: &[Builtin] = &[
    fixed("atoi", &[Ty::Str], |_, values| Ok(Val::Int(atoi(str_at(values, 0))))),
    fixed("int", ANY, |_, values| Ok(Val::Int(to_integer(at(values, 0))))),
    fixed("int64", ANY, |_, values| Ok(Val::Int64(to_integer(at(values, 0))))),
    fixed("float64", ANY, |_, values| Ok(Val::Float(to_float(at(values, 0))))),
    fixed("toDecimal", ANY, |_, values| {
        Ok(Val::Int64(i64::from_str_radix(&super::text_of(at(values, 0)), 8).unwrap_or_default()))
    }),
    fixed("add1", ANY, |_, values| Ok(Val::Int64(to_integer(at(values, 0)).wrapping_add(1)))),
    variadic("add", ANY, |_, values| {
        Ok(Val::Int64(values.iter().map(to_integer).fold(0, i64::wrapping_add)))
    }),
    fixed("sub", ANY2, |_, values| {
        Ok(Val::Int64(to_integer(at(values, 0)).wrapping_sub(to_integer(at(values, 1)))))
    }),
    fixed("div", ANY2, |_, values| divide_integers(values, i64::wrapping_div)),
    fixed("mod", ANY2, |_, values| divide_integers(values, i64::wrapping_rem)),
    variadic("mul", ANY2, |_, values| {
        Ok(Val::Int64(values.iter().map(to_integer).fold(1, i64::wrapping_mul)))
    }),
    variadic("max", ANY2, |_, values| {
        Ok(Val::Int64(values.iter().map(to_integer).max().unwrap_or_default()))
    }),
    variadic("biggest", ANY2, |_, values| {
        Ok(Val::Int64(values.iter().map(to_integer).max().unwrap_or_default()))
    }),
    variadic("min", ANY2, |_, values| {
        Ok(Val::Int64(values.iter().map(to_integer).min().unwrap_or_default()))
    }),
    variadic("maxf", ANY2, |_, values| {
        Ok(Val::Float(values.iter().map(to_float).reduce(max_float).unwrap_or_default()))
    }),
    variadic("minf", ANY2, |_, values| {
        Ok(Val::Float(
            values.iter().map(to_float).reduce(|left, right| -max_float(-left, -right)).unwrap_or_default(),
        ))
    }),
    fixed("add1f", ANY, |_, values| decimals(&[at(values, 0).clone(), Val::Int(1)], Decimal::add)),
    variadic("addf", ANY, |_, values| {
        let all: Vec<Val> = std::iter::once(Val::Float(0.0)).chain(values.iter().cloned()).collect();
        decimals(&all, Decimal::add)
    }),
    variadic("subf", ANY2, |_, values| decimals(values, Decimal::sub)),
    variadic("mulf", ANY2, |_, values| decimals(values, Decimal::mul)),
    variadic("divf", ANY2, |_, values| decimals(values, Decimal::div)),
    fixed("ceil", ANY, |_, values| Ok(Val::Float(to_float(at(values, 0)).ceil()))),
    fixed("floor", ANY, |_, values| Ok(Val::Float(to_float(at(values, 0)).floor()))),
    variadic("round", &[Ty::Any, Ty::Int, Ty::Float], round),
    fixed("until", &[Ty::Int], |call, values| {
        let count = int_at(values, 0);
        steps(call, 0, count, if count < 0 { -1 } else { 1 })
    }),
    fixed("untilStep", &[Ty::Int, Ty::Int, Ty::Int], |call, values| {
        steps(call, int_at(values, 0), int_at(values, 1), int_at(values, 2))
    }),
    variadic("seq", &[Ty::Int], seq),
];

/// 2^63, the smallest float above the range of `i64`.
const OUT_OF_RANGE: f64 = 9_223_372_036_854_775_808.0;

/// Converts a number, a boolean or a string to an integer. Returns 0 for anything else.
pub(super) fn to_integer(value: &Val) -> i64 {
    match value {
        Val::Int(value) | Val::Int64(value) => *value,
        Val::Uint8(value) => i64::from(*value),
        Val::Uint64(value) => value.cast_signed(),
        Val::Bool(value) => i64::from(*value),
        // On amd64, Go converts every out-of-range float to the smallest integer.
        Val::Float(value) if !(-9.3e18..OUT_OF_RANGE).contains(value) => i64::MIN,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::as_conversions,
            reason = "drops the fraction, as Go does"
        )]
        Val::Float(value) => *value as i64,
        Val::Str(text) => parse_integer(text),
        _ => 0,
    }
}

/// Parses an integer in any base that Go supports, optionally followed by a fraction of zeros.
fn parse_integer(text: &str) -> i64 {
    let text = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = crate::node::parse_unsigned(digits).and_then(|value| i64::try_from(value).ok());
    let value = value.unwrap_or_default();
    if negative { -value } else { value }
}

/// Converts a number, a boolean or a string to a float. Returns 0 for anything else.
pub(super) fn to_float(value: &Val) -> f64 {
    match value {
        Val::Float(value) => *value,
        #[expect(
            clippy::cast_precision_loss,
            clippy::as_conversions,
            reason = "rounds large integers, as Go does"
        )]
        Val::Int(value) | Val::Int64(value) => *value as f64,
        Val::Uint8(value) => f64::from(*value),
        #[expect(
            clippy::cast_precision_loss,
            clippy::as_conversions,
            reason = "rounds large integers, as Go does"
        )]
        Val::Uint64(value) => *value as f64,
        Val::Bool(value) => f64::from(u8::from(*value)),
        Val::Str(text) => text.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

/// Parses decimal digits. A number too large becomes the largest integer.
fn atoi(text: &str) -> i64 {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse().unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
        PosOverflow => i64::MAX,
        NegOverflow => i64::MIN,
        _ => 0,
    })
}

/// Returns the maximum like Go's `math.Max`. The result is NaN if either value is NaN and the other isn't
/// positive infinity, and 0 is greater than -0.
fn max_float(left: f64, right: f64) -> f64 {
    match (left, right) {
        _ if left == f64::INFINITY || right == f64::INFINITY => f64::INFINITY,
        _ if left.is_nan() || right.is_nan() => f64::NAN,
        _ if left == right => {
            if left.is_sign_negative() {
                right
            } else {
                left
            }
        }
        _ => left.max(right),
    }
}

fn divide_integers(values: &[Val], divide: fn(i64, i64) -> i64) -> CallResult {
    match to_integer(at(values, 1)) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(Val::Int64(divide(to_integer(at(values, 0)), divisor))),
    }
}

fn round(_: &Call, values: &[Val]) -> CallResult {
    let value = to_float(at(values, 0));
    let threshold = values.get(2).map_or(0.5, to_float);
    let places = i32::try_from(int_at(values, 1)).unwrap_or(i32::MAX);
    let power = 10_f64.powi(places);
    let digits = power * value;
    let rounded = if digits.fract() >= threshold { digits.ceil() } else { digits.floor() };
    Ok(Val::Float(rounded / power))
}

/// Number of bytes that each number in a list counts toward the size limit.
const NUMBER_BYTES: usize = 8;

fn steps(call: &Call, start: i64, stop: i64, step: i64) -> CallResult {
    Ok(Val::ints(step_values(call, start, stop, step)?))
}

fn step_values(call: &Call, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, String> {
    if step == 0 || (stop < start) != (step < 0) {
        return Ok(Vec::new());
    }
    let count = usize::try_from(start.abs_diff(stop).div_ceil(step.unsigned_abs())).unwrap_or(usize::MAX);
    super::check_room(call, count.saturating_mul(NUMBER_BYTES))?;
    let mut numbers = Vec::with_capacity(count);
    let mut number = start;
    while if step > 0 { number < stop } else { number > stop } {
        numbers.push(number);
        let Some(next) = number.checked_add(step) else { break };
        number = next;
    }
    Ok(numbers)
}

/// Returns a sequence of numbers that includes the end of the range, like the `seq` program.
fn seq(call: &Call, values: &[Val]) -> CallResult {
    let numbers: Vec<i64> = values.iter().map(to_integer).collect();
    let (start, step, end) = match numbers.as_slice() {
        [] => return Ok(Val::str("")),
        [end] => (1, if *end < 1 { -1 } else { 1 }, *end),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] => {
            if (end < start && *step > 0) || *step == 0 {
                return Ok(Val::str(""));
            }
            (*start, *step, *end)
        }
        _ => return Ok(Val::str("")),
    };
    let numbers = step_values(call, start, end.saturating_add(step.signum()), step)?;
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    Ok(Val::str(texts.join(" ")))
}

fn decimals(values: &[Val], compute: fn(&Decimal, &Decimal) -> Result<Decimal, String>) -> CallResult {
    let mut result = Decimal::from_float(to_float(at(values, 0)))?;
    for value in from(values, 1) {
        result = compute(&result, &Decimal::from_float(to_float(value))?)?;
    }
    Ok(Val::Float(result.float()))
}
