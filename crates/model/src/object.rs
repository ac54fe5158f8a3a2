use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Gvk, ObjectKey, annotations};

/// Label with the queue that Kueue admits a Job from.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// A Kubernetes object of any kind, as JSON.
///
/// `apiVersion` and `kind` are never empty, and `metadata` is a map. The constructor checks this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Object(Value);

/// Error returned when a JSON value is not a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidObject {
    /// The value is not a map.
    #[error("a Kubernetes object must be a map of fields, found {found}")]
    NotAMap {
        /// Actual type of the value, such as `a list` or `a string`.
        found: &'static str,
    },
    /// A required field is missing or empty.
    #[error("field {field} is missing or empty")]
    Missing {
        /// Path of the field.
        field: &'static str,
    },
    /// A field has the wrong type.
    #[error("field {field} must be {expected}, found {found}")]
    WrongType {
        /// Path of the field.
        field: String,
        /// Expected type.
        expected: &'static str,
        /// Actual type, such as `a map` or `null`.
        found: &'static str,
    },
}

/// Returns the type of a JSON value for error messages, such as `a map`, `a string` or `null`.
pub fn describe_json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

const TEXT_FIELDS: [&str; 4] = ["name", "namespace", "generateName", "uid"];
const MAP_FIELDS: [&str; 2] = ["annotations", "labels"];

impl TryFrom<Value> for Object {
    type Error = InvalidObject;

    fn try_from(mut value: Value) -> Result<Self, Self::Error> {
        let found = describe_json_type(&value);
        let fields = value.as_object_mut().ok_or(InvalidObject::NotAMap { found })?;
        for field in ["apiVersion", "kind"] {
            match fields.get(field) {
                Some(Value::String(text)) if !text.is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => return Err(InvalidObject::Missing { field }),
                Some(other) => {
                    return Err(InvalidObject::WrongType {
                        field: field.to_owned(),
                        expected: "a string",
                        found: describe_json_type(other),
                    });
                }
            }
        }
        let metadata = fields.entry("metadata").or_insert(Value::Null);
        // Some tools write an explicit null for an unset field.
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        check_metadata(metadata)?;
        Ok(Self(value))
    }
}

fn check_metadata(metadata: &mut Value) -> Result<(), InvalidObject> {
    let wrong = |field: String, expected, value: &Value| InvalidObject::WrongType {
        field,
        expected,
        found: describe_json_type(value),
    };
    let found = describe_json_type(metadata);
    let fields = metadata.as_object_mut().ok_or(InvalidObject::WrongType {
        field: "metadata".to_owned(),
        expected: "a map",
        found,
    })?;
    // Metadata fields can be null too.
    fields.retain(|_, value| !value.is_null());
    for field in TEXT_FIELDS {
        if let Some(value) = fields.get(field).filter(|value| !value.is_string()) {
            return Err(wrong(format!("metadata.{field}"), "a string", value));
        }
    }
    for field in MAP_FIELDS {
        let Some(value) = fields.get(field) else { continue };
        let map =
            value.as_object().ok_or_else(|| wrong(format!("metadata.{field}"), "a map of strings", value))?;
        if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
            return Err(wrong(format!("metadata.{field}.{key}"), "a string (put quotes around it)", value));
        }
    }
    Ok(())
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.0
    }
}

impl Object {
    /// Returns the object as JSON.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the field at a JSON pointer such as `/spec/replicas`.
    ///
    /// Like [`Value::pointer`], but doesn't allocate for each segment. Planning and health assessment read
    /// thousands of fields.
    pub fn pointer(&self, path: &str) -> Option<&Value> {
        if path.contains('~') {
            return self.0.pointer(path);
        }
        if path.is_empty() {
            return Some(&self.0);
        }
        path.strip_prefix('/')?.split('/').try_fold(&self.0, |value, segment| match value {
            Value::Object(map) => map.get(segment),
            Value::Array(list) => parse_array_index(segment).and_then(|index| list.get(index)),
            _ => None,
        })
    }

    /// Returns the string at a JSON pointer, or an empty string if the field is absent or isn't a string.
    pub fn text(&self, path: &str) -> &str {
        self.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the integer at a JSON pointer, if the field is an integer.
    pub fn integer(&self, path: &str) -> Option<i64> {
        self.pointer(path).and_then(Value::as_i64)
    }

    /// Returns a top-level field as a mutable map. An absent field, or one of another type, becomes an empty
    /// map.
    pub fn section_mut(&mut self, field: &str) -> &mut Map<String, Value> {
        ensure_map(ensure_map(&mut self.0).entry(field).or_insert(Value::Null))
    }

    /// Returns the object's top-level fields for modification. Callers must leave `apiVersion`, `kind` and
    /// `metadata` in place.
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        ensure_map(&mut self.0)
    }

    /// Returns the `metadata` map for modification.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        self.section_mut("metadata")
    }

    /// Returns the object's group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(self.text("/apiVersion"), self.kind())
    }

    /// Returns the `kind`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns the API group, empty for the core API.
    pub fn group(&self) -> &str {
        self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns `metadata.name`, empty if unset.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns `metadata.generateName`, empty if unset.
    pub fn generate_name(&self) -> &str {
        self.text("/metadata/generateName")
    }

    /// Returns `metadata.namespace`, empty if unset.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// Returns `metadata.uid`, empty if unset.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// Returns `metadata.resourceVersion`, empty if unset.
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// Returns `metadata.generation`, 0 if unset.
    pub fn generation(&self) -> i64 {
        self.integer("/metadata/generation").unwrap_or(0)
    }

    /// Returns true if `metadata.deletionTimestamp` is set.
    pub fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// Returns the object's identity within a cluster.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.group(), self.kind(), self.namespace(), self.name())
    }

    /// Returns an annotation's value.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata_entry("annotations", name)
    }

    /// Returns a label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata_entry("labels", name)
    }

    fn metadata_entry(&self, section: &str, name: &str) -> Option<&str> {
        self.0.get("metadata")?.get(section)?.get(name)?.as_str()
    }

    /// Sets an annotation, replacing any earlier value.
    pub fn set_annotation(&mut self, name: &str, value: impl Into<String>) {
        let annotations = self.metadata_mut().entry("annotations").or_insert(Value::Null);
        ensure_map(annotations).insert(name.to_owned(), Value::String(value.into()));
    }

    /// Removes an annotation, if present.
    pub fn remove_annotation(&mut self, name: &str) {
        if self.annotation(name).is_none() {
            return;
        }
        if let Some(annotations) = self.metadata_mut().get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(name);
        }
    }

    /// Sets a label, replacing any earlier value.
    pub fn set_label(&mut self, name: &str, value: impl Into<String>) {
        let labels = self.metadata_mut().entry("labels").or_insert(Value::Null);
        ensure_map(labels).insert(name.to_owned(), Value::String(value.into()));
    }

    /// Sets `metadata.name`.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.metadata_mut().insert("name".to_owned(), Value::String(name.into()));
    }

    /// Sets `metadata.namespace`, or removes the field if the namespace is empty.
    pub fn set_namespace(&mut self, namespace: &str) {
        if namespace.is_empty() {
            self.metadata_mut().remove("namespace");
        } else {
            self.metadata_mut().insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }

    /// Returns the finalizers in order.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// Returns true if the object has the given finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|name| name == finalizer)
    }

    /// Adds a finalizer unless the object already has it.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if !self.has_finalizer(finalizer) {
            let mut all: Vec<Value> = self.finalizers().map(Value::from).collect();
            all.push(Value::from(finalizer));
            self.metadata_mut().insert("finalizers".to_owned(), Value::Array(all));
        }
    }

    /// Returns true for a Job that an operation created suspended and must start. Kueue starts Jobs with a queue
    /// itself.
    pub fn is_unstarted_job(&self) -> bool {
        self.annotation(annotations::HOOK_START).is_some()
            && self.pointer("/spec/suspend") == Some(&Value::Bool(true))
            && !self.has_queue()
    }

    /// Returns true for a Job that Kueue admits from a queue. The label may be in the manifest, or Kueue adds it to
    /// the created object.
    pub fn has_queue(&self) -> bool {
        self.label(QUEUE_LABEL).is_some()
    }

    /// Makes a Job start only when its operation starts it.
    pub fn suspend_job(&mut self) {
        self.set_annotation(annotations::HOOK_START, "pending");
        self.set_suspended(true);
    }

    /// Starts a Job, as [`Object::suspend_job`] prepared it.
    pub fn start_job(&mut self) {
        self.remove_annotation(annotations::HOOK_START);
        self.set_suspended(false);
    }

    fn set_suspended(&mut self, suspended: bool) {
        self.section_mut("spec").insert("suspend".to_owned(), Value::Bool(suspended));
    }

    /// Removes a finalizer, if present.
    pub fn remove_finalizer(&mut self, finalizer: &str) {
        let rest: Vec<Value> = self.finalizers().filter(|name| *name != finalizer).map(Value::from).collect();
        if rest.is_empty() {
            self.metadata_mut().remove("finalizers");
        } else {
            self.metadata_mut().insert("finalizers".to_owned(), Value::Array(rest));
        }
    }

    /// Returns the field managers that wrote a label (section `labels`) or an annotation (section
    /// `annotations`), according to `managedFields`.
    pub fn field_managers_of(&self, section: &str, name: &str) -> impl Iterator<Item = &str> {
        let (section, field) = (format!("f:{section}"), format!("f:{name}"));
        let wrote = move |notes: &Value| {
            let labels = notes.get("f:metadata").and_then(|metadata| metadata.get(&section));
            labels.is_some_and(|labels| labels.get(&field).is_some())
        };
        let entries = self.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(move |entry| {
            let wrote = match entry.get("fieldsV1")? {
                Value::String(text) => serde_json::from_str(text).is_ok_and(|notes: Value| wrote(&notes)),
                notes => wrote(notes),
            };
            entry.get("manager")?.as_str().filter(|_| wrote)
        })
    }

    /// Returns true if the object has an owner reference.
    pub fn has_owner(&self) -> bool {
        self.pointer("/metadata/ownerReferences")
            .and_then(Value::as_array)
            .is_some_and(|owners| !owners.is_empty())
    }
}

/// Parses an array index as in RFC 6901: digits without a leading zero.
fn parse_array_index(segment: &str) -> Option<usize> {
    let plain = !segment.starts_with('+') && (segment == "0" || !segment.starts_with('0'));
    plain.then(|| segment.parse().ok()).flatten()
}

/// Returns the value as a map, replacing any other type with an empty map.
fn ensure_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value is a map here"),
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_objects_are_rejected_with_the_reason() {
        for (value, reason) in [
            (json!([1]), "a Kubernetes object must be a map of fields, found a list"),
            (json!({"kind": "Pod"}), "field apiVersion is missing or empty"),
            (json!({"apiVersion": "v1", "kind": ""}), "field kind is missing or empty"),
            (json!({"apiVersion": 1, "kind": "Pod"}), "field apiVersion must be a string, found a number"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}),
                "field metadata.name must be a string, found a number",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"wave": 1}}}),
                "field metadata.annotations.wave must be a string (put quotes around it), found a number",
            ),
        ] {
            assert_eq!(Object::try_from(value).unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn pointers_are_those_of_rfc_6901() {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": [1, {"b~/c": 2}], "": 3}});
        let object = Object::try_from(value.clone()).unwrap();
        for path in [
            "",
            "/kind",
            "kind",
            "/spec/a/0",
            "/spec/a/00",
            "/spec/a/+1",
            "/spec/a/1/b~0~1c",
            "/spec/a/-",
            "/spec/",
            "/x/y",
            "/",
        ] {
            let expected = if path.is_empty() { Some(object.as_value()) } else { value.pointer(path) };
            assert_eq!(object.pointer(path), expected, "{path}");
        }
    }

    #[test]
    fn finalizers_come_and_go() {
        let mut object = Object::try_from(json!({"apiVersion": "batch/v1", "kind": "Job"})).unwrap();
        object.add_finalizer("a");
        object.add_finalizer("a");
        assert_eq!(object.finalizers().collect::<Vec<_>>(), ["a"]);
        object.remove_finalizer("a");
        assert!(object.pointer("/metadata/finalizers").is_none());
        assert_eq!(object.gvk().to_string(), "batch/v1 Job");
    }
}
