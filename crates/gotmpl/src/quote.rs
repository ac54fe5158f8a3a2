//! Quoting and unquoting of Go strings.

use std::fmt::Write as _;

/// Quotes a string like Go's `%q`.
pub(crate) fn quote_string(text: &str) -> String {
    quote_with(text, '"', false)
}

/// Quotes a string like Go's `%+q`.
pub(crate) fn quote_string_ascii(text: &str) -> String {
    quote_with(text, '"', true)
}

/// Quotes a character like Go's `%q`.
pub(crate) fn quote_char(character: char) -> String {
    quote_with(&character.to_string(), '\'', false)
}

/// Quotes a character like Go's `%+q`.
pub(crate) fn quote_char_ascii(character: char) -> String {
    quote_with(&character.to_string(), '\'', true)
}

fn quote_with(text: &str, quote: char, is_ascii: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            _ if character == quote => {
                quoted.push('\\');
                quoted.push(quote);
            }
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            _ if is_printable(character) && (character.is_ascii() || !is_ascii) => quoted.push(character),
            _ => push_escape(&mut quoted, character),
        }
    }
    quoted.push(quote);
    quoted
}

fn push_escape(quoted: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match code {
        0..=0x7f => write!(quoted, "\\x{code:02x}"),
        0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

fn is_printable(character: char) -> bool {
    match character {
        ' ' => true,
        // All characters other than letters, marks, numbers, punctuation and symbols: control characters,
        // spaces, format characters and private-use characters.
        '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => false,
        _ => !character.is_control() && !character.is_whitespace(),
    }
}

/// Unquotes a string, a raw string or a character literal. Returns `None` if Go rejects the literal.
pub(crate) fn unquote(literal: &str) -> Option<String> {
    let mut characters = literal.chars();
    let quote = characters.next()?;
    let inner = characters.as_str().strip_suffix(quote)?;
    if quote == '`' {
        return Some(inner.replace('\r', ""));
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        if character == '\\' {
            escape(&mut rest, quote, &mut bytes)?;
        } else if character == '\n' {
            return None;
        } else {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

fn escape(rest: &mut std::str::Chars<'_>, quote: char, bytes: &mut Vec<u8>) -> Option<()> {
    let character = match rest.next()? {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        same if same == quote => quote,
        'x' => {
            bytes.push(u8::try_from(digits(rest, 2, 16, 0)?).ok()?);
            return Some(());
        }
        first @ '0'..='7' => {
            bytes.push(u8::try_from(digits(rest, 2, 8, first.to_digit(8)?)?).ok()?);
            return Some(());
        }
        'u' => char::from_u32(digits(rest, 4, 16, 0)?)?,
        'U' => char::from_u32(digits(rest, 8, 16, 0)?)?,
        _ => return None,
    };
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32, start: u32) -> Option<u32> {
    (0..count)
        .try_fold(start, |value, _| value.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))
}
