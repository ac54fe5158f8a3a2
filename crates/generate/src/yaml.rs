//! Parsing and formatting of YAML as JSON values, without YAML's additional features. As in Argo CD, unquoted
//! scalars follow YAML 1.1: `0755` is 493, and `yes` is true.

use serde_json::Value;
use tidegate_yaml::Limits;

/// Parses a document. An empty document is null.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    tidegate_yaml::parse_value(text, &Limits::default()).map_err(|problem| problem.to_string())
}

/// Formats a value as a document, without a trailing newline.
pub(crate) fn write(value: &Value) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(&to_integers(value)).map_err(|error| error.to_string())?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Converts floats without a fraction to integers. All numbers are floats in templates, but 3.0 must print as
/// 3.
fn to_integers(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = crate::parameters::to_text(value);
            text.parse::<i64>().map_or_else(|_| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(to_integers).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), to_integers(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a few cases with `sigs.k8s.io/yaml`. More tests are in `crates/yaml`.
    #[test]
    fn plain_scalars_are_parsed_as_in_argo_cd() {
        let read = read("mode: 0755\non: off\nport: 8_080\nname: '0755'\n").unwrap();
        assert_eq!(read, serde_json::json!({"mode": 493, "true": false, "port": 8080, "name": "0755"}));
    }
}
