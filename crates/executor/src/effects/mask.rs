//! Values of Secrets never leave in words: whatever text comes back from a cluster, a hook or an extension is searched
//! for them before it becomes a fact, an event, a message or a line of a log.
//!
//! Known are the values of the operation's own Secrets: as they stand in `stringData`, decoded and encoded in `data`,
//! in base64 of either alphabet and in hex, line by line, and the texts inside values that are JSON themselves. They are
//! searched for in the text as it stands, and as it reads without percent signs, backslashes and line breaks, and out of
//! base64 (`views`): whoever quotes a value may write any of its characters in another way, and pack it with others, as
//! `user:value`. Long values are found
//! by their beginning as well, because servers cut what they quote. Of the shortest, masking every occurrence would make
//! texts unreadable and tell the value by its absence: they are masked as whole words, the very shortest in quotes.

mod lines;
#[cfg(test)]
mod trials;
mod views;

pub use self::lines::LineMask;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;
use tidegate_model::Object;

use self::views::{View, each_view};

/// What stands in the place of a value: always the same, so that not even its length shows.
pub const MASK: &str = "++++++++";

/// Values shorter than this are masked only in quotes.
const WORD_BYTES: usize = 4;
/// Values shorter than this are masked only as whole words.
const ANYWHERE_BYTES: usize = 8;
/// Of longer values so much of the beginning gives them away.
const BEGINNING_BYTES: usize = 12;
/// So much of a value is known in its rarer forms: no text that comes back shows more. Base64 packs three at a time.
const PACKED_BYTES: usize = 48 * 1024;
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
        for place in self.places(text).into_iter().rev() {
            text.replace_range(place, MASK);
        }
    }

    /// Where a text shows values, in order and apart from each other.
    fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut hidden: Vec<Range<usize>> = Vec::new();
        if self.patterns.is_empty() {
            return hidden;
        }
        each_view(text, &mut |view| hidden.extend(self.found(view)));
        hidden.sort_by_key(|place| place.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for Range { start, end } in hidden {
            // A character of which a part was found goes as a whole.
            let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            match merged.last_mut() {
                Some(last) if start <= last.end => last.end = end.max(last.end),
                _ => merged.push(start..end),
            }
        }
        merged
    }

    /// Where in the text a reading of it shows a value.
    fn found(&self, view: &View) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, window) in view.bytes.windows(KEY_BYTES).enumerate() {
            let Ok(key) = <[u8; KEY_BYTES]>::try_from(window) else { continue };
            let patterns = self.patterns.get(&key).into_iter().flatten();
            let length = patterns.filter_map(|pattern| matched(view, at, pattern.as_bytes())).max();
            found.extend(length.and_then(|length| view.place(at..at.saturating_add(length))));
        }
        found
    }

    /// As [`Mask::hide`], for a text that is given away.
    pub fn hidden(&self, mut text: String) -> String {
        self.hide(&mut text);
        text
    }
}

/// How many bytes of a reading a pattern covers from a place on.
fn matched(view: &View, at: usize, pattern: &[u8]) -> Option<usize> {
    let rest = view.bytes.get(at..)?;
    let anywhere = pattern.len() >= ANYWHERE_BYTES;
    if rest.starts_with(pattern) {
        let word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
        let before = at.checked_sub(1).and_then(|before| view.bytes.get(before));
        let inside = word(before) || word(rest.get(pattern.len()));
        // Where lines were put together, a short word proves nothing.
        let is_word = !view.joined && (pattern.starts_with(b"\"") || !inside);
        return (anywhere || is_word).then_some(pattern.len());
    }
    let common = rest.iter().zip(pattern).take_while(|(a, b)| a == b).count();
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
        match STANDARD.decode(packed).map(String::from_utf8) {
            Ok(Ok(decoded)) => add(&decoded, patterns),
            Ok(Err(binary)) => add_packed(binary.as_bytes(), patterns),
            Err(_) => {}
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
    add_packed(value.as_bytes(), patterns);
    let trimmed = value.trim();
    if trimmed != value {
        add_plain(trimmed, patterns);
        add_packed(trimmed.as_bytes(), patterns);
    }
    if trimmed.contains('\n') {
        let lines = || trimmed.lines().map(str::trim);
        lines().filter(|line| line.len() >= ANYWHERE_BYTES).for_each(|line| add_plain(line, patterns));
        // As it reads in other lines.
        add_plain(&lines().collect::<String>(), patterns);
        add_plain(&lines().collect::<Vec<_>>().join(" "), patterns);
    }
    if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(trimmed) {
        add_inner(&inner, patterns);
    }
}

/// Bytes as they are written where only letters and digits may stand.
fn add_packed(bytes: &[u8], patterns: &mut BTreeSet<String>) {
    add_plain(&STANDARD.encode(bytes), patterns);
    let bytes = bytes.get(..PACKED_BYTES).unwrap_or(bytes);
    for engine in [&STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        add_plain(&engine.encode(bytes), patterns);
    }
    if bytes.len() < WORD_BYTES {
        return;
    }
    add_plain(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), patterns);
    add_plain(&bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>(), patterns);
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
    if text.len() < WORD_BYTES {
        patterns.insert(format!("\"{text}\""));
    } else {
        patterns.insert(text.to_owned());
    }
    // As it reads where lines were put together.
    if text.contains(|sign: char| sign.is_ascii_whitespace()) {
        let squeezed: String = text.split_ascii_whitespace().collect();
        if squeezed.len() >= ANYWHERE_BYTES {
            patterns.insert(squeezed);
        }
    }
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

    /// Whoever quotes a value may write it in another way.
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
            let hidden = mask.hidden(format!("no: {text} here"));
            assert!(hidden.starts_with("no: ++++++++") && hidden.ends_with(" here"), "{text}: {hidden}");
            assert!(hidden.len() <= "no: ++++++++ here".len() + 3, "{text}: {hidden}");
        }
        // A surrogate pair, and the words around it.
        let mask = Mask::of([&Object::try_from(secret(json!({}), json!({"a": "smile 😀 please"}))).unwrap()]);
        assert_eq!(mask.hidden(r#"a "smile \ud83d\ude00 please" b"#.to_owned()), r#"a "++++++++" b"#);
        assert_eq!(mask.hidden("100% sure\n50%\\".to_owned()), "100% sure\n50%\\");
    }

    /// As in the header of a request: `Basic` and base64 of user and password.
    #[test]
    fn values_are_masked_where_they_are_packed_with_others() {
        let mask =
            mask(secret(json!({}), json!({"password": "hunter2", "long": "correct horse", "pin": "123"})));
        for packed in ["user:hunter2", "me:hunter2", "a:hunter2", "a:hunter2\n", "{\"p\":\"hunter2\"}"] {
            let text = format!("no: Basic {}, please", STANDARD.encode(packed));
            let hidden = mask.hidden(text.clone());
            let (before, after) = hidden.split_once(MASK).unwrap_or_else(|| panic!("{packed}: {hidden}"));
            assert!(before.starts_with("no: Basic ") && after.ends_with(", please"), "{packed}: {hidden}");
            let shown = before.len() - "no: Basic ".len();
            assert!(STANDARD.decode(&before["no: Basic ".len()..][..shown / 4 * 4]).is_ok(), "{hidden}");
        }
        for text in ["an ordinary sentence with internationalization", "kube-system/coredns-7db6d8ff4d-x2x9z"]
        {
            assert_eq!(mask.hidden(text.to_owned()), text);
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
