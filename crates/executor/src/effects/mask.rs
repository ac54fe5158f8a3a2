//! Masking of Secret values in text from a cluster, a hook or an extension. The text is searched for Secret
//! values before it becomes an event, a notification, a message or a log line.
//!
//! The values come from the operation's own Secrets: from `stringData`, and both decoded and encoded from
//! `data`. The search also covers the values in both base64 alphabets and in hex, the lines of each value,
//! and the strings inside JSON values.
//!
//! Programs can escape any character of a value, or encode the value together with other text, as in
//! `user:value`. The search therefore covers several `views` of a text: as is, without percent signs,
//! backslashes and line breaks, and decoded from base64.
//!
//! Servers truncate long quotations, so the beginning of a long value is enough for a match. Short values are
//! masked only as whole words, and the shortest only in quotes. Masking every occurrence of a short value
//! would make texts unreadable, and the gaps would reveal the value.

mod line_mask;
#[cfg(test)]
mod proptests;
mod views;

pub use self::line_mask::LineMask;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;
use tidegate_model::Object;

use self::views::{View, for_each_view};

/// Replacement for a value, the same for all values so that it doesn't reveal their length.
pub const MASK: &str = "++++++++";

/// Minimum length of values masked without quotes, in bytes.
const UNQUOTED_BYTES_MIN: usize = 4;
/// Minimum length of values masked anywhere rather than as whole words, in bytes.
const ANYWHERE_BYTES_MIN: usize = 8;
/// Number of leading bytes that identify a longer value.
const PREFIX_BYTES: usize = 12;
/// Maximum size of a value that is also searched in rarer encodings, in bytes. Texts that can contain values
/// are never longer. A multiple of three because of base64.
const ENCODED_BYTES_MAX: usize = 48 * 1024;
/// Minimum length of a pattern in bytes: the shortest value with its quotes.
const PATTERN_BYTES_MIN: usize = 3;

/// Common words that are never masked, because they reveal nothing.
const COMMON_WORDS: [&str; 4] = ["true", "false", "null", "none"];

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Secret values of one operation.
#[derive(Clone, Default)]
pub struct Mask {
    /// Patterns by their first bytes.
    patterns: HashMap<[u8; PATTERN_BYTES_MIN], Vec<String>>,
    bytes: usize,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Mask {
    /// Creates a mask for the Secrets among the given manifests.
    pub fn from_objects<'o>(objects: impl IntoIterator<Item = &'o Object>) -> Self {
        let mut patterns = BTreeSet::new();
        for object in objects {
            if object.kind() == "Secret" && object.group().is_empty() {
                collect_values(object.as_value(), &mut patterns);
            }
        }
        let mut mask = Self::default();
        for pattern in patterns {
            if let Some(key) = pattern.as_bytes().first_chunk::<PATTERN_BYTES_MIN>() {
                mask.bytes = mask.bytes.saturating_add(pattern.len());
                mask.patterns.entry(*key).or_default().push(pattern);
            }
        }
        mask
    }

    /// Returns the mask's approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Masks all values in a text.
    pub fn apply(&self, text: &mut String) {
        for place in self.value_ranges(text).into_iter().rev() {
            text.replace_range(place, MASK);
        }
    }

    /// Returns the ranges of a text that contain values, in order and without overlaps.
    fn value_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut hidden: Vec<Range<usize>> = Vec::new();
        if self.patterns.is_empty() {
            return hidden;
        }
        for_each_view(text, &mut |view| hidden.extend(self.find_in_view(view)));
        hidden.sort_by_key(|place| place.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for Range { start, end } in hidden {
            // Extend the range to character boundaries, so that a partly matched character is masked as a
            // whole.
            let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            match merged.last_mut() {
                Some(last) if start <= last.end => last.end = end.max(last.end),
                _ => merged.push(start..end),
            }
        }
        merged
    }

    /// Returns the ranges of the original text that contain values according to a view.
    fn find_in_view(&self, view: &View) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, window) in view.bytes.windows(PATTERN_BYTES_MIN).enumerate() {
            let Ok(key) = <[u8; PATTERN_BYTES_MIN]>::try_from(window) else { continue };
            let patterns = self.patterns.get(&key).into_iter().flatten();
            let length = patterns.filter_map(|pattern| match_length(view, at, pattern.as_bytes())).max();
            found.extend(length.and_then(|length| view.original_range(at..at.saturating_add(length))));
        }
        found
    }

    /// Returns a text with all values masked, like [`Mask::apply`].
    pub fn masked(&self, mut text: String) -> String {
        self.apply(&mut text);
        text
    }
}

/// Returns the length in bytes of a pattern's match at a position in a view, if it matches.
fn match_length(view: &View, at: usize, pattern: &[u8]) -> Option<usize> {
    let rest = view.bytes.get(at..)?;
    let anywhere = pattern.len() >= ANYWHERE_BYTES_MIN;
    if rest.starts_with(pattern) {
        let word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
        let before = at.checked_sub(1).and_then(|before| view.bytes.get(before));
        let inside = word(before) || word(rest.get(pattern.len()));
        // A short value must be a separate word. In joined lines, word boundaries are unreliable.
        let is_word = !view.has_joined_lines && (pattern.starts_with(b"\"") || !inside);
        return (anywhere || is_word).then_some(pattern.len());
    }
    let common = rest.iter().zip(pattern).take_while(|(a, b)| a == b).count();
    (common >= PREFIX_BYTES).then_some(common)
}

fn collect_values(secret: &Value, patterns: &mut BTreeSet<String>) {
    let entries = |field: &str| secret.get(field).and_then(Value::as_object).into_iter().flatten();
    for (_, value) in entries("stringData") {
        match value {
            Value::String(text) => add_value(text, patterns),
            Value::Number(number) => add_value(&number.to_string(), patterns),
            _ => {}
        }
    }
    for text in entries("data").filter_map(|(_, value)| value.as_str()) {
        add_plain_value(text, patterns);
        let packed: String = text.split_ascii_whitespace().collect();
        match STANDARD.decode(packed).map(String::from_utf8) {
            Ok(Ok(decoded)) => add_value(&decoded, patterns),
            Ok(Err(binary)) => add_alphanumeric_encodings(binary.as_bytes(), patterns),
            Err(_) => {}
        }
    }
    let applied = secret.pointer("/metadata/annotations").and_then(|all| all.get(LAST_APPLIED));
    if let Some(applied) = applied.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()) {
        collect_values(&applied, patterns);
    }
}

/// Adds a value in all its encodings.
fn add_value(value: &str, patterns: &mut BTreeSet<String>) {
    add_plain_value(value, patterns);
    add_alphanumeric_encodings(value.as_bytes(), patterns);
    let trimmed = value.trim();
    if trimmed != value {
        add_plain_value(trimmed, patterns);
        add_alphanumeric_encodings(trimmed.as_bytes(), patterns);
    }
    if trimmed.contains('\n') {
        let lines = || trimmed.lines().map(str::trim);
        lines()
            .filter(|line| line.len() >= ANYWHERE_BYTES_MIN)
            .for_each(|line| add_plain_value(line, patterns));
        // Also match the value with different line breaks.
        add_plain_value(&lines().collect::<String>(), patterns);
        add_plain_value(&lines().collect::<Vec<_>>().join(" "), patterns);
    }
    if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(trimmed) {
        add_nested_values(&inner, patterns);
    }
}

/// Adds the encodings made up of letters and digits.
fn add_alphanumeric_encodings(bytes: &[u8], patterns: &mut BTreeSet<String>) {
    add_plain_value(&STANDARD.encode(bytes), patterns);
    let bytes = bytes.get(..ENCODED_BYTES_MAX).unwrap_or(bytes);
    for engine in [&STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        add_plain_value(&engine.encode(bytes), patterns);
    }
    if bytes.len() < UNQUOTED_BYTES_MIN {
        return;
    }
    add_plain_value(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), patterns);
    add_plain_value(&bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>(), patterns);
}

fn add_nested_values(value: &Value, patterns: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.len() >= ANYWHERE_BYTES_MIN => add_plain_value(text, patterns),
        Value::Array(items) => items.iter().for_each(|item| add_nested_values(item, patterns)),
        Value::Object(fields) => fields.values().for_each(|item| add_nested_values(item, patterns)),
        _ => {}
    }
}

fn add_plain_value(text: &str, patterns: &mut BTreeSet<String>) {
    if text.is_empty() || COMMON_WORDS.contains(&text) {
        return;
    }
    if text.len() < UNQUOTED_BYTES_MIN {
        patterns.insert(format!("\"{text}\""));
    } else {
        patterns.insert(text.to_owned());
    }
    // Also match the value with its lines joined.
    if text.contains(|sign: char| sign.is_ascii_whitespace()) {
        let squeezed: String = text.split_ascii_whitespace().collect();
        if squeezed.len() >= ANYWHERE_BYTES_MIN {
            patterns.insert(squeezed);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(secret: Value) -> Mask {
        Mask::from_objects([&Object::try_from(secret).unwrap()])
    }

    fn secret(data: Value, texts: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data, "stringData": texts})
    }

    #[test]
    fn values_are_masked_in_every_form() {
        let texts = json!({"password": "hunter2 \"quoted\"", "key": "-----BEGIN-----\nline-of-the-key\n-----END-----\n",
            "json": "{\"auth\": \"inner-password\"}", "port": 54321, "pin": "123", "short": "swan", "flag": "true"});
        let data = json!({"encoded": STANDARD.encode("decoded-value")});
        let mask = mask(secret(data, texts));
        for (text, expected) in [
            ("Invalid value: hunter2 \"quoted\": no", "Invalid value: ++++++++: no"),
            (r#"Invalid value: "hunter2 \"quoted\"": no"#, r#"Invalid value: "++++++++": no"#),
            ("at line-of-the-key", "at ++++++++"),
            ("auth inner-password failed", "auth ++++++++ failed"),
            ("decoded-value", "++++++++"),
            ("cannot unmarshal number 54321 into string", "cannot unmarshal number ++++++++ into string"),
            ("pin 123 of \"123\"", "pin 123 of ++++++++"),
            ("a swan, swansea, swan-lake", "a ++++++++, swansea, swan-lake"),
            ("flag true", "flag true"),
            ("nothing of it, größer", "nothing of it, größer"),
            ("größer hunter2 \"quoted\" größer", "größer ++++++++ größer"),
            // The server has truncated the quotation.
            ("value: hunter2 \"quo...", "value: ++++++++..."),
        ] {
            assert_eq!(mask.masked(text.to_owned()), expected, "{text}");
        }
        for value in ["hunter2 \"quoted\"", "decoded-value"] {
            let text = format!("illegal base64 {}", STANDARD.encode(value));
            assert_eq!(mask.masked(text), "illegal base64 ++++++++");
        }
    }

    /// Programs quote values with different escapes.
    #[test]
    fn values_are_masked_however_they_are_encoded() {
        let value = "Canary 7d41/+?<välue>\"!";
        let mask = mask(secret(json!({}), json!({"password": value})));
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let url = URL_SAFE.encode(value);
        let folded = STANDARD.encode(value);
        let (first, second) = folded.split_at(20);
        for text in [
            "Canary%207d41%2F%2B%3F%3Cv%C3%A4lue%3E%22%21",
            "Canary%207d41%2f%2b%3f%3cv%c3%a4lue%3e%22!",
            "Canary+7d41%2F%2B%3F%3Cv%C3%A4lue%3E%22%21",
            &hex,
            &hex.to_uppercase(),
            &url,
            url.trim_end_matches('='),
            &folded.replace('=', "%3D"),
            r#"Canary 7d41/+?<välue>\"!"#,
            r#"Canary 7d41\/+?\u003cv\u00e4lue\u003e\"!"#,
            r#"Canary 7d41/+?<v\xc3\xa4lue>\"!"#,
            r#"Canary 7d41/+?\\u003cv\\u00e4lue\\u003e\\\"!"#,
            "Canary 7d41/+?\n  <välue>\"!",
            "Canary\n7d41/+?<välue>\"!",
            r#"Canary 7d41/+?\n<välue>\"!"#,
            &format!("{first}\r\n{second}"),
        ] {
            let hidden = mask.masked(format!("no: {text} here"));
            assert!(hidden.starts_with("no: ++++++++") && hidden.ends_with(" here"), "{text}: {hidden}");
            assert!(hidden.len() <= "no: ++++++++ here".len() + 3, "{text}: {hidden}");
        }
        // A surrogate pair and the words around it.
        let mask =
            Mask::from_objects([
                &Object::try_from(secret(json!({}), json!({"a": "smile 😀 please"}))).unwrap()
            ]);
        assert_eq!(mask.masked(r#"a "smile \ud83d\ude00 please" b"#.to_owned()), r#"a "++++++++" b"#);
        assert_eq!(mask.masked("100% sure\n50%\\".to_owned()), "100% sure\n50%\\");
    }

    /// A request header with `Basic` and the base64 encoding of user and password.
    #[test]
    fn values_are_masked_where_they_are_packed_with_others() {
        let mask =
            mask(secret(json!({}), json!({"password": "hunter2", "long": "correct horse", "pin": "123"})));
        for packed in ["user:hunter2", "me:hunter2", "a:hunter2", "a:hunter2\n", "{\"p\":\"hunter2\"}"] {
            let text = format!("no: Basic {}, please", STANDARD.encode(packed));
            let hidden = mask.masked(text.clone());
            let (before, after) = hidden.split_once(MASK).unwrap_or_else(|| panic!("{packed}: {hidden}"));
            assert!(before.starts_with("no: Basic ") && after.ends_with(", please"), "{packed}: {hidden}");
            let shown = before.len() - "no: Basic ".len();
            assert!(STANDARD.decode(&before["no: Basic ".len()..][..shown / 4 * 4]).is_ok(), "{hidden}");
        }
        for text in ["an ordinary sentence with internationalization", "kube-system/coredns-7db6d8ff4d-x2x9z"]
        {
            assert_eq!(mask.masked(text.to_owned()), text);
        }
    }

    #[test]
    fn common_words_and_short_values_are_not_masked() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "plain-value"}});
        assert_eq!(mask(config).masked("plain-value".to_owned()), "plain-value");
        let other = json!({"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {"name": "c"}, "data": {"a": "plain-value"}});
        assert_eq!(mask(other).masked("plain-value".to_owned()), "plain-value");
    }

    #[test]
    fn the_last_applied_annotation_reveals_nothing() {
        let applied = secret(json!({}), json!({"old": "older-password"})).to_string();
        let with = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "s", "annotations": {LAST_APPLIED: applied}}});
        assert_eq!(mask(with).masked("older-password".to_owned()), MASK);
    }

    #[test]
    fn overlapping_values_become_one_mask() {
        let mask = mask(secret(json!({}), json!({"a": "abcdefghij", "b": "hijklmnopq"})));
        assert_eq!(mask.masked("abcdefghijklmnopq".to_owned()), MASK);
        assert!(!format!("{mask:?}").contains("abcdefghij"));
    }
}
