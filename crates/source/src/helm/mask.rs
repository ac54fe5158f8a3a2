//! Values of an application stay out of what Helm says of a chart that cannot be made: a chart may quote any of them, and
//! what it says is shown to everybody who sees the application.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_model::argo::HelmSource;

use crate::purpose::Variables;

/// What stands in the place of a value: always the same, so that not even its length shows.
const MASK: &str = "++++++++";
/// Shorter values are too common to be told from other words.
const WORD_BYTES: usize = 4;
/// Shorter values are masked as whole words only.
const ANYWHERE_BYTES: usize = 8;
/// Words that stand everywhere and hide nothing.
const PLAIN: [&str; 4] = ["true", "false", "null", "none"];

/// What a source itself gives to its chart. Its values are looked for when Helm has failed, and not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    parameters: Vec<String>,
    object: Option<Value>,
    text: String,
}

impl Own {
    pub fn new(helm: &HelmSource, variables: &Variables) -> Self {
        let mut parameters = Vec::new();
        for one in &helm.parameters {
            parameters.push(one.value.clone());
            // A variable alone is what everybody knows of the application.
            if !one.value.starts_with('$') {
                parameters.push(variables.replace(&one.value));
            }
        }
        Self { parameters, object: helm.values_object.clone(), text: helm.values.clone() }
    }
}

/// Its values, the longest first.
pub(super) fn values(own: &Own) -> Vec<String> {
    let mut found = BTreeSet::new();
    own.parameters.iter().for_each(|value| add(value, &mut found));
    if let Some(object) = &own.object {
        collect(object, &mut found);
    }
    match serde_saphyr::from_str::<Value>(&own.text) {
        Ok(values) => collect(&values, &mut found),
        // Whatever it is, Helm will quote it.
        Err(_) => {
            let value = |line: &str| line.split_once(':').map_or(line, |(_, value)| value).to_owned();
            own.text.lines().for_each(|line| add(value(line).trim().trim_matches(['"', '\'']), &mut found));
        }
    }
    let mut found: Vec<String> = found.into_iter().collect();
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => add(text, found),
        Value::Number(number) => add(&number.to_string(), found),
        Value::Array(all) => all.iter().for_each(|one| collect(one, found)),
        Value::Object(all) => all.values().for_each(|one| collect(one, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A text of several lines is quoted line by line.
fn add(text: &str, found: &mut BTreeSet<String>) {
    let is_telling = |line: &&str| line.len() >= WORD_BYTES && !PLAIN.contains(line);
    found.extend(text.lines().map(str::trim).filter(is_telling).map(str::to_owned));
}

/// What Helm says, without these values.
pub(super) fn masked(words: &str, values: &[String]) -> String {
    values.iter().fold(words.to_owned(), |words, value| replace(&words, value))
}

fn replace(words: &str, value: &str) -> String {
    let mut masked = String::with_capacity(words.len());
    let mut rest = words;
    while let Some((before, after)) = rest.split_once(value) {
        let is_inside = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
        let last = before.chars().next_back().or_else(|| masked.chars().next_back());
        let is_part = is_inside(last) || is_inside(after.chars().next());
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

    fn given(helm: Value) -> Vec<String> {
        let helm: HelmSource = serde_json::from_value(helm).unwrap();
        let purpose = crate::Purpose::default();
        values(&Own::new(&helm, &Variables::new(&purpose, ("", "", ""), "")))
    }

    #[test]
    fn what_a_chart_quotes_of_the_values_is_masked() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n";
        for (helm, words, expected) in [
            (
                json!({"parameters": [{"name": "p", "value": "hunter2!"}]}),
                "no hunter2! here",
                "no ++++++++ here",
            ),
            (json!({"values": "db:\n  password: hunter2x\n"}), "xhunter2xy", "x++++++++y"),
            (json!({"values": "db: [hunter2x"}), "bad: [hunter2x", "bad: ++++++++"),
            (json!({"valuesObject": {"a": [{"b": key}]}}), "cut: MIIEvQIBADANBg", "cut: ++++++++"),
            (json!({"values": "pin: 482915"}), "pin 482915 is wrong", "pin ++++++++ is wrong"),
            // Short ones as words alone, and what says nothing not at all.
            (json!({"values": "a: abcd"}), "abcd abcde", "++++++++ abcde"),
            (json!({"values": "a: true\nb: x"}), "true x", "true x"),
            (json!({}), "sorry", "sorry"),
        ] {
            assert_eq!(masked(words, &given(helm.clone())), expected, "{helm}");
        }
    }
}
