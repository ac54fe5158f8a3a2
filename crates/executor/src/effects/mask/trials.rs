//! Random values in random surroundings, in every encoding, whole and broken over lines: no character that depends on the
//! value stays.

use std::ops::Range;

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;
use tidegate_model::Object;

use super::{ANYWHERE_BYTES, MASK, Mask};

/// How a text comes back: itself, and where in it the value is.
type Encoded = (String, Range<usize>);

fn bytewise(parts: [&str; 3], encode: impl Fn(&str) -> String) -> Encoded {
    let [before, value, after] = parts.map(encode);
    (format!("{before}{value}{after}"), before.len()..before.len() + value.len())
}

/// Letters of base64 hold six bits each.
fn packed(parts: [&str; 3], engine: &impl base64::Engine) -> Encoded {
    let [before, value, _] = parts.map(str::len);
    (engine.encode(parts.concat()), before * 8 / 6..((before + value) * 8).div_ceil(6))
}

/// Percent signs for what needs them, and here and there for what does not.
fn percent(text: &str, upper: bool, every: usize) -> String {
    let encode = |(at, byte): (usize, u8)| match (byte.is_ascii_alphanumeric() && at % every != 0, upper) {
        (true, _) => char::from(byte).to_string(),
        (false, true) => format!("%{byte:02X}"),
        (false, false) => format!("%{byte:02x}"),
    };
    text.bytes().enumerate().map(encode).collect()
}

fn quoted(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    text[1..text.len() - 1].to_owned()
}

fn ascii_quoted(text: &str) -> String {
    let escape = |sign: char| match sign {
        '"' | '\\' => format!("\\{sign}"),
        ' '..='~' => sign.to_string(),
        _ => sign.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    text.chars().map(escape).collect()
}

fn encoded(parts: [&str; 3], upper: bool, every: usize) -> Vec<(&'static str, Encoded)> {
    let hex = |text: &str| -> String {
        let hex = text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        if upper { hex.to_uppercase() } else { hex }
    };
    vec![
        ("plain", bytewise(parts, str::to_owned)),
        ("percent", bytewise(parts, |text| percent(text, upper, every))),
        ("form", bytewise(parts, |text| percent(text, upper, usize::MAX).replace("%20", "+"))),
        ("hex", bytewise(parts, hex)),
        ("JSON", bytewise(parts, quoted)),
        ("JSON in ASCII", bytewise(parts, ascii_quoted)),
        ("JSON twice", bytewise(parts, |text| quoted(&ascii_quoted(text)))),
        ("base64", packed(parts, &STANDARD)),
        ("base64 without padding", packed(parts, &STANDARD_NO_PAD)),
        ("base64url", packed(parts, &URL_SAFE)),
        ("base64url without padding", packed(parts, &URL_SAFE_NO_PAD)),
    ]
}

/// Puts a line break into the value.
fn broken((text, value): &Encoded, at: prop::sample::Index, seam: &str) -> Encoded {
    let inside: Vec<usize> = value.clone().skip(1).filter(|at| text.is_char_boundary(*at)).collect();
    let at = *at.get(&inside);
    (format!("{}{seam}{}", &text[..at], &text[at..]), value.start..value.end + seam.len())
}

/// What is left is what was around the value.
fn check(mask: &Mask, what: &str, (text, value): &Encoded) -> Result<(), TestCaseError> {
    let hidden = mask.hidden(text.clone());
    let first = hidden.find(MASK);
    let last = hidden.rfind(MASK);
    let (Some(first), Some(last)) = (first, last) else {
        return Err(TestCaseError::fail(format!("{what}: {text:?} stays")));
    };
    let (before, after) = (&hidden[..first], &hidden[last + MASK.len()..]);
    prop_assert!(
        text.starts_with(before) && before.len() <= value.start,
        "{what}: the beginning of {:?} stays: {hidden:?}",
        text
    );
    prop_assert!(
        text.ends_with(after) && after.len() <= text.len() - value.end,
        "{what}: the end of {:?} stays: {hidden:?}",
        text
    );
    Ok(())
}

/// Long enough to be found among other letters.
fn value() -> impl Strategy<Value = String> {
    "[!-~äß😀]([ -~äß😀]{6,40})[!-~äß😀]".prop_filter("long enough", |value| {
        value.chars().filter(|sign| !sign.is_ascii_whitespace()).count() >= ANYWHERE_BYTES
    })
}

proptest! {
    #[test]
    fn nothing_of_a_value_stays(
        value in value(),
        before in "[ -~ä]{0,20}",
        after in "[ -~ä]{0,20}",
        upper: bool,
        every in 1_usize..6,
        at: prop::sample::Index,
        seam in prop::sample::select(vec!["\n", "\r\n", "\n    ", " \n"]),
    ) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": value}});
        let mask = Mask::of([&Object::try_from(secret).unwrap()]);
        for (what, encoded) in encoded([&before, &value, &after], upper, every) {
            check(&mask, what, &encoded)?;
            check(&mask, what, &broken(&encoded, at, seam))?;
        }
    }
}
