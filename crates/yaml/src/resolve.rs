//! Resolution of plain scalars according to YAML 1.1, as in kubectl's parser.

use serde_json::{Number, Value};

use super::ProblemCause;

/// A scalar, before it is converted to JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Prefix of the type names defined by YAML.
pub(super) const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// Resolves a scalar. `tag` is the full name of its type, such as `tag:yaml.org,2002:int`.
pub(super) fn resolve_scalar(text: &str, plain: bool, tag: Option<&str>) -> Result<Scalar, ProblemCause> {
    let Some(tag) = tag.filter(|tag| *tag != "!") else {
        return Ok(if plain && tag.is_none() { resolve_plain(text) } else { Scalar::Text(text.to_owned()) });
    };
    let found = resolve_plain(text);
    match (tag.strip_prefix(YAML_TAGS), found) {
        (Some("bool"), found @ Scalar::Bool(_))
        | (Some("null"), found @ Scalar::Null)
        | (Some("int"), found @ (Scalar::Integer(_) | Scalar::Unsigned(_)))
        | (Some("float"), found @ (Scalar::Integer(_) | Scalar::Float(_))) => Ok(found),
        (Some(wanted @ ("bool" | "null" | "int" | "float")), _) => {
            // The message doesn't quote the value, because it may be secret.
            let message = format!("the value does not match its tag !!{wanted}; remove the tag");
            Err(ProblemCause::Syntax { message })
        }
        (Some("binary"), _) => {
            let message =
                "!!binary is not supported in Kubernetes objects; remove the tag and keep the base64 text";
            Err(ProblemCause::Syntax { message: message.to_owned() })
        }
        _ => Ok(Scalar::Text(text.to_owned())),
    }
}

fn resolve_plain(text: &str) -> Scalar {
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
        _ => parse_number(text).unwrap_or_else(|| Scalar::Text(text.to_owned())),
    }
}

fn parse_number(text: &str) -> Option<Scalar> {
    match text.bytes().next()? {
        b'.' if separates_digits(text) => parse_float(&text.replace('_', "")).map(Scalar::Float),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            parse_integer(&digits).or_else(|| parse_float(&digits).map(Scalar::Float))
        }
        _ => None,
    }
}

/// Returns true if each underscore is between two digits, as required in numbers that begin with a point.
fn separates_digits(text: &str) -> bool {
    text.split('_').skip(1).all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        && text.split('_').rev().skip(1).all(|part| part.ends_with(|c: char| c.is_ascii_digit()))
}

/// Parses a decimal, hexadecimal (0x), octal (0o, or 0 as in YAML 1.1) or binary (0b) integer.
fn parse_integer(text: &str) -> Option<Scalar> {
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
    // Go's parser accepts a second sign after this prefix, as in `0b-101`.
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

/// Parses a number with a point or an exponent. Returns `None` if it is too large for a float and thus
/// remains a string, such as the commit hash `97e83412`.
fn parse_float(text: &str) -> Option<f64> {
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

/// Converts a scalar to JSON.
pub(super) fn to_json(scalar: Scalar) -> Result<Value, ProblemCause> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => value.into(),
        Scalar::Integer(value) => value.into(),
        Scalar::Unsigned(value) => value.into(),
        Scalar::Text(text) => text.into(),
        Scalar::Float(value) => Value::Number(json_number(value).ok_or_else(|| ProblemCause::Syntax {
            // The message doesn't quote the value, because it may be secret.
            message: "a number must be finite; put quotes around it if it is a string".to_owned(),
        })?),
    })
}

/// Smallest float that JSON output writes with an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// Converts a float. As in kubectl's conversion to JSON, a float without a fraction becomes an integer (`1.0`
/// becomes `1`, `1e3` becomes `1000`).
pub(super) fn json_number(value: f64) -> Option<Number> {
    if value.fract() == 0.0
        && value.abs() < EXPONENT_FROM
        && let Ok(whole) = value.to_string().parse::<i64>()
    {
        return Some(whole.into());
    }
    Number::from_f64(value)
}

/// Formats a float like Go's `%g`, with an exponent if the shortest form has one: `1e+06`.
fn float_key(value: f64) -> String {
    let written = format!("{value:e}");
    let parsed =
        written.split_once('e').and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?)));
    match parsed.filter(|(_, power)| !(-4..6).contains(power)) {
        Some((digits, power)) => format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
        None => value.to_string(),
    }
}

/// Converts a key to text, because JSON keys are strings.
pub(super) fn to_key(scalar: Scalar) -> Result<String, ProblemCause> {
    Ok(match scalar {
        Scalar::Text(text) => text,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Integer(value) => value.to_string(),
        Scalar::Unsigned(value) => value.to_string(),
        Scalar::Float(value) if value.is_finite() => float_key(value),
        Scalar::Float(_) | Scalar::Null => {
            let message = "a key must be a string; put quotes around it".to_owned();
            return Err(ProblemCause::Syntax { message });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_numbers() {
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
            assert_eq!(resolve_plain(text), expected, "{text}");
        }
    }
}
