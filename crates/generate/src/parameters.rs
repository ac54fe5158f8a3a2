//! Parameter sets of generators.

use serde_json::{Map, Value};

/// Parameters by name. With Go templates, values may have any type; without, they are strings.
pub(crate) type Parameters = Map<String, Value>;

/// A parameter set and the generator element it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParameterSet {
    pub(crate) parameters: Parameters,
    /// Description of the generator element, such as `element 2`.
    pub(crate) origin: String,
}

/// Creates parameters from strings.
pub(crate) fn from_texts<N: Into<String>>(texts: impl IntoIterator<Item = (N, String)>) -> Parameters {
    texts.into_iter().map(|(name, value)| (name.into(), Value::String(value))).collect()
}

/// Converts a value to a string. Numbers are formatted without an exponent.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Drop a zero fraction: 2.0 becomes 2.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Describes a value for an error message.
pub(crate) fn describe_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("the string {:?}", crate::name_rules::truncate(text, 40)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Flattens nested values to strings. Field `b` of `a` becomes `a.b`, and the first item of list `a` becomes
/// `a.0`.
pub(crate) fn flatten(parameters: &Parameters) -> Parameters {
    let mut flat = Map::new();
    for (key, value) in parameters {
        add_flat(key.clone(), value, &mut flat);
    }
    flat
}

fn add_flat(key: String, value: &Value, flat: &mut Parameters) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| add_flat(format!("{key}.{name}"), value, flat));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| add_flat(format!("{key}.{index}"), value, flat));
        }
        other => {
            flat.insert(key, Value::String(to_text(other)));
        }
    }
}

/// Adds missing parameters, recursing into objects. Existing parameters are kept.
pub(crate) fn add_missing(into: &mut Parameters, from: &Parameters) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => add_missing(there, more),
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Adds parameters with a prefix: as an object for Go templates, or otherwise as names with dots.
pub(crate) fn add_prefixed(parameters: &mut Parameters, of_go: bool, prefix: &str, fields: Parameters) {
    if of_go {
        parameters.insert(prefix.to_owned(), Value::Object(fields));
    } else {
        parameters.extend(fields.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Parameters {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn everything_becomes_a_text() {
        let values = object(json!({
            "a": {"b": {"c": "d"}}, "list": ["x", {"y": 1}], "yes": true, "port": 8_080_000, "half": 0.5, "two": 2.0,
            "big": 12_345_678_901_234_567_890_u64, "none": null, "empty": {},
        }));
        let flat = json!({
            "a.b.c": "d", "list.0": "x", "list.1.y": "1", "yes": "true", "port": "8080000", "half": "0.5", "two": "2",
            "big": "12345678901234567890", "none": "",
        });
        assert_eq!(flatten(&values), object(flat));
    }

    #[test]
    fn existing_parameters_stay() {
        let mut into = object(json!({"a": {"x": 1}, "b": "", "l": [1]}));
        add_missing(&mut into, &object(json!({"a": {"x": 2, "y": 3}, "b": "c", "l": [2, 3], "d": null})));
        assert_eq!(into, object(json!({"a": {"x": 1, "y": 3}, "b": "", "l": [1], "d": null})));
    }
}
