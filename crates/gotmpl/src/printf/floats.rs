//! Digits of a float for the `printf` verbs that print floats.

use crate::format::{exponent_text, general, special_float};

/// Default number of digits after the decimal point.
const PLACES: usize = 6;
/// Number of mantissa bits without the implicit first bit. `EXPONENT_BIAS` is the bias of the exponent.
const FRACTION_BITS: u32 = 52;
const EXPONENT_BIAS: i32 = 1023;
/// Number of hexadecimal digits of the mantissa.
const FRACTION_DIGITS: usize = 13;

/// Formats a nonnegative float. Returns `None` if the verb doesn't print floats.
pub(super) fn digits(verb: char, value: f64, precision: Option<usize>) -> Option<String> {
    if !matches!(verb, 'v' | 'g' | 'G' | 'f' | 'F' | 'e' | 'E' | 'b' | 'x' | 'X') {
        return None;
    }
    if let Some(word) = special_float(value) {
        return Some(word.to_owned());
    }
    Some(match verb {
        'v' | 'g' => general(value, precision),
        'G' => general(value, precision).to_uppercase(),
        'f' | 'F' => format!("{value:.*}", precision.unwrap_or(PLACES)),
        'e' => scientific(value, precision),
        'E' => scientific(value, precision).to_uppercase(),
        'x' => hexadecimal(value, precision),
        'X' => hexadecimal(value, precision).to_uppercase(),
        _ => {
            let (bits, exponent) = parts(value);
            format!("{bits}p{:+}", exponent - FRACTION_BITS.cast_signed())
        }
    })
}

fn scientific(value: f64, precision: Option<usize>) -> String {
    let text = format!("{value:.*e}", precision.unwrap_or(PLACES));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{digits}e{}", exponent_text(exponent.parse().unwrap_or_default()))
}

/// Returns a float's mantissa as an integer, and the power of two of its first bit.
fn parts(value: f64) -> (u64, i32) {
    let fraction = value.to_bits() & ((1 << FRACTION_BITS) - 1);
    let exponent = i32::try_from((value.to_bits() >> FRACTION_BITS) & 0x7ff).unwrap_or_default();
    match exponent {
        // A subnormal number has no implicit first bit.
        0 => (fraction, 1 - EXPONENT_BIAS),
        _ => (fraction | (1 << FRACTION_BITS), exponent - EXPONENT_BIAS),
    }
}

/// Formats a float in hexadecimal, such as `0x1.8p+00`. The result has one digit before the point. After the
/// point, it has `precision` digits or as many as necessary.
fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let (mut bits, mut exponent) = parts(value);
    if bits == 0 {
        exponent = 0;
    }
    while bits != 0 && bits >> FRACTION_BITS == 0 {
        bits <<= 1;
        exponent -= 1;
    }
    if let Some(kept) = precision.filter(|kept| *kept < FRACTION_DIGITS) {
        // Rounds to the nearest value, and ties to even.
        let dropped = u32::try_from((FRACTION_DIGITS - kept) * 4).unwrap_or_default();
        let (rest, half) = (bits & ((1 << dropped) - 1), 1 << (dropped - 1));
        bits >>= dropped;
        bits += u64::from(rest > half || (rest == half && bits & 1 == 1));
        bits <<= dropped;
        if bits >> (FRACTION_BITS + 1) != 0 {
            bits >>= 1;
            exponent += 1;
        }
    }
    let fraction = format!("{:013x}", bits & ((1 << FRACTION_BITS) - 1));
    let fraction = match precision {
        Some(places) => format!("{fraction:0<places$}").chars().take(places).collect(),
        None => fraction.trim_end_matches('0').to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("0x{}{point}{fraction}p{}", bits >> FRACTION_BITS, exponent_text(exponent))
}

/// Applies the `#` flag, which adds a point and, for some verbs, trailing zeros.
pub(super) fn with_point(verb: char, digits: &str, precision: Option<usize>) -> String {
    let is_hexadecimal = matches!(verb, 'x' | 'X');
    let exponent = |c: char| matches!(c, 'p' | 'P') || (!is_hexadecimal && matches!(c, 'e' | 'E'));
    let (digits, exponent) = digits.split_at(digits.find(exponent).unwrap_or(digits.len()));
    let point = if digits.contains('.') { "" } else { "." };
    let wanted = match verb {
        'v' | 'g' | 'G' | 'x' => precision.unwrap_or(PLACES),
        _ => 0,
    };
    // Significant digits start at the first nonzero digit. If the number is zero, the zero counts as one
    // digit.
    let significant = digits.trim_start_matches(['0', '.']).chars().filter(|c| *c != '.').count();
    let significant = significant.max(usize::from(digits == "0"));
    format!("{digits}{point}{}{exponent}", "0".repeat(wanted.saturating_sub(significant)))
}
