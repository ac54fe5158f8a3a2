//! Functions for JSON, base64, base32 and digests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::Digest as _;

use super::{Builtin, Ty, at, fixed, str_at, text_of};
use crate::value::Val;

const ANY: &[Ty] = &[Ty::Any];
const STR: &[Ty] = &[Ty::Str];

pub(super) const SPRIG: &[Builtin] = &[
    fixed("toJson", ANY, |_, values| Ok(Val::str(to_json(at(values, 0), None, true).unwrap_or_default()))),
    fixed("mustToJson", ANY, |_, values| to_json(at(values, 0), None, true).map(Val::str)),
    fixed("toRawJson", ANY, |_, values| {
        Ok(Val::str(to_json(at(values, 0), None, false).unwrap_or_default()))
    }),
    fixed("mustToRawJson", ANY, |_, values| to_json(at(values, 0), None, false).map(Val::str)),
    fixed("toPrettyJson", ANY, |_, values| {
        Ok(Val::str(to_json(at(values, 0), Some(0), true).unwrap_or_default()))
    }),
    fixed("mustToPrettyJson", ANY, |_, values| to_json(at(values, 0), Some(0), true).map(Val::str)),
    fixed("fromJson", STR, |_, values| Ok(read_json(str_at(values, 0)).map_or(Val::Nil, |(value, _)| value))),
    fixed("mustFromJson", STR, |_, values| match read_json(str_at(values, 0))? {
        (_, Some(number)) => {
            Err(format!("json: cannot unmarshal number {number} into Go value of type float64"))
        }
        (value, None) => Ok(value),
    }),
    fixed("b64enc", STR, |_, values| Ok(Val::str(STANDARD.encode(str_at(values, 0))))),
    fixed("b64dec", STR, |_, values| Ok(Val::str(decode_base64(str_at(values, 0))))),
    fixed("b32enc", STR, |_, values| Ok(Val::str(base32(str_at(values, 0).as_bytes())))),
    fixed("b32dec", STR, |_, values| Ok(Val::str(decode_base32(str_at(values, 0))))),
    fixed("sha1sum", STR, |_, values| Ok(Val::str(hex(&sha1::Sha1::digest(str_at(values, 0)))))),
    fixed("sha256sum", STR, |_, values| Ok(Val::str(hex(&sha2::Sha256::digest(str_at(values, 0)))))),
    fixed("sha512sum", STR, |_, values| Ok(Val::str(hex(&sha2::Sha512::digest(str_at(values, 0)))))),
    fixed("adler32sum", STR, |_, values| Ok(Val::str(adler32(str_at(values, 0).as_bytes()).to_string()))),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

/// Parses JSON. Returns the value and the first number too large for a float. As in Go, such numbers become
/// 0.
fn read_json(text: &str) -> Result<(Val, Option<String>), String> {
    let error = match serde_json::from_str::<Value>(text) {
        Ok(value) => return Ok((Val::from_json(&value), None)),
        Err(error) => error.to_string(),
    };
    let (text, too_large) = without_large_numbers(text);
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if too_large.is_some() => Ok((Val::from_json(&value), too_large)),
        _ => Err(error),
    }
}

/// Replaces each number too large for a float with 0, and returns the first of them.
fn without_large_numbers(text: &str) -> (String, Option<String>) {
    let mut kept = String::new();
    let mut first = None;
    let mut in_text = false;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let is_number = !in_text && (next == '-' || next.is_ascii_digit());
        let length = match next {
            '\\' if in_text => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ if is_number => rest
                .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
                .unwrap_or(rest.len()),
            _ => next.len_utf8(),
        };
        in_text ^= next == '"';
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let is_good = |token: &str| serde_json::from_str::<Value>(token).is_ok();
        if is_number && token.parse().is_ok_and(f64::is_infinite) && !is_good(token) {
            first.get_or_insert_with(|| token.to_owned());
            kept.push('0');
        } else {
            kept.push_str(token);
        }
        rest = after;
    }
    (kept, first)
}

/// Formats a value as JSON like Go, with sorted keys. `escape` selects whether HTML characters are escaped.
fn to_json(value: &Val, level: Option<usize>, escape: bool) -> Result<String, String> {
    let mut text = String::new();
    push_json(&mut text, value, level, escape, 0)?;
    Ok(text)
}

fn push_json(
    text: &mut String,
    value: &Val,
    level: Option<usize>,
    escape: bool,
    depth: usize,
) -> Result<(), String> {
    if depth > crate::MAX_DEPTH {
        return Err("json: unsupported value: encountered a cycle".to_owned());
    }
    let inner = level.map(|level| level + 1);
    match value {
        Val::Absent | Val::Nil => text.push_str("null"),
        Val::List(_) if value.is_nil_list() => text.push_str("null"),
        Val::Float(number) => text.push_str(&json_float(*number)?),
        Val::Bool(_) | Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
            text.push_str(&text_of(value))
        }
        Val::Str(_) | Val::Time(_) | Val::Version(_) => {
            let words = match value {
                Val::Time(time) => time.rfc3339(),
                other => text_of(other),
            };
            push_text(text, &words, escape);
        }
        Val::List(list) => {
            text.push('[');
            for (number, item) in list.items.iter().enumerate() {
                push_separator(text, number, inner);
                push_json(text, item, inner, escape, depth + 1)?;
            }
            push_close(text, list.items.is_empty(), level, ']');
        }
        Val::Map(map) => {
            text.push('{');
            let entries = map.entries();
            for (number, (key, item)) in entries.iter().enumerate() {
                push_separator(text, number, inner);
                push_text(text, key, escape);
                text.push_str(if level.is_some() { ": " } else { ":" });
                push_json(text, item, inner, escape, depth + 1)?;
            }
            push_close(text, entries.is_empty(), level, '}');
        }
    }
    Ok(())
}

fn push_separator(text: &mut String, number: usize, level: Option<usize>) {
    if number > 0 {
        text.push(',');
    }
    push_line_break(text, level);
}

fn push_close(text: &mut String, is_empty: bool, level: Option<usize>, end: char) {
    if !is_empty {
        push_line_break(text, level);
    }
    text.push(end);
}

fn push_line_break(text: &mut String, level: Option<usize>) {
    if let Some(level) = level {
        text.push('\n');
        text.push_str(&"  ".repeat(level));
    }
}

fn push_text(text: &mut String, words: &str, escape: bool) {
    text.push('"');
    for character in words.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x08' => text.push_str("\\b"),
            '\x0c' => text.push_str("\\f"),
            '<' | '>' | '&' if escape => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Formats a number like Go's JSON encoder, which uses JavaScript's number format.
fn json_float(number: f64) -> Result<String, String> {
    if !number.is_finite() {
        return Err(format!("json: unsupported value: {}", crate::format::float(number)));
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = crate::format::scientific(size);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        let minus = if number < 0.0 { "-" } else { "" };
        return Ok(format!("{minus}{digits}e{sign}{exponent}"));
    }
    Ok(crate::format::without_exponent(number))
}

/// Decodes base64. For invalid input, returns Go's error message as the result, as sprig does.
fn decode_base64(text: &str) -> String {
    let clean: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    match STANDARD.decode(&clean) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol { offset: at, .. },
        ) => {
            format!("illegal base64 data at input byte {at}")
        }
        Err(_) => format!("illegal base64 data at input byte {}", clean.len() / 4 * 4),
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunks(5) {
        let bits =
            part.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte)) << (8 * (5 - part.len()));
        let digits = (part.len() * 8).div_ceil(5);
        for digit in 0..8 {
            let index = usize::try_from(bits >> (35 - 5 * digit) & 31).unwrap_or_default();
            let letter = BASE32.get(index).copied().map_or('=', char::from);
            text.push(if digit < digits { letter } else { '=' });
        }
    }
    text
}

fn decode_base32(text: &str) -> String {
    let clean: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let data = clean.iter().position(|byte| *byte == b'=').unwrap_or(clean.len());
    let (digits, padding) = clean.split_at(data);
    let bad = |at: usize| format!("illegal base32 data at input byte {at}");
    if let Some(at) = digits.iter().position(|byte| !BASE32.contains(byte)) {
        return bad(at);
    }
    if padding.is_empty() && !digits.len().is_multiple_of(8) {
        // Go reports the start of the last group as the position of the error.
        return bad(digits.len() / 8 * 8);
    }
    if !clean.len().is_multiple_of(8) || padding.len() >= 8 || padding.iter().any(|byte| *byte != b'=') {
        return bad(data);
    }
    let mut bytes = Vec::new();
    for part in digits.chunks(8) {
        let value = |byte: &u8| BASE32.iter().position(|known| known == byte).unwrap_or_default();
        let bits =
            part.iter().fold(0_u64, |bits, byte| bits << 5 | u64::try_from(value(byte)).unwrap_or_default());
        let bits = bits << (5 * (8 - part.len()));
        let whole = part.len() * 5 / 8;
        bytes.extend(bits.to_be_bytes().into_iter().skip(3).take(whole));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
