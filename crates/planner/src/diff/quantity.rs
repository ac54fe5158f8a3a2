//! Kubernetes quantities: `500m`, `1Gi`, `0.5`, `1e3`.

use serde_json::Value;

/// Quantities are counted in billionths, the smallest unit that Kubernetes supports.
const UNITS_PER_ONE: i128 = 1_000_000_000;

const DECIMAL: [(&str, i128, i128); 10] = [
    ("", 1, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1000),
    ("k", 1000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Returns true if two values are equal quantities.
pub(super) fn is_same_quantity(one: &Value, other: &Value) -> bool {
    matches!((parse(one), parse(other)), (Some(one), Some(other)) if one == other)
}

fn parse(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Number(number) => parse_text(&number.to_string()),
        _ => None,
    }
}

/// Parses a quantity into billionths. Returns `None` if it is invalid, too large, or finer than a billionth.
fn parse_text(text: &str) -> Option<i128> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (mantissa, decimals) = parse_decimal(number)?;
    let (factor, divisor) = parse_suffix(suffix)?;
    let divisor = divisor.checked_mul(10_i128.checked_pow(decimals)?)?;
    let scaled = mantissa.checked_mul(factor)?.checked_mul(UNITS_PER_ONE)?;
    (scaled % divisor == 0).then_some(scaled / divisor)
}

/// Parses a decimal number into its digits without the decimal point, and the number of decimals.
fn parse_decimal(number: &str) -> Option<(i128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let decimals = u32::try_from(fraction.len()).ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    format!("{whole}{fraction}").parse().ok().map(|digits| (digits, decimals))
}

fn parse_suffix(suffix: &str) -> Option<(i128, i128)> {
    if let Some((_, factor, divisor)) = DECIMAL.iter().find(|(name, ..)| *name == suffix) {
        return Some((*factor, *divisor));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1_i128 << power, 1));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities() {
        for (one, other, expected) in [
            (json!("1000m"), json!("1"), true),
            (json!("0.5"), json!("500m"), true),
            (json!(".5"), json!("500m"), true),
            (json!(1), json!("1"), true),
            (json!(0.1), json!("100m"), true),
            (json!("1Gi"), json!("1024Mi"), true),
            (json!("1G"), json!("1Gi"), false),
            (json!("1e3"), json!("1k"), true),
            (json!("1E"), json!("1e18"), true),
            (json!("5e-1"), json!("500m"), true),
            (json!("-1"), json!("1"), false),
            (json!("12Mi"), json!("12582912"), true),
            (json!("1x"), json!("1x"), false),
            (json!(""), json!(""), false),
            (json!("9999999999999999999999999999999999999999"), json!("1"), false),
            (json!("1e99999999999"), json!("1"), false),
            (json!(true), json!("1"), false),
        ] {
            assert_eq!(is_same_quantity(&one, &other), expected, "{one} {other}");
        }
    }
}
