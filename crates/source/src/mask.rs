//! Values stay out of what Helm and Kustomize say of what cannot be made: they may quote any of them, and what they say is shown to
//! everybody who sees the application.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// What stands in the place of a value: always the same, so that not even its length shows.
const MASK: &str = "++++++++";
/// Shorter values are too common to be told from other words.
const WORD_BYTES: usize = 4;
/// Shorter values are masked as whole words only.
const ANYWHERE_BYTES: usize = 8;
/// Words that stand everywhere and hide nothing.
const PLAIN: [&str; 11] = [
    "true",
    "false",
    "null",
    "none",
    "error",
    "template",
    "templates",
    "chart",
    "charts",
    "values",
    "execution",
];

/// The kind whose objects hold nothing but secrets.
const SECRET: &str = "Secret";
/// A kustomization makes such objects of what is below this field.
const GENERATOR: &str = "secretGenerator";
/// What a text has in it that has either, in whatever spelling.
const MENTION: &str = "ecret";
/// Parts of the names of values that hold secrets by themselves.
const TELLING: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey"];
/// Manifests inside of manifests are looked into so deeply.
const DEPTH_MAX: usize = 3;

/// Values that are not to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    known: BTreeSet<String>,
    /// Files that hold others, by their names without folders.
    files: BTreeSet<String>,
}

impl Values {
    /// Adds a text, which may have several lines: each may be quoted by itself.
    pub fn add(&mut self, text: &str) {
        let is_telling = |line: &&str| line.len() >= WORD_BYTES && !PLAIN.contains(line);
        self.known.extend(text.lines().map(str::trim).filter(is_telling).map(str::to_owned));
    }

    /// A text that everybody may see.
    pub fn spare(&mut self, text: &str) {
        self.known.remove(text);
    }

    /// The names of a file and of its folders, which say where something is wrong.
    pub fn spare_path(&mut self, path: &str) {
        for part in path.split('/') {
            self.spare(part);
            self.spare(part.split('.').next().unwrap_or_default());
        }
    }

    /// Whether a file holds what must not be told, as what was read until now says.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// Adds what such a file holds.
    pub fn add_held(&mut self, text: &str) {
        self.add_lines(text);
        for line in text.lines() {
            self.add(line);
            self.add(after_key(line));
            let words = line.split(|sign: char| sign.is_whitespace() || ",:{}[]'\"".contains(sign));
            words.filter(|word| word.len() >= ANYWHERE_BYTES).for_each(|word| self.add(word));
        }
    }

    /// Adds all values that are somewhere in one.
    pub fn add_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => self.add(&number.to_string()),
            Value::Array(all) => all.iter().for_each(|one| self.add_all(one)),
            Value::Object(all) => all.values().for_each(|one| self.add_all(one)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds the values of a file of values.
    pub fn add_file(&mut self, text: &str) {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(values) => self.add_all(&values),
            // Whatever it is, it will be quoted.
            Err(_) => self.add_lines(text),
        }
    }

    /// Adds what a file of values holds under names that tell of secrets; of one that cannot be read, all.
    pub fn add_telling(&mut self, text: &str) {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(values) => self.add_named(&values),
            Err(_) => self.add_lines(text),
        }
    }

    fn add_named(&mut self, value: &Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.add_named(one)),
            Value::Object(all) => all.iter().for_each(|(name, value)| match is_telling(name) {
                true => self.add_all(value),
                false => self.add_named(value),
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds what Secrets hold that are in a text: in its manifests, in its kustomization, or in patches that are written into one.
    pub fn add_secrets(&mut self, text: &str) {
        self.add_secrets_at(text, DEPTH_MAX);
    }

    fn add_secrets_at(&mut self, text: &str, depth: usize) {
        // Most of what there is need not be parsed for that.
        if !text.contains(MENTION) {
            return;
        }
        match serde_saphyr::from_multiple::<Value>(text) {
            Ok(documents) => documents.iter().for_each(|one| self.search(one, depth)),
            Err(_) => self.add_lines(text),
        }
    }

    fn search(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.search(one, depth)),
            Value::Object(fields) => {
                match fields.get("kind").and_then(Value::as_str) {
                    Some(SECRET) => {
                        let held = ["data", "stringData"].into_iter().filter_map(|name| fields.get(name));
                        held.for_each(|held| self.add_decoded(held));
                    }
                    Some(kind) if kind.eq_ignore_ascii_case(GENERATOR) => self.add_generator(value),
                    _ => {}
                }
                if value.pointer("/target/kind").and_then(Value::as_str) == Some(SECRET) {
                    self.add_patch(value);
                }
                for (name, value) in fields {
                    if name.eq_ignore_ascii_case(GENERATOR) {
                        value.as_array().into_iter().flatten().for_each(|one| self.add_generator(one));
                    }
                    self.search(value, depth);
                }
            }
            Value::String(text) if text.contains('\n') => {
                if let Some(depth) = depth.checked_sub(1) {
                    self.add_secrets_at(text, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The values of a Secret, as they are written and as what they stand for.
    fn add_decoded(&mut self, held: &Value) {
        self.add_all(held);
        let texts = held.as_object().into_iter().flat_map(|fields| fields.values().filter_map(Value::as_str));
        let decoded = texts.filter_map(|text| String::from_utf8(BASE64.decode(text).ok()?).ok());
        decoded.for_each(|text| self.add(&text));
    }

    /// `name=value`, or what was meant as that, and the files that have more of them.
    fn add_generator(&mut self, generator: &Value) {
        let listed = |name: &str| generator.get(name).and_then(Value::as_array).into_iter().flatten();
        for literal in listed("literals").filter_map(Value::as_str) {
            self.add(after_key(literal).trim_matches(['"', '\'']));
        }
        for file in
            listed("envs").chain(listed("files")).chain(generator.get("env")).filter_map(Value::as_str)
        {
            self.add_file_name(after_key(file));
        }
    }

    /// What is changed in Secrets, which need not say in the patch that they are such.
    fn add_patch(&mut self, entry: &Value) {
        if let Some(patch) = entry.get("patch").and_then(Value::as_str) {
            self.add_held(patch);
        }
        if let Some(file) = entry.get("path").and_then(Value::as_str) {
            self.add_file_name(file);
        }
    }

    fn add_file_name(&mut self, path: &str) {
        self.files.extend(path.rsplit('/').next().map(str::to_owned));
    }

    fn add_lines(&mut self, text: &str) {
        let value = |line: &str| line.split_once(':').map_or(line, |(_, value)| value).to_owned();
        text.lines().for_each(|line| self.add(value(line).trim().trim_matches(['"', '\''])));
    }

    /// A text without them, also where it quotes them.
    pub fn masked(&self, words: &str) -> String {
        let forms: BTreeSet<String> = self.known.iter().flat_map(|value| forms(value)).collect();
        let mut longest_first: Vec<String> = forms.into_iter().collect();
        longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
        longest_first.into_iter().fold(words.to_owned(), |words, value| replace(&words, &value))
    }
}

/// What is behind the key, or all of it where there is none.
fn after_key(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, value)| value)
}

/// How Helm, Kustomize and what they check with write a value.
fn forms(value: &str) -> Vec<String> {
    let quoted = value.replace('\\', "\\\\");
    let in_double = quoted.replace('"', "\\\"");
    let mut forms = vec![
        value.to_owned(),
        quoted.replace('\'', "\\'"),
        in_double.replace('\t', "\\t"),
        in_double.replace('\t', "\\x09"),
        quoted,
    ];
    // Of short ones they would be no more than other words.
    if value.len() >= ANYWHERE_BYTES {
        forms.push(BASE64.encode(value).trim_end_matches('=').to_owned());
        forms.push(form_urlencoded::byte_serialize(value.as_bytes()).collect());
    }
    forms
}

/// Whether a name says that its value is a secret.
fn is_telling(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    TELLING.iter().any(|part| plain.contains(part))
}

fn replace(words: &str, value: &str) -> String {
    let mut masked = String::with_capacity(words.len());
    let mut rest = words;
    while let Some((before, after)) = rest.split_once(value) {
        let is_inside = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
        let mut back = before.chars().rev().chain(masked.chars().rev());
        // The letter of an escape, such as that of a new line, is part of no word.
        let is_part = is_inside(back.next()) && back.next() != Some('\\') || is_inside(after.chars().next());
        masked.push_str(before);
        masked.push_str(if is_part && value.len() < ANYWHERE_BYTES { value } else { MASK });
        rest = after;
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_masked() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n";
        for (value, words, expected) in [
            (json!({"p": "hunter2!"}), "no hunter2! here", "no ++++++++ here"),
            (json!({"db": {"password": "hunter2x"}}), "xhunter2xy", "x++++++++y"),
            (json!({"a": [{"b": key}]}), "cut: MIIEvQIBADANBg", "cut: ++++++++"),
            (json!({"pin": 482_915}), "pin 482915 is wrong", "pin ++++++++ is wrong"),
            // Short ones as words alone, and what says nothing not at all.
            (json!({"a": "abcd"}), "abcd abcde", "++++++++ abcde"),
            (json!({"a": true, "b": "x"}), "true x", "true x"),
            (json!({}), "sorry", "sorry"),
        ] {
            let mut values = Values::default();
            values.add_file(&value.to_string());
            assert_eq!(values.masked(words), expected, "{value}");
        }
        let mut values = Values::default();
        values.add_file("db: [hunter2x");
        assert_eq!(values.masked("bad: [hunter2x"), "bad: ++++++++");
    }

    #[test]
    fn values_are_masked_as_they_are_quoted() {
        for (value, words) in [
            ("p4ss\\w0rd", r"'p4ss\\w0rd' does not match"),
            ("it's-hunter2", r"'it\'s-hunter2' does not match"),
            ("x y\thunter2", r#"parsing time "x y\x09hunter2""#),
            ("say \"hunter2\"", r#""say \"hunter2\"" is wrong"#),
            ("abc12\npw345", r#"is "abc12\npw345""#),
            ("hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"),
            ("a b&hunter2", "a+b%26hunter2"),
        ] {
            let mut values = Values::default();
            values.add(value);
            let masked = values.masked(words);
            let is_told = ["hunter2", "w0rd", "pw345", "aHVu"].iter().any(|part| masked.contains(part));
            assert!(masked.contains(MASK) && !is_told, "{value}: {masked}");
        }
    }

    #[test]
    fn of_what_a_chart_has_itself_secrets_alone_are_masked() {
        let mut values = Values::default();
        values.add_telling("image: nginx\ndb: {dbPassword: hunter2x}\napi-key: [k3yk3y]\n");
        assert_eq!(values.masked("nginx hunter2x k3yk3y"), "nginx ++++++++ ++++++++");
    }

    #[test]
    fn what_secrets_hold_is_masked() {
        for text in [
            "kind: Secret\nstringData: {a: hunter2x}\n",
            "kind: Secret\ndata: {a: aHVudGVyMng=}\n",
            "secretGenerator: [{name: a, literals: [a=hunter2x]}]\n",
            "SecretGenerator: [{name: a, literals: [hunter2x]}]\n",
            "patches: [{patch: \"kind: Secret\\nstringData: {a: hunter2x}\\n\"}]\n",
            "kind: Secret\nstringData:\n  a: hunter2x\n b: [\n",
            "kind: List\nitems: [{kind: Secret, stringData: {a: hunter2x}}]\n",
            "patches: [{target: {kind: Secret, name: a}, patch: \"stringData:\\n  a: hunter2x\\n\"}]\n",
            "patches: [{target: {kind: Secret}, patch: \"- {op: add, path: /stringData/a, value: hunter2x\"}]\n",
            "kind: SecretGenerator\nliterals: [hunter2x]\n",
            "transformers: [\"kind: PatchTransformer\\ntarget: {kind: Secret}\\npatch: 'a: hunter2x'\\n\"]\n",
        ] {
            let mut values = Values::default();
            values.add_secrets(text);
            assert_eq!(values.masked("it has hunter2x"), "it has ++++++++", "{text}");
        }
        let mut values = Values::default();
        values.add_secrets("secretGenerator: [{envs: [deep/a.env], files: [b=c.txt]}]\npatches: [{target: {kind: Secret}, path: p.txt}]\n");
        assert!(["a.env", "c.txt", "p.txt"].iter().all(|name| values.has_file(name)));
        values.add_held("A=hunter2x\n");
        assert_eq!(values.masked("line A=hunter2x: hunter2x"), "line ++++++++: ++++++++");
        let mut values = Values::default();
        values.add_secrets("kind: ConfigMap\ndata: {a: plainly}\n");
        assert_eq!(values.masked("plainly"), "plainly");
    }
}
