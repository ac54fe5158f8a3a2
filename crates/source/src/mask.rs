//! Masks values in error messages from Helm and Kustomize. Their messages may quote any value, and everyone
//! with access to the Application can read them.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// Replacement for a value. Its fixed length hides the length of the value.
const MASK: &str = "++++++++";
/// Minimum length of a masked value, in bytes. Shorter values look like ordinary words.
const WORD_BYTES: usize = 4;
/// Minimum length of a value masked even within a word, in bytes.
const ANYWHERE_BYTES: usize = 8;
/// Common words, which are never masked.
const PUBLIC_WORDS: [&str; 11] = [
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

/// Kind of objects that contain only secret values.
const SECRET: &str = "Secret";
/// Kustomization field that generates Secrets.
const GENERATOR: &str = "secretGenerator";
/// Part of `Secret` and `secretGenerator` in any spelling. Text without it is skipped to save time.
const SECRET_SUBSTRING: &str = "ecret";
/// Parts of field names that suggest a secret value.
const SECRET_NAME_PARTS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey"];
/// Maximum nesting depth of manifests within strings of other manifests.
const DEPTH_MAX: usize = 3;

/// Set of values that must be masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskValues {
    texts: BTreeSet<String>,
    /// Names, without folders, of files with secrets.
    files: BTreeSet<String>,
}

impl MaskValues {
    /// Adds a value. Multi-line values are masked line by line.
    pub fn add(&mut self, text: &str) {
        let is_telling = |line: &&str| line.len() >= WORD_BYTES && !PUBLIC_WORDS.contains(line);
        self.texts.extend(text.lines().map(str::trim).filter(is_telling).map(str::to_owned));
    }

    /// Excludes a public value from masking.
    pub fn exclude(&mut self, text: &str) {
        self.texts.remove(text);
    }

    /// Excludes the names in a path from masking, because they help users to locate the error.
    pub fn exclude_path(&mut self, path: &str) {
        for part in path.split('/') {
            self.exclude(part);
            self.exclude(part.split('.').next().unwrap_or_default());
        }
    }

    /// Returns true if the file is known to contain secrets.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// Adds the values in a file that contains secrets.
    pub fn add_secret_file(&mut self, text: &str) {
        self.add_lines(text);
        for line in text.lines() {
            self.add(line);
            self.add(text_after_key(line));
            let words = line.split(|sign: char| sign.is_whitespace() || ",:{}[]'\"".contains(sign));
            words.filter(|word| word.len() >= ANYWHERE_BYTES).for_each(|word| self.add(word));
        }
    }

    /// Adds a value, including all nested values.
    pub fn add_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => self.add(&number.to_string()),
            Value::Array(all) => all.iter().for_each(|one| self.add_all(one)),
            Value::Object(all) => all.values().for_each(|one| self.add_all(one)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds all values of a values file.
    pub fn add_file(&mut self, text: &str) {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(values) => self.add_all(&values),
            // Helm and Kustomize may quote the content even if it is invalid YAML.
            Err(_) => self.add_lines(text),
        }
    }

    /// Adds the values with secret-sounding names in a values file, or all of the file if it isn't valid
    /// YAML.
    pub fn add_suspicious(&mut self, text: &str) {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(values) => self.add_suspicious_fields(&values),
            Err(_) => self.add_lines(text),
        }
    }

    fn add_suspicious_fields(&mut self, value: &Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.add_suspicious_fields(one)),
            Value::Object(all) => all.iter().for_each(|(name, value)| match is_secret_name(name) {
                true => self.add_all(value),
                false => self.add_suspicious_fields(value),
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds the values of Secrets in manifests, a kustomization or inline patches.
    pub fn add_secrets(&mut self, text: &str) {
        self.add_secrets_at(text, DEPTH_MAX);
    }

    fn add_secrets_at(&mut self, text: &str, depth: usize) {
        // Most text doesn't need to be parsed.
        if !text.contains(SECRET_SUBSTRING) {
            return;
        }
        match serde_saphyr::from_multiple::<Value>(text) {
            Ok(documents) => documents.iter().for_each(|one| self.find_secrets(one, depth)),
            Err(_) => self.add_lines(text),
        }
    }

    fn find_secrets(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.find_secrets(one, depth)),
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
                    self.find_secrets(value, depth);
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

    /// Adds the values of a Secret, both encoded and decoded.
    fn add_decoded(&mut self, held: &Value) {
        self.add_all(held);
        let texts = held.as_object().into_iter().flat_map(|fields| fields.values().filter_map(Value::as_str));
        let decoded = texts.filter_map(|text| String::from_utf8(BASE64.decode(text).ok()?).ok());
        decoded.for_each(|text| self.add(&text));
    }

    /// Adds the `name=value` literals of a Secret generator and records the names of its files.
    fn add_generator(&mut self, generator: &Value) {
        let listed = |name: &str| generator.get(name).and_then(Value::as_array).into_iter().flatten();
        for literal in listed("literals").filter_map(Value::as_str) {
            self.add(text_after_key(literal).trim_matches(['"', '\'']));
        }
        for file in
            listed("envs").chain(listed("files")).chain(generator.get("env")).filter_map(Value::as_str)
        {
            self.add_file_name(text_after_key(file));
        }
    }

    /// Adds the values in a patch for Secrets, which may omit the kind.
    fn add_patch(&mut self, entry: &Value) {
        if let Some(patch) = entry.get("patch").and_then(Value::as_str) {
            self.add_secret_file(patch);
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

    /// Masks all values in a message, including their quoted forms.
    pub fn mask(&self, words: &str) -> String {
        let forms: BTreeSet<String> = self.texts.iter().flat_map(|value| quoted_forms(value)).collect();
        let mut longest_first: Vec<String> = forms.into_iter().collect();
        longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
        longest_first.into_iter().fold(words.to_owned(), |words, value| replace_value(&words, &value))
    }
}

/// Returns the part of an entry after its key, or all of it if there is no key.
fn text_after_key(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, value)| value)
}

/// Returns all forms of a value that Helm, Kustomize and their libraries print in messages.
fn quoted_forms(value: &str) -> Vec<String> {
    let quoted = value.replace('\\', "\\\\");
    let in_double = quoted.replace('"', "\\\"");
    let mut forms = vec![
        value.to_owned(),
        quoted.replace('\'', "\\'"),
        in_double.replace('\t', "\\t"),
        in_double.replace('\t', "\\x09"),
        quoted,
    ];
    // The encoding of a short value might match an ordinary word.
    if value.len() >= ANYWHERE_BYTES {
        forms.push(BASE64.encode(value).trim_end_matches('=').to_owned());
        forms.push(form_urlencoded::byte_serialize(value.as_bytes()).collect());
    }
    forms
}

/// Returns true if a field name suggests a secret value.
fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| plain.contains(part))
}

fn replace_value(text: &str, value: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(value) {
        let is_inside = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
        let mut back = before.chars().rev().chain(masked.chars().rev());
        // The letter of an escape sequence such as `\n` isn't part of a word.
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
        for (value, text, expected) in [
            (json!({"p": "hunter2!"}), "no hunter2! here", "no ++++++++ here"),
            (json!({"db": {"password": "hunter2x"}}), "xhunter2xy", "x++++++++y"),
            (json!({"a": [{"b": key}]}), "cut: MIIEvQIBADANBg", "cut: ++++++++"),
            (json!({"pin": 482_915}), "pin 482915 is wrong", "pin ++++++++ is wrong"),
            // A short value is masked only if it is a whole word. Common words are never masked.
            (json!({"a": "abcd"}), "abcd abcde", "++++++++ abcde"),
            (json!({"a": true, "b": "x"}), "true x", "true x"),
            (json!({}), "sorry", "sorry"),
        ] {
            let mut values = MaskValues::default();
            values.add_file(&value.to_string());
            assert_eq!(values.mask(text), expected, "{value}");
        }
        let mut values = MaskValues::default();
        values.add_file("db: [hunter2x");
        assert_eq!(values.mask("bad: [hunter2x"), "bad: ++++++++");
    }

    #[test]
    fn values_are_masked_as_they_are_quoted() {
        for (value, text) in [
            ("p4ss\\w0rd", r"'p4ss\\w0rd' does not match"),
            ("it's-hunter2", r"'it\'s-hunter2' does not match"),
            ("x y\thunter2", r#"parsing time "x y\x09hunter2""#),
            ("say \"hunter2\"", r#""say \"hunter2\"" is wrong"#),
            ("abc12\npw345", r#"is "abc12\npw345""#),
            ("hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"),
            ("a b&hunter2", "a+b%26hunter2"),
        ] {
            let mut values = MaskValues::default();
            values.add(value);
            let masked = values.mask(text);
            let is_told = ["hunter2", "w0rd", "pw345", "aHVu"].iter().any(|part| masked.contains(part));
            assert!(masked.contains(MASK) && !is_told, "{value}: {masked}");
        }
    }

    #[test]
    fn of_the_defaults_of_a_chart_only_secrets_are_masked() {
        let mut values = MaskValues::default();
        values.add_suspicious("image: nginx\ndb: {dbPassword: hunter2x}\napi-key: [k3yk3y]\n");
        assert_eq!(values.mask("nginx hunter2x k3yk3y"), "nginx ++++++++ ++++++++");
    }

    #[test]
    fn values_of_secrets_are_masked() {
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
            let mut values = MaskValues::default();
            values.add_secrets(text);
            assert_eq!(values.mask("it has hunter2x"), "it has ++++++++", "{text}");
        }
        let mut values = MaskValues::default();
        values.add_secrets("secretGenerator: [{envs: [deep/a.env], files: [b=c.txt]}]\npatches: [{target: {kind: Secret}, path: p.txt}]\n");
        assert!(["a.env", "c.txt", "p.txt"].iter().all(|name| values.has_file(name)));
        values.add_secret_file("A=hunter2x\n");
        assert_eq!(values.mask("line A=hunter2x: hunter2x"), "line ++++++++: ++++++++");
        let mut values = MaskValues::default();
        values.add_secrets("kind: ConfigMap\ndata: {a: plainly}\n");
        assert_eq!(values.mask("plainly"), "plainly");
    }
}
