//! Which value a text without quotes stands for: YAML 1.1, as kubectl's parser reads it.

use serde_json::{Number, Value};

use super::Cause;

/// A scalar before it is JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Names of the types that YAML defines.
pub(super) const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// Reads a scalar. `tag` is its type in full, where one is given.
pub(super) fn scalar(text: &str, plain: bool, tag: Option<&str>) -> Result<Scalar, Cause> {
    let Some(tag) = tag.filter(|tag| *tag != "!") else {
        return Ok(if plain && tag.is_none() { implicit(text) } else { Scalar::Text(text.to_owned()) });
    };
    let found = implicit(text);
    match (tag.strip_prefix(YAML_TAGS), found) {
        (Some("bool"), found @ Scalar::Bool(_))
        | (Some("null"), found @ Scalar::Null)
        | (Some("int"), found @ (Scalar::Integer(_) | Scalar::Unsigned(_)))
        | (Some("float"), found @ (Scalar::Integer(_) | Scalar::Float(_))) => Ok(found),
        (Some(wanted @ ("bool" | "null" | "int" | "float")), _) => {
            // The value may be a secret's.
            let message = format!("a value that is not of its type !!{wanted}; leave the tag out");
            Err(Cause::Syntax { message })
        }
        (Some("binary"), _) => {
            let message =
                "!!binary is not for Kubernetes objects; leave the tag out, and keep the base64 text";
            Err(Cause::Syntax { message: message.to_owned() })
        }
        _ => Ok(Scalar::Text(text.to_owned())),
    }
}

fn implicit(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => number(text).unwrap_or_else(|| Scalar::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Scalar> {
    match text.bytes().next()? {
        b'.' if separates_digits(text) => float(&text.replace('_', "")).map(Scalar::Float),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits).map(Scalar::Float))
        }
        _ => None,
    }
}

/// Whether each underscore stands between two digits, as it must behind a point in front.
fn separates_digits(text: &str) -> bool {
    text.split('_').skip(1).all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        && text.split('_').rev().skip(1).all(|part| part.ends_with(|c: char| c.is_ascii_digit()))
}

/// Whole numbers: decimal, and with the prefixes 0x, 0o, 0b, or 0 for the octal numbers of YAML 1.1.
fn integer(text: &str) -> Option<Scalar> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, magnitude.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, magnitude.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, magnitude.get(2..)?),
        [b'0', _, ..] => (8, magnitude.get(1..)?),
        _ => (10, magnitude),
    };
    // Go reads what is behind this prefix with a sign of its own.
    let has_own_sign = text.starts_with("0b");
    let (sign, digits) = match digits.strip_prefix('-').filter(|_| has_own_sign) {
        Some(digits) => ("-", digits),
        None => (sign, digits.strip_prefix('+').filter(|_| has_own_sign).unwrap_or(digits)),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    if let Ok(value) = i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        return Some(Scalar::Integer(value));
    }
    let unsigned = text.starts_with(|c: char| c.is_ascii_digit());
    u64::from_str_radix(digits, radix).ok().filter(|_| unsigned).map(Scalar::Unsigned)
}

/// Numbers with a point or an exponent. One that no float holds is none: `97e83412` is a commit.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let good = has_digits && digits(whole) && digits(fraction);
    let good_exponent = exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    if !good || !good_exponent {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The value in JSON.
pub(super) fn value(scalar: Scalar) -> Result<Value, Cause> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => value.into(),
        Scalar::Integer(value) => value.into(),
        Scalar::Unsigned(value) => value.into(),
        Scalar::Text(text) => text.into(),
        Scalar::Float(value) => Value::Number(json_number(value).ok_or_else(|| Cause::Syntax {
            // The value may be a secret's.
            message: "a number must be finite; put quotes around it if it is a text".to_owned(),
        })?),
    })
}

/// From here on JSON is written with an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// A number with a point. A whole one becomes an integer (`1.0` is `1`, `1e3` is `1000`), as on kubectl's way through
/// JSON.
pub(super) fn json_number(value: f64) -> Option<Number> {
    if value.fract() == 0.0
        && value.abs() < EXPONENT_FROM
        && let Ok(whole) = value.to_string().parse::<i64>()
    {
        return Some(whole.into());
    }
    Number::from_f64(value)
}

/// With an exponent where the shortest form has one, as Go's `%g`: `1e+06`.
fn float_key(value: f64) -> String {
    let written = format!("{value:e}");
    let parsed =
        written.split_once('e').and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?)));
    match parsed.filter(|(_, power)| !(-4..6).contains(power)) {
        Some((digits, power)) => format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
        None => value.to_string(),
    }
}

/// What a key is in JSON, which knows only text.
pub(super) fn key(scalar: Scalar) -> Result<String, Cause> {
    Ok(match scalar {
        Scalar::Text(text) => text,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Integer(value) => value.to_string(),
        Scalar::Unsigned(value) => value.to_string(),
        Scalar::Float(value) if value.is_finite() => float_key(value),
        Scalar::Float(_) | Scalar::Null => {
            let message = "a key must be a text; put quotes around it".to_owned();
            return Err(Cause::Syntax { message });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_look_odd() {
        for (text, expected) in [
            ("0", Scalar::Integer(0)),
            ("-0", Scalar::Integer(0)),
            ("010", Scalar::Integer(8)),
            ("08", Scalar::Float(8.0)),
            ("0x", Scalar::Text("0x".into())),
            ("0x+1", Scalar::Text("0x+1".into())),
            ("+0xff", Scalar::Integer(255)),
            ("-0b101", Scalar::Integer(-5)),
            ("+", Scalar::Text("+".into())),
            (".", Scalar::Text(".".into())),
            ("1.", Scalar::Float(1.0)),
            (".5", Scalar::Float(0.5)),
            ("-.5", Scalar::Float(-0.5)),
            ("1e", Scalar::Text("1e".into())),
            ("1e+", Scalar::Text("1e+".into())),
            ("+18446744073709551615", Scalar::Float(18_446_744_073_709_551_615.0)),
            ("1__0", Scalar::Integer(10)),
            ("_1", Scalar::Text("_1".into())),
            ("192.168.0.1", Scalar::Text("192.168.0.1".into())),
            ("1,000", Scalar::Text("1,000".into())),
            ("infinity", Scalar::Text("infinity".into())),
        ] {
            assert_eq!(implicit(text), expected, "{text}");
        }
    }
}
