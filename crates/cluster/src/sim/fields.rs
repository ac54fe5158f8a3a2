//! Sets of fields as in `managedFields` (FieldsV1), which server-side apply uses to record ownership.
//!
//! A set is a tree. `f:name` is a field of a map, `k:{…}` is an item of a keyed list, `v:"…"` is an item of a
//! set, and `.` is the item or the map itself. A node without children covers everything below it. A `k:{…}`
//! node without children represents several items with the same key.

use serde_json::{Map, Value};

use super::schema::{ListKind, Schema, item_key};

/// A set of fields in the FieldsV1 format.
pub(crate) type Fields = Map<String, Value>;

/// Error for a list item without the fields of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AmbiguousList(pub(crate) String);

/// Returns all fields of a manifest.
pub(crate) fn fields_of(schema: Schema, map: &Map<String, Value>) -> Result<Fields, AmbiguousList> {
    let mut fields = Fields::new();
    for (name, value) in map {
        fields.insert(format!("f:{name}"), Value::Object(fields_of_value(schema, name, value)?));
    }
    Ok(fields)
}

fn fields_of_value(schema: Schema, name: &str, value: &Value) -> Result<Fields, AmbiguousList> {
    match value {
        Value::Object(map) if !schema.is_atomic_map(name) => fields_of(schema, map),
        Value::Array(items) => fields_of_list(schema, name, items),
        _ => Ok(Fields::new()),
    }
}

fn fields_of_list(schema: Schema, name: &str, items: &[Value]) -> Result<Fields, AmbiguousList> {
    let mut fields = Fields::new();
    match schema.list_kind(name, items) {
        ListKind::Atomic => {}
        ListKind::Set => {
            fields.extend(items.iter().map(|item| (format!("v:{item}"), Value::Object(Fields::new()))))
        }
        ListKind::Keyed(keys) => {
            for (position, item) in items.iter().enumerate() {
                let key = item_key(item, keys).ok_or_else(|| {
                    let wanted: Vec<_> = keys.iter().map(|(field, _)| *field).collect();
                    AmbiguousList(format!(
                        "{name}[{position}]: associative list item lacks its key {}",
                        wanted.join(", ")
                    ))
                })?;
                let mut below =
                    item.as_object().map(|map| fields_of(schema, map)).transpose()?.unwrap_or_default();
                below.insert(".".to_owned(), Value::Object(Fields::new()));
                // As on a real server, items that share a key are recorded as a whole.
                let is_repeated = fields.contains_key(&key);
                fields.insert(key, Value::Object(if is_repeated { Fields::new() } else { below }));
            }
        }
    }
    Ok(fields)
}

/// Returns the path of the first list item that shares its key with another item.
pub(crate) fn repeated(fields: &Fields) -> Option<Vec<String>> {
    fields.iter().find_map(|(name, inner)| {
        let inner = inner.as_object()?;
        if inner.is_empty() {
            return name.starts_with("k:").then(|| vec![name.clone()]);
        }
        let mut path = repeated(inner)?;
        path.insert(0, name.clone());
        Some(path)
    })
}

/// Returns the fields below a node.
fn child_fields<'a>(fields: &'a Fields, name: &str) -> Option<&'a Fields> {
    fields.get(name).and_then(Value::as_object)
}

fn child_value<'a>(schema: Schema, value: &'a Value, name: &str, parent: &str) -> Option<&'a Value> {
    if let Some(field) = name.strip_prefix("f:") {
        return value.get(field);
    }
    let items = value.as_array()?;
    match schema.list_kind(parent, items) {
        ListKind::Keyed(keys) => items.iter().find(|item| item_key(item, keys).as_deref() == Some(name)),
        ListKind::Set => items.iter().find(|item| format!("v:{item}") == name),
        ListKind::Atomic => None,
    }
}

/// Returns the field name of a node, which determines the merge rule.
fn field_name<'a>(name: &'a str, parent: &'a str) -> &'a str {
    name.strip_prefix("f:").unwrap_or(parent)
}

/// Returns the paths that are in both sets and have different values in `applied` and `live`.
pub(crate) fn conflicting_paths(
    schema: Schema,
    mine: &Fields,
    theirs: &Fields,
    applied: &Value,
    live: &Value,
) -> Vec<Vec<String>> {
    let mut walk = ConflictWalk { schema, path: Vec::new(), found: Vec::new() };
    walk.visit_fields(mine, theirs, Some(applied), Some(live), "");
    walk.found
}

/// Search for conflicting paths.
struct ConflictWalk {
    schema: Schema,
    path: Vec<String>,
    found: Vec<Vec<String>>,
}

impl ConflictWalk {
    fn visit_fields(
        &mut self,
        mine: &Fields,
        theirs: &Fields,
        applied: Option<&Value>,
        live: Option<&Value>,
        parent: &str,
    ) {
        let schema = self.schema;
        for name in mine.keys().filter(|name| *name != ".") {
            let (Some(my), Some(their)) = (child_fields(mine, name), child_fields(theirs, name)) else {
                continue;
            };
            let applied = applied.and_then(|value| child_value(schema, value, name, parent));
            let live = live.and_then(|value| child_value(schema, value, name, parent));
            self.path.push(name.clone());
            if my.is_empty() || their.is_empty() {
                let both_maps = matches!((applied, live), (Some(Value::Object(_)), Some(Value::Object(_))));
                let atomic = schema.is_atomic_map(field_name(name, parent));
                if applied != live && (atomic || !both_maps) {
                    self.found.push(self.path.clone());
                }
            } else {
                self.visit_fields(my, their, applied, live, field_name(name, parent));
            }
            self.path.pop();
        }
    }
}

/// Removes one path from a set, along with any maps that become empty as a result.
pub(crate) fn remove_path(fields: &mut Fields, path: &[String]) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        fields.remove(name);
    } else if let Some(Value::Object(inner)) = fields.get_mut(name) {
        remove_path(inner, rest);
        if inner.is_empty() {
            fields.remove(name);
        }
    }
}

/// Adds all fields of another set.
pub(crate) fn add_fields(fields: &mut Fields, other: Fields) {
    for (name, theirs) in other {
        match (fields.get_mut(&name), theirs) {
            // Merge the children only if both nodes have children. A node without children covers everything
            // below it.
            (Some(Value::Object(mine)), Value::Object(theirs)) if !mine.is_empty() && !theirs.is_empty() => {
                add_fields(mine, theirs);
            }
            (Some(Value::Object(mine)), _) => mine.clear(),
            (_, theirs) => drop(fields.insert(name, theirs)),
        }
    }
}

/// Removes the fields that the value no longer has.
pub(crate) fn retain_present(schema: Schema, fields: &mut Fields, value: &Value, parent: &str) {
    fields.retain(|name, inner| {
        if name == "." {
            return true;
        }
        let Some(value) = child_value(schema, value, name, parent) else { return false };
        let Some(inner) = inner.as_object_mut() else { return false };
        let leaf = inner.is_empty();
        retain_present(schema, inner, value, field_name(name, parent));
        leaf || !inner.is_empty()
    });
}

/// Removes the fields whose values have not changed.
pub(crate) fn retain_changed(
    schema: Schema,
    fields: &mut Fields,
    value: &Value,
    before: &Value,
    parent: &str,
) {
    fields.retain(|name, inner| {
        let Some(before) = child_value(schema, before, name, parent) else { return name != "." };
        let Some(value) = child_value(schema, value, name, parent).filter(|value| *value != before) else {
            return false;
        };
        let Some(inner) = inner.as_object_mut() else { return false };
        let leaf = inner.is_empty();
        retain_changed(schema, inner, value, before, field_name(name, parent));
        leaf || !inner.is_empty()
    });
}

/// Formats a path for error messages: `.spec.containers[name="api"].image`.
pub(crate) fn format_path(path: &[String]) -> String {
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
