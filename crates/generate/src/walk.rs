//! Every text of a value, rendered.

use serde_json::{Map, Value};

use crate::error::Problem;

/// A problem, and the path of the text it is in.
#[derive(Debug)]
pub(crate) struct Misplaced {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// A value with all its texts rendered, the keys of its maps too. Entries of maps that are null are left out.
pub(crate) fn walk(
    value: &Value,
    path: &str,
    render: &mut dyn FnMut(&str) -> Result<String, Problem>,
) -> Result<Value, Misplaced> {
    let mut path = path.to_owned();
    inside(value, &mut path, render).map_err(|problem| Misplaced { path, problem })
}

/// On an error, the path is that of the text.
fn inside(
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
                rendered.push(inside(item, path, render)?);
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
                let value = inside(value, path, render)?;
                if rendered.contains_key(&key) {
                    path.truncate(before);
                    return Err(Problem::Keys { key });
                }
                rendered.insert(key, value);
                path.truncate(before);
            }
            Value::Object(rendered)
        }
        other => other.clone(),
    })
}
