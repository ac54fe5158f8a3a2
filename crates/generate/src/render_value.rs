//! Rendering of all strings within a value.

use serde_json::{Map, Value};

use crate::error::Problem;

/// A problem with a string and the path to it.
#[derive(Debug)]
pub(crate) struct LocatedProblem {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// Renders all strings in a value, including map keys. Map entries with a null value are dropped.
pub(crate) fn render_texts(
    value: &Value,
    path: &str,
    render: &mut dyn FnMut(&str) -> Result<String, Problem>,
) -> Result<Value, LocatedProblem> {
    let mut path = path.to_owned();
    render_nested(value, &mut path, render).map_err(|problem| LocatedProblem { path, problem })
}

/// Renders a nested value. On error, the current segment is prepended to the path.
fn render_nested(
    value: &Value,
    path: &mut String,
    render: &mut dyn FnMut(&str) -> Result<String, Problem>,
) -> Result<Value, Problem> {
    let before = path.len();
    Ok(match value {
        Value::String(text) => Value::String(render(text)?),
        Value::Array(items) => {
            let mut rendered = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                rendered.push(render_nested(item, path, render)?);
                path.truncate(before);
            }
            Value::Array(rendered)
        }
        Value::Object(fields) => {
            let mut rendered = Map::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                path.push('.');
                path.push_str(key);
                let key = render(key)?;
                let value = render_nested(value, path, render)?;
                if rendered.contains_key(&key) {
                    path.truncate(before);
                    return Err(Problem::EqualKeys { key });
                }
                rendered.insert(key, value);
                path.truncate(before);
            }
            Value::Object(rendered)
        }
        other => other.clone(),
    })
}
