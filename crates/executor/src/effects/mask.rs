//! Values of Secrets never leave in words: whatever text comes back from a cluster, a hook or an extension is searched
//! for them before it becomes a fact, an event, a message or a line of a log.
//!
//! Known are the values of the operation's own Secrets: as they stand in `stringData`, decoded and encoded in `data`,
//! quoted as JSON quotes them, line by line, and the texts inside values that are JSON themselves. Long values are found
//! by their beginning as well, because servers cut what they quote. Of the shortest, masking every occurrence would make
//! texts unreadable and tell the value by its absence: they are masked as whole words, the very shortest in quotes.

use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tidegate_model::Object;

/// What stands in the place of a value: always the same, so that not even its length shows.
pub const MASK: &str = "++++++++";

/// Values shorter than this are masked only in quotes.
const WORD_BYTES: usize = 4;
/// Values shorter than this are masked only as whole words.
const ANYWHERE_BYTES: usize = 8;
/// Of longer values so much of the beginning gives them away.
const BEGINNING_BYTES: usize = 12;
/// Every pattern has at least this many bytes: the shortest value and its quotes.
const KEY_BYTES: usize = 3;

/// Words that stand everywhere and hide nothing.
const PLAIN: [&str; 4] = ["true", "false", "null", "none"];

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The values of the Secrets of one operation.
#[derive(Clone, Default)]
pub struct Mask {
    /// By their first bytes.
    patterns: HashMap<[u8; KEY_BYTES], Vec<String>>,
    bytes: usize,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Mask {
    /// Of the Secrets among some manifests.
    pub fn of<'o>(objects: impl IntoIterator<Item = &'o Object>) -> Self {
        let mut patterns = BTreeSet::new();
        for object in objects {
            if object.kind() == "Secret" && object.group().is_empty() {
                collect(object.as_value(), &mut patterns);
            }
        }
        let mut mask = Self::default();
        for pattern in patterns {
            if let Some(key) = pattern.as_bytes().first_chunk::<KEY_BYTES>() {
                mask.bytes = mask.bytes.saturating_add(pattern.len());
                mask.patterns.entry(*key).or_default().push(pattern);
            }
        }
        mask
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Masks all values in a text.
    pub fn hide(&self, text: &mut String) {
        if self.patterns.is_empty() {
            return;
        }
        let mut hidden: Vec<(usize, usize)> = Vec::new();
        for (at, window) in text.as_bytes().windows(KEY_BYTES).enumerate() {
            let Ok(key) = <[u8; KEY_BYTES]>::try_from(window) else { continue };
            let found = self.patterns.get(&key).into_iter().flatten();
            let Some(length) = found.filter_map(|pattern| matched(text, at, pattern)).max() else { continue };
            let end = at.saturating_add(length);
            match hidden.last_mut() {
                Some((_, last)) if at <= *last => *last = end.max(*last),
                _ => hidden.push((at, end)),
            }
        }
        for (from, to) in hidden.into_iter().rev() {
            // Patterns begin and end with whole characters.
            if text.is_char_boundary(from) && text.is_char_boundary(to) {
                text.replace_range(from..to, MASK);
            }
        }
    }

    /// As [`Mask::hide`], for a text that is given away.
    pub fn hidden(&self, mut text: String) -> String {
        self.hide(&mut text);
        text
    }
}

/// How many bytes of the text a pattern covers from a place on.
fn matched(text: &str, at: usize, pattern: &str) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.starts_with(pattern) {
        let end = at.saturating_add(pattern.len());
        let word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
        let bytes = text.as_bytes();
        let inside = word(at.checked_sub(1).and_then(|before| bytes.get(before))) || word(bytes.get(end));
        return (pattern.len() >= ANYWHERE_BYTES || pattern.starts_with('"') || !inside)
            .then_some(pattern.len());
    }
    let common: usize =
        rest.chars().zip(pattern.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    (common >= BEGINNING_BYTES).then_some(common)
}

fn collect(secret: &Value, patterns: &mut BTreeSet<String>) {
    let entries = |field: &str| secret.get(field).and_then(Value::as_object).into_iter().flatten();
    for (_, value) in entries("stringData") {
        match value {
            Value::String(text) => add(text, patterns),
            Value::Number(number) => add(&number.to_string(), patterns),
            _ => {}
        }
    }
    for text in entries("data").filter_map(|(_, value)| value.as_str()) {
        add_plain(text, patterns);
        let packed: String = text.split_ascii_whitespace().collect();
        if let Some(decoded) = STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
            add(&decoded, patterns);
        }
    }
    let applied = secret.pointer("/metadata/annotations").and_then(|all| all.get(LAST_APPLIED));
    if let Some(applied) = applied.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()) {
        collect(&applied, patterns);
    }
}

/// A value in all its forms.
fn add(value: &str, patterns: &mut BTreeSet<String>) {
    add_plain(value, patterns);
    add_plain(&STANDARD.encode(value), patterns);
    let trimmed = value.trim();
    add_plain(trimmed, patterns);
    if trimmed.contains('\n') {
        trimmed
            .lines()
            .map(str::trim)
            .filter(|line| line.len() >= ANYWHERE_BYTES)
            .for_each(|line| add_plain(line, patterns));
    }
    if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(trimmed) {
        add_inner(&inner, patterns);
    }
}

fn add_inner(value: &Value, patterns: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.len() >= ANYWHERE_BYTES => add_plain(text, patterns),
        Value::Array(items) => items.iter().for_each(|item| add_inner(item, patterns)),
        Value::Object(fields) => fields.values().for_each(|item| add_inner(item, patterns)),
        _ => {}
    }
}

fn add_plain(text: &str, patterns: &mut BTreeSet<String>) {
    if text.is_empty() || PLAIN.contains(&text) {
        return;
    }
    // As JSON and Go quote it.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    if text.len() < WORD_BYTES {
        patterns.insert(quoted);
        return;
    }
    if escaped != text {
        patterns.insert(escaped.to_owned());
    }
    patterns.insert(text.to_owned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(secret: Value) -> Mask {
        Mask::of([&Object::try_from(secret).unwrap()])
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
            // Cut by the server.
            ("value: hunter2 \"quo...", "value: ++++++++..."),
        ] {
            assert_eq!(mask.hidden(text.to_owned()), expected, "{text}");
        }
        for value in ["hunter2 \"quoted\"", "decoded-value"] {
            let text = format!("illegal base64 {}", STANDARD.encode(value));
            assert_eq!(mask.hidden(text), "illegal base64 ++++++++");
        }
    }

    #[test]
    fn what_is_no_secret_hides_nothing() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "plain-value"}});
        assert_eq!(mask(config).hidden("plain-value".to_owned()), "plain-value");
        let other = json!({"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {"name": "c"}, "data": {"a": "plain-value"}});
        assert_eq!(mask(other).hidden("plain-value".to_owned()), "plain-value");
    }

    #[test]
    fn the_last_applied_annotation_gives_nothing_away() {
        let applied = secret(json!({}), json!({"old": "older-password"})).to_string();
        let with = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "s", "annotations": {LAST_APPLIED: applied}}});
        assert_eq!(mask(with).hidden("older-password".to_owned()), MASK);
    }

    #[test]
    fn overlapping_values_become_one_mask() {
        let mask = mask(secret(json!({}), json!({"a": "abcdefghij", "b": "hijklmnopq"})));
        assert_eq!(mask.hidden("abcdefghijklmnopq".to_owned()), MASK);
        assert!(!format!("{mask:?}").contains("abcdefghij"));
    }
}
