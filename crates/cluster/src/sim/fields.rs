//! Sets of fields, as `managedFields` writes them (FieldsV1): who owns what in server-side apply.
//!
//! A set is a tree: `f:name` is a field of a map, `k:{…}` an item of a keyed list, `v:"…"` an item of a set, `.` the
//! item or map itself. A node without children stands for everything below it.

use serde_json::{Map, Value};

use super::schema::{ListKind, Schema, item_key};

/// A set of fields.
pub(crate) type Fields = Map<String, Value>;

/// A list whose items cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadList(pub(crate) String);

/// All fields of a manifest.
pub(crate) fn fields_of(schema: Schema, map: &Map<String, Value>) -> Result<Fields, BadList> {
    let mut fields = Fields::new();
    for (name, value) in map {
        fields.insert(format!("f:{name}"), Value::Object(of_value(schema, name, value)?));
    }
    Ok(fields)
}

fn of_value(schema: Schema, name: &str, value: &Value) -> Result<Fields, BadList> {
    match value {
        Value::Object(map) if !schema.is_atomic_map(name) => fields_of(schema, map),
        Value::Array(items) => of_list(schema, name, items),
        _ => Ok(Fields::new()),
    }
}

fn of_list(schema: Schema, name: &str, items: &[Value]) -> Result<Fields, BadList> {
    let mut fields = Fields::new();
    match schema.list(name, items) {
        ListKind::Atomic => {}
        ListKind::Set => {
            fields.extend(items.iter().map(|item| (format!("v:{item}"), Value::Object(Fields::new()))))
        }
        ListKind::Keyed(keys) => {
            for (position, item) in items.iter().enumerate() {
                let key = item_key(item, keys).ok_or_else(|| {
                    let wanted: Vec<_> = keys.iter().map(|(field, _)| *field).collect();
                    BadList(format!(
                        "{name}[{position}]: associative list item lacks its key {}",
                        wanted.join(", ")
                    ))
                })?;
                let mut below =
                    item.as_object().map(|map| fields_of(schema, map)).transpose()?.unwrap_or_default();
                below.insert(".".to_owned(), Value::Object(Fields::new()));
                if fields.insert(key, Value::Object(below)).is_some() {
                    return Err(BadList(format!(
                        "{name}[{position}]: duplicate entries for its key in an associative list"
                    )));
                }
            }
        }
    }
    Ok(fields)
}

/// The fields below a node.
fn below<'a>(fields: &'a Fields, name: &str) -> Option<&'a Fields> {
    fields.get(name).and_then(Value::as_object)
}

/// A step from a value to one below it.
fn descend<'a>(schema: Schema, value: &'a Value, name: &str, parent: &str) -> Option<&'a Value> {
    if let Some(field) = name.strip_prefix("f:") {
        return value.get(field);
    }
    let items = value.as_array()?;
    match schema.list(parent, items) {
        ListKind::Keyed(keys) => items.iter().find(|item| item_key(item, keys).as_deref() == Some(name)),
        ListKind::Set => items.iter().find(|item| format!("v:{item}") == name),
        ListKind::Atomic => None,
    }
}

/// The field name a node stands for, for looking up how it merges.
fn field_name<'a>(name: &'a str, parent: &'a str) -> &'a str {
    name.strip_prefix("f:").unwrap_or(parent)
}

/// Paths that two sets share and on whose values `applied` and `live` differ.
pub(crate) fn disputed(
    schema: Schema,
    mine: &Fields,
    theirs: &Fields,
    applied: &Value,
    live: &Value,
) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    dispute(schema, (mine, theirs), (Some(applied), Some(live)), "", &mut Vec::new(), &mut found);
    found
}

fn dispute(
    schema: Schema,
    (mine, theirs): (&Fields, &Fields),
    (applied, live): (Option<&Value>, Option<&Value>),
    parent: &str,
    path: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    for name in mine.keys().filter(|name| *name != ".") {
        let (Some(my), Some(their)) = (below(mine, name), below(theirs, name)) else { continue };
        let applied = applied.and_then(|value| descend(schema, value, name, parent));
        let live = live.and_then(|value| descend(schema, value, name, parent));
        path.push(name.clone());
        if my.is_empty() || their.is_empty() {
            let both_maps = matches!((applied, live), (Some(Value::Object(_)), Some(Value::Object(_))));
            let atomic = schema.is_atomic_map(field_name(name, parent));
            if applied != live && (atomic || !both_maps) {
                found.push(path.clone());
            }
        } else {
            let next = field_name(name, parent);
            dispute(schema, (my, their), (applied, live), next, path, found);
        }
        path.pop();
    }
}

/// Takes one path out of a set, with maps left empty by it.
pub(crate) fn drop_path(fields: &mut Fields, path: &[String]) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        fields.remove(name);
    } else if let Some(Value::Object(inner)) = fields.get_mut(name) {
        drop_path(inner, rest);
        if inner.is_empty() {
            fields.remove(name);
        }
    }
}

/// Adds to a set everything that is in another.
pub(crate) fn unite(fields: &mut Fields, other: Fields) {
    for (name, theirs) in other {
        match (fields.get_mut(&name), theirs) {
            // A node without children stands for everything below it.
            (Some(Value::Object(mine)), Value::Object(theirs)) if !mine.is_empty() && !theirs.is_empty() => {
                unite(mine, theirs);
            }
            (Some(Value::Object(mine)), _) => mine.clear(),
            (_, theirs) => drop(fields.insert(name, theirs)),
        }
    }
}

/// Takes everything out of `fields` that the value no longer has.
pub(crate) fn keep_present(schema: Schema, fields: &mut Fields, value: &Value, parent: &str) {
    fields.retain(|name, inner| {
        if name == "." {
            return true;
        }
        let Some(value) = descend(schema, value, name, parent) else { return false };
        let Some(inner) = inner.as_object_mut() else { return false };
        let leaf = inner.is_empty();
        keep_present(schema, inner, value, field_name(name, parent));
        leaf || !inner.is_empty()
    });
}

/// Takes everything out of `fields` in which the value is what it was before.
pub(crate) fn keep_changed(schema: Schema, fields: &mut Fields, value: &Value, before: &Value, parent: &str) {
    fields.retain(|name, inner| {
        let Some(before) = descend(schema, before, name, parent) else { return name != "." };
        let Some(value) = descend(schema, value, name, parent).filter(|value| *value != before) else {
            return false;
        };
        let Some(inner) = inner.as_object_mut() else { return false };
        let leaf = inner.is_empty();
        keep_changed(schema, inner, value, before, field_name(name, parent));
        leaf || !inner.is_empty()
    });
}

/// A path as error messages write it: `.spec.containers[name="api"].image`.
pub(crate) fn describe(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_at_checked(2) {
            Some(("f:", field)) => text.extend([".", field]),
            Some(("k:", key)) => {
                let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let parts: Vec<String> =
                    key.iter().map(|(field, value)| format!("{field}={value}")).collect();
                text.extend(["[", &parts.join(","), "]"]);
            }
            Some((_, value)) => text.extend(["[", value, "]"]),
            None => {}
        }
    }
    text
}
