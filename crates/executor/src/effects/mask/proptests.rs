//! Property test that masks random values in random surrounding text, in every encoding, whole and split
//! across lines. No character of the masked text may depend on the value.

use std::ops::Range;

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;
use tidegate_model::Object;

use super::{ANYWHERE_BYTES_MIN, MASK, Mask};

/// An encoded text, and the range of the value within it.
type EncodedText = (String, Range<usize>);

fn encode_bytewise(parts: [&str; 3], encode: impl Fn(&str) -> String) -> EncodedText {
    let [before, value, after] = parts.map(encode);
    (format!("{before}{value}{after}"), before.len()..before.len() + value.len())
}

/// Encodes the parts as base64, and returns the range of characters with bits of the middle part. Each base64
/// character contains six bits.
fn encode_base64(parts: [&str; 3], engine: &impl base64::Engine) -> EncodedText {
    let [before, value, _] = parts.map(str::len);
    (engine.encode(parts.concat()), before * 8 / 6..((before + value) * 8).div_ceil(6))
}

/// Percent-encodes all characters that require it, and some that don't.
fn percent_encode(text: &str, upper: bool, every: usize) -> String {
    let encode = |(at, byte): (usize, u8)| match (byte.is_ascii_alphanumeric() && at % every != 0, upper) {
        (true, _) => char::from(byte).to_string(),
        (false, true) => format!("%{byte:02X}"),
        (false, false) => format!("%{byte:02x}"),
    };
    text.bytes().enumerate().map(encode).collect()
}

fn json_quote(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    text[1..text.len() - 1].to_owned()
}

fn json_quote_ascii(text: &str) -> String {
    let escape = |sign: char| match sign {
        '"' | '\\' => format!("\\{sign}"),
        ' '..='~' => sign.to_string(),
        _ => sign.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    text.chars().map(escape).collect()
}

fn all_encodings(parts: [&str; 3], upper: bool, every: usize) -> Vec<(&'static str, EncodedText)> {
    let hex = |text: &str| -> String {
        let hex = text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        if upper { hex.to_uppercase() } else { hex }
    };
    vec![
        ("plain", encode_bytewise(parts, str::to_owned)),
        ("percent", encode_bytewise(parts, |text| percent_encode(text, upper, every))),
        ("form", encode_bytewise(parts, |text| percent_encode(text, upper, usize::MAX).replace("%20", "+"))),
        ("hex", encode_bytewise(parts, hex)),
        ("JSON", encode_bytewise(parts, json_quote)),
        ("JSON in ASCII", encode_bytewise(parts, json_quote_ascii)),
        ("JSON twice", encode_bytewise(parts, |text| json_quote(&json_quote_ascii(text)))),
        ("base64", encode_base64(parts, &STANDARD)),
        ("base64 without padding", encode_base64(parts, &STANDARD_NO_PAD)),
        ("base64url", encode_base64(parts, &URL_SAFE)),
        ("base64url without padding", encode_base64(parts, &URL_SAFE_NO_PAD)),
    ]
}

/// Inserts a line break into the value.
fn with_line_break((text, value): &EncodedText, at: prop::sample::Index, seam: &str) -> EncodedText {
    let inside: Vec<usize> = value.clone().skip(1).filter(|at| text.is_char_boundary(*at)).collect();
    let at = *at.get(&inside);
    (format!("{}{seam}{}", &text[..at], &text[at..]), value.start..value.end + seam.len())
}

/// Checks that only the text around the value remains.
fn check_masked(mask: &Mask, what: &str, (text, value): &EncodedText) -> Result<(), TestCaseError> {
    let hidden = mask.masked(text.clone());
    let first = hidden.find(MASK);
    let last = hidden.rfind(MASK);
    let (Some(first), Some(last)) = (first, last) else {
        return Err(TestCaseError::fail(format!("{what}: {text:?} stays")));
    };
    let (before, after) = (&hidden[..first], &hidden[last + MASK.len()..]);
    prop_assert!(
        text.starts_with(before) && before.len() <= value.start,
        "{what}: the beginning of {:?} is visible: {hidden:?}",
        text
    );
    prop_assert!(
        text.ends_with(after) && after.len() <= text.len() - value.end,
        "{what}: the end of {:?} is visible: {hidden:?}",
        text
    );
    Ok(())
}

/// Generates values long enough to be recognized between other letters.
fn value_strategy() -> impl Strategy<Value = String> {
    "[!-~äß😀]([ -~äß😀]{6,40})[!-~äß😀]".prop_filter("long enough", |value| {
        value.chars().filter(|sign| !sign.is_ascii_whitespace()).count() >= ANYWHERE_BYTES_MIN
    })
}

proptest! {
    #[test]
    fn no_part_of_a_value_remains(
        value in value_strategy(),
        before in "[ -~ä]{0,20}",
        after in "[ -~ä]{0,20}",
        upper: bool,
        every in 1_usize..6,
        at: prop::sample::Index,
        seam in prop::sample::select(vec!["\n", "\r\n", "\n    ", " \n"]),
    ) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": value}});
        let mask = Mask::from_objects([&Object::try_from(secret).unwrap()]);
        for (what, encoded) in all_encodings([&before, &value, &after], upper, every) {
            check_masked(&mask, what, &encoded)?;
            check_masked(&mask, what, &with_line_break(&encoded, at, seam))?;
        }
    }
}
