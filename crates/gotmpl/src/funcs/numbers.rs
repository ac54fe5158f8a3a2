//! Whole numbers, fractions, and lists of numbers.

use super::decimals::Decimal;
use super::{Builtin, Call, Given, Ty, at, f, from, int_at, str_at, v};
use crate::value::Val;

const ANY: &[Ty] = &[Ty::Any];
const ANY2: &[Ty] = &[Ty::Any, Ty::Any];

pub(super) const SPRIG: &[Builtin] = &[
    f("atoi", &[Ty::Str], |_, values| Ok(Val::Int(atoi(str_at(values, 0))))),
    f("int", ANY, |_, values| Ok(Val::Int(whole(at(values, 0))))),
    f("int64", ANY, |_, values| Ok(Val::Int64(whole(at(values, 0))))),
    f("float64", ANY, |_, values| Ok(Val::Float(fraction(at(values, 0))))),
    f("toDecimal", ANY, |_, values| {
        Ok(Val::Int64(i64::from_str_radix(&super::text_of(at(values, 0)), 8).unwrap_or_default()))
    }),
    f("add1", ANY, |_, values| Ok(Val::Int64(whole(at(values, 0)).wrapping_add(1)))),
    v("add", ANY, |_, values| Ok(Val::Int64(values.iter().map(whole).fold(0, i64::wrapping_add)))),
    f("sub", ANY2, |_, values| Ok(Val::Int64(whole(at(values, 0)).wrapping_sub(whole(at(values, 1)))))),
    f("div", ANY2, |_, values| divided(values, i64::wrapping_div)),
    f("mod", ANY2, |_, values| divided(values, i64::wrapping_rem)),
    v("mul", ANY2, |_, values| Ok(Val::Int64(values.iter().map(whole).fold(1, i64::wrapping_mul)))),
    v("max", ANY2, |_, values| Ok(Val::Int64(values.iter().map(whole).max().unwrap_or_default()))),
    v("biggest", ANY2, |_, values| Ok(Val::Int64(values.iter().map(whole).max().unwrap_or_default()))),
    v("min", ANY2, |_, values| Ok(Val::Int64(values.iter().map(whole).min().unwrap_or_default()))),
    v("maxf", ANY2, |_, values| {
        Ok(Val::Float(values.iter().map(fraction).reduce(larger).unwrap_or_default()))
    }),
    v("minf", ANY2, |_, values| {
        Ok(Val::Float(
            values.iter().map(fraction).reduce(|left, right| -larger(-left, -right)).unwrap_or_default(),
        ))
    }),
    f("add1f", ANY, |_, values| decimals(&[at(values, 0).clone(), Val::Int(1)], Decimal::add)),
    v("addf", ANY, |_, values| {
        let all: Vec<Val> = std::iter::once(Val::Float(0.0)).chain(values.iter().cloned()).collect();
        decimals(&all, Decimal::add)
    }),
    v("subf", ANY2, |_, values| decimals(values, Decimal::sub)),
    v("mulf", ANY2, |_, values| decimals(values, Decimal::mul)),
    v("divf", ANY2, |_, values| decimals(values, Decimal::div)),
    f("ceil", ANY, |_, values| Ok(Val::Float(fraction(at(values, 0)).ceil()))),
    f("floor", ANY, |_, values| Ok(Val::Float(fraction(at(values, 0)).floor()))),
    v("round", &[Ty::Any, Ty::Int, Ty::Float], round),
    f("until", &[Ty::Int], |call, values| {
        let count = int_at(values, 0);
        steps(call, 0, count, if count < 0 { -1 } else { 1 })
    }),
    f("untilStep", &[Ty::Int, Ty::Int, Ty::Int], |call, values| {
        steps(call, int_at(values, 0), int_at(values, 1), int_at(values, 2))
    }),
    v("seq", &[Ty::Int], seq),
];

/// Two to the power of 63.
const OUT_OF_RANGE: f64 = 9_223_372_036_854_775_808.0;

/// A value as a whole number; 0 for what is none.
pub(super) fn whole(value: &Val) -> i64 {
    match value {
        Val::Int(value) | Val::Int64(value) => *value,
        Val::Uint8(value) => i64::from(*value),
        Val::Uint64(value) => value.cast_signed(),
        Val::Bool(value) => i64::from(*value),
        // Go on amd64 makes the smallest number of all that is out of range.
        Val::Float(value) if !(-9.3e18..OUT_OF_RANGE).contains(value) => i64::MIN,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::as_conversions,
            reason = "cuts the fraction, as Go does"
        )]
        Val::Float(value) => *value as i64,
        Val::Str(text) => whole_text(text),
        _ => 0,
    }
}

/// A whole number as a text, in any base that Go knows, with or without zeros behind a point.
fn whole_text(text: &str) -> i64 {
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

/// A value as a fraction; 0 for what is none.
pub(super) fn fraction(value: &Val) -> f64 {
    match value {
        Val::Float(value) => *value,
        #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "as Go converts")]
        Val::Int(value) | Val::Int64(value) => *value as f64,
        Val::Uint8(value) => f64::from(*value),
        #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "as Go converts")]
        Val::Uint64(value) => *value as f64,
        Val::Bool(value) => f64::from(u8::from(*value)),
        Val::Str(text) => text.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

/// A whole number in digits; of one that is too large, the largest that there is.
fn atoi(text: &str) -> i64 {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse().unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
        PosOverflow => i64::MAX,
        NegOverflow => i64::MIN,
        _ => 0,
    })
}

/// As Go's `math.Max`: what is no number wins unless the other one is infinite, and 0 is more than -0.
fn larger(left: f64, right: f64) -> f64 {
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

fn divided(values: &[Val], divide: fn(i64, i64) -> i64) -> Given {
    match whole(at(values, 1)) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(Val::Int64(divide(whole(at(values, 0)), divisor))),
    }
}

fn round(_: &Call, values: &[Val]) -> Given {
    let value = fraction(at(values, 0));
    let threshold = values.get(2).map_or(0.5, fraction);
    let places = i32::try_from(int_at(values, 1)).unwrap_or(i32::MAX);
    let power = 10_f64.powi(places);
    let digits = power * value;
    let rounded = if digits.fract() >= threshold { digits.ceil() } else { digits.floor() };
    Ok(Val::Float(rounded / power))
}

/// Bytes that a number in a list is counted for.
const NUMBER_BYTES: usize = 8;

fn steps(call: &Call, start: i64, stop: i64, step: i64) -> Given {
    Ok(Val::ints(stepped(call, start, stop, step)?))
}

fn stepped(call: &Call, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, String> {
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

/// `seq` counts as the program of that name: the end is part of it.
fn seq(call: &Call, values: &[Val]) -> Given {
    let numbers: Vec<i64> = values.iter().map(whole).collect();
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
    let numbers = stepped(call, start, end.saturating_add(step.signum()), step)?;
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    Ok(Val::str(texts.join(" ")))
}

fn decimals(values: &[Val], compute: fn(&Decimal, &Decimal) -> Result<Decimal, String>) -> Given {
    let mut result = Decimal::of(fraction(at(values, 0)))?;
    for value in from(values, 1) {
        result = compute(&result, &Decimal::of(fraction(value))?)?;
    }
    Ok(Val::Float(result.float()))
}
