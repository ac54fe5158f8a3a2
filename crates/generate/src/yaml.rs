//! YAML as it is read and written here: always through JSON, so that nothing is there that JSON does not have.

use serde_json::Value;

/// A document as a value; nothing at all is null.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    if text.trim_start().starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
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
