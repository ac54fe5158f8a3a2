//! JSON, told apart from YAML only where YAML cannot read it.
//!
//! Nearly all JSON is YAML, so manifests in JSON take the same way and get the same lines. What YAML refuses is white
//! space made of tabs, escapes that write one character as two (`\ud83d\ude00`), and several values in a row.

use serde::de::IgnoredAny;

/// One JSON value, rewritten so that YAML can read it, with line breaks where they were.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonValue {
    pub text: String,
    /// How many lines of the document come before it.
    pub lines_before: u64,
}

/// A JSON syntax error: its line, from 1, and its words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonError {
    pub line: u64,
    pub message: String,
}

/// Reads a text as a row of JSON values.
pub(super) fn values(text: &str) -> Result<Vec<JsonValue>, JsonError> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut values = Vec::new();
    let mut start = 0;
    while let Some(value) = stream.next() {
        value.map_err(|error| explain(&error))?;
        let end = stream.byte_offset();
        let before = text.get(..start).unwrap_or_default();
        let lines_before = u64::try_from(before.matches('\n').count()).unwrap_or(u64::MAX);
        values.push(JsonValue { text: rewrite(text.get(start..end).unwrap_or_default()), lines_before });
        start = end;
    }
    Ok(values)
}

fn explain(error: &serde_json::Error) -> JsonError {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
    JsonError { line: u64::try_from(error.line()).unwrap_or(u64::MAX).max(1), message }
}

/// Tabs between tokens become spaces, and pairs of surrogate escapes the character they stand for.
fn rewrite(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '"' => {
                in_string = !in_string;
                text.push(c);
            }
            '\t' if !in_string => text.push(' '),
            '\\' if in_string => {
                let (length, character) = escape_sequence(rest);
                taken = length;
                match character {
                    Some(character) => text.push(character),
                    None => text.push_str(rest.get(..length).unwrap_or_default()),
                }
            }
            _ => text.push(c),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    text
}

/// Length of the escape at the start of a text, and its character when it is a pair of surrogates.
fn escape_sequence(text: &str) -> (usize, Option<char>) {
    const SINGLE: usize = 6;
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(high) = unit(text) else {
        let length = text.chars().take(2).map(char::len_utf8).sum();
        return (length, None);
    };
    let low = text.get(SINGLE..).and_then(unit);
    let pair =
        low.and_then(|low| char::decode_utf16([high, low]).next()?.ok()).filter(|c| c.len_utf16() == 2);
    match pair {
        Some(character) => (SINGLE * 2, Some(character)),
        None => (SINGLE, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_and_surrogates_become_readable_and_lines_stay() {
        let values = values("{\n\t\"a\\t\\\"\":\t\"\\ud83d\\ude00\\n\"}\n{\"b\": 1}").unwrap();
        assert_eq!(values[0], JsonValue { text: "{\n \"a\\t\\\"\": \"😀\\n\"}".to_owned(), lines_before: 0 });
        assert_eq!(values[1], JsonValue { text: "\n{\"b\": 1}".to_owned(), lines_before: 1 });
    }

    #[test]
    fn errors_have_a_line_and_no_position_in_their_words() {
        let error = values("{\n \"a\": x}").unwrap_err();
        assert_eq!(error, JsonError { line: 2, message: "expected value".to_owned() });
    }
}
