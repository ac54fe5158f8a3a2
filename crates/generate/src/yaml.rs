//! YAML as it is read and written here: always through JSON, so that nothing is there that JSON does not have. It is read as Argo CD
//! reads it: texts without quotes have the values of YAML 1.1 (`0755` is 493, `yes` is true).

use serde_json::Value;
use tidegate_yaml::Limits;

/// A document as a value; nothing at all is null.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    tidegate_yaml::value(text, &Limits::default()).map_err(|problem| problem.to_string())
}

/// A value as a document, without the line end at its end.
pub(crate) fn write(value: &Value) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(&whole(value)).map_err(|error| error.to_string())?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Templates know floats alone; 3.0 is written 3.
fn whole(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = crate::parameters::text(value);
            text.parse::<i64>().map_or_else(|_| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), whole(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `sigs.k8s.io/yaml` reads it; more of this is in `crates/yaml`.
    #[test]
    fn texts_without_quotes_are_read_as_argo_cd_reads_them() {
        let read = read("mode: 0755\non: off\nport: 8_080\nname: '0755'\n").unwrap();
        assert_eq!(read, serde_json::json!({"mode": 493, "true": false, "port": 8080, "name": "0755"}));
    }
}
