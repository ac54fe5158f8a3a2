//! Conversion of objects to Lua, and of results from Lua.

use mlua::{Lua, Table, Value};
use serde_json::Value as Json;
use tidegate_model::{Health, HealthStatus};

use crate::HealthError;
use crate::verdict::{Verdict, unknown};

/// Maximum nesting of maps and lists. Kubernetes objects are nowhere near as deep.
const DEPTH_MAX: usize = 150;
/// Approximate size of a table entry in bytes.
const ENTRY_BYTES: usize = 40;

/// Converts an object's fields to tables. A null becomes an absent field, as scripts expect.
pub(super) fn to_lua(lua: &Lua, value: &Json) -> mlua::Result<Value> {
    nested_to_lua(lua, value, DEPTH_MAX)
}

fn nested_to_lua(lua: &Lua, value: &Json, depth: usize) -> mlua::Result<Value> {
    let Some(inner) = depth.checked_sub(1) else {
        return Err(mlua::Error::runtime(format!("the object is nested deeper than {DEPTH_MAX} levels")));
    };
    Ok(match value {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(entries) => {
            let table = lua.create_table_with_capacity(entries.len(), 0)?;
            for (index, entry) in entries.iter().enumerate() {
                table.raw_set(index + 1, nested_to_lua(lua, entry, inner)?)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
                table.raw_set(name.as_str(), nested_to_lua(lua, field, inner)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Returns the approximate size in bytes of the largest string or table.
pub(super) fn largest_value_size(value: &Json) -> usize {
    let mut largest = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let bytes = match value {
            Json::String(text) => text.len(),
            Json::Array(entries) => {
                open.extend(entries);
                entries.len().saturating_mul(ENTRY_BYTES)
            }
            Json::Object(fields) => {
                open.extend(fields.values());
                fields.len().saturating_mul(ENTRY_BYTES)
            }
            _ => 0,
        };
        largest = largest.max(bytes);
    }
    largest
}

/// Converts a script's result to an object's health.
pub(super) fn verdict_from_lua(script: &str, value: &Value) -> Verdict {
    let wrong = |what: String| HealthError::ScriptResult { script: script.to_owned(), found: what };
    let no_status = || HealthError::NoStatus { script: script.to_owned() };
    let table = match value {
        Value::Nil => return Err(no_status()),
        Value::Table(table) => table,
        other => return Err(wrong(type_name(other).to_owned())),
    };
    if table.is_empty() {
        return Err(no_status());
    }
    if table.raw_len() > 0 {
        return Err(wrong("a list".to_owned()));
    }
    let text = |field: &str| match table_field(table, field) {
        Value::Nil => Ok(String::new()),
        Value::String(text) => Ok(text.to_string_lossy()),
        other => Err(wrong(format!("a table whose {field} is {}", type_name(&other)))),
    };
    let (status, message) = (text("status")?, text("message")?);
    match parse_status(&status) {
        Some(status) => Ok(Health::new(status, message)),
        None => unknown("Lua returned an invalid health status"),
    }
}

/// Describes the type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Boolean(_) => "a boolean",
        Value::Integer(_) | Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Table(_) => "a table",
        Value::Function(_) => "a function",
        _ => "a value of another type",
    }
}

fn table_field(table: &Table, field: &str) -> Value {
    table.raw_get(field).unwrap_or_default()
}

fn parse_status(word: &str) -> Option<HealthStatus> {
    Some(match word {
        "Healthy" => HealthStatus::Healthy,
        "Suspended" => HealthStatus::Suspended,
        "Progressing" => HealthStatus::Progressing,
        "Missing" => HealthStatus::Missing,
        "Degraded" => HealthStatus::Degraded,
        "Unknown" => HealthStatus::Unknown,
        _ => return None,
    })
}
