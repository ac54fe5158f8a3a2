//! Types of commonly mistyped fields in built-in kinds.
//!
//! API servers reject fields of the wrong type. Fields not listed here are left to the server.

mod kind_fields;

use std::fmt::Write as _;

use serde_json::Value;

use kind_fields::KINDS;

/// Type of a field. Null is always allowed and leaves the field unset.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Bool,
    Integer,
    Port,
    IntegerOrText,
    Quantity,
    Base64,
    /// Map with these fields, and possibly others.
    Fields(FieldTypes),
    /// Map from names to values of one type.
    MapOf(&'static FieldType),
    /// List of values of one type.
    ListOf(&'static FieldType),
}

type FieldTypes = &'static [(&'static str, FieldType)];

use FieldType::{Base64, Bool, Fields, Integer, IntegerOrText, ListOf, MapOf, Port, Quantity, Text};

/// Tree of values, independent of its representation.
pub trait ValueTree: Sized {
    /// Returns the node at the root of this tree.
    fn node(&self) -> TreeNode<'_, Self>;
}

/// Node of a tree.
pub enum TreeNode<'t, T> {
    /// Any value except a list or a map.
    Scalar(&'t Value),
    /// Items of a list, in order.
    List(Box<dyn Iterator<Item = &'t T> + 't>),
    /// Fields of a map.
    Map(Box<dyn Iterator<Item = (&'t str, &'t T)> + 't>),
}

impl ValueTree for Value {
    fn node(&self) -> TreeNode<'_, Self> {
        match self {
            Self::Array(items) => TreeNode::List(Box::new(items.iter())),
            Self::Object(fields) => {
                TreeNode::Map(Box::new(fields.iter().map(|(name, value)| (name.as_str(), value))))
            }
            scalar => TreeNode::Scalar(scalar),
        }
    }
}

/// A field with the wrong type for its object's kind.
#[derive(Debug)]
pub struct WrongType<'t, T> {
    /// Path of the field, such as `spec.template.spec.containers[0].image`.
    pub field: String,
    /// Description of the expected type.
    pub expected: &'static str,
    /// Actual type. Never contains the value.
    pub found: &'static str,
    /// Actual value, which may be secret.
    pub value: &'t T,
}

/// Returns the fields with the wrong type. Only built-in kinds are checked.
pub fn wrong_types<'t, T: ValueTree>(group: &str, kind: &str, object: &'t T) -> Vec<WrongType<'t, T>> {
    let shape = KINDS.iter().find(|(of, name, _)| *of == group && *name == kind).map(|(.., shape)| *shape);
    let mut check = TypeChecker { path: String::new(), errors: Vec::new() };
    if let (Some(shape), TreeNode::Map(fields)) = (shape, object.node()) {
        check.check_fields(shape, fields);
    }
    check.errors
}

struct TypeChecker<'t, T> {
    path: String,
    errors: Vec<WrongType<'t, T>>,
}

impl<'t, T: ValueTree> TypeChecker<'t, T> {
    fn check_fields(&mut self, shape: FieldTypes, fields: impl Iterator<Item = (&'t str, &'t T)>) {
        for (name, value) in fields {
            if let Some((_, wanted)) = shape.iter().find(|(field, _)| *field == name) {
                self.check_nested(|path| push_name(path, name), |check| check.check_value(*wanted, value));
            }
        }
    }

    fn check_nested(&mut self, step: impl FnOnce(&mut String), look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        step(&mut self.path);
        look(self);
        self.path.truncate(length);
    }

    fn check_value(&mut self, wanted: FieldType, value: &'t T) {
        match (wanted, value.node()) {
            (_, TreeNode::Scalar(Value::Null)) => {}
            (Fields(shape), TreeNode::Map(fields)) => self.check_fields(shape, fields),
            (MapOf(of), TreeNode::Map(fields)) => {
                for (name, value) in fields {
                    self.check_nested(|path| push_name(path, name), |check| check.check_value(*of, value));
                }
            }
            (ListOf(of), TreeNode::List(items)) => {
                for (index, item) in items.enumerate() {
                    let step = |path: &mut String| {
                        let _ = write!(path, "[{index}]");
                    };
                    self.check_nested(step, |check| check.check_value(*of, item));
                }
            }
            (wanted, TreeNode::Scalar(scalar)) if is_valid(wanted, scalar) => {}
            (wanted, seen) => {
                let found = match seen {
                    TreeNode::Scalar(Value::String(_)) if matches!(wanted, Base64) => {
                        "a string that is not base64"
                    }
                    TreeNode::Scalar(scalar) => crate::describe_json_type(scalar),
                    TreeNode::List(_) => "a list",
                    TreeNode::Map(_) => "a map",
                };
                let field = self.path.clone();
                self.errors.push(WrongType { field, expected: expected_text(wanted), found, value });
            }
        }
    }
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn is_valid(wanted: FieldType, value: &Value) -> bool {
    let whole = |value: &Value| value.is_i64() || value.is_u64();
    match wanted {
        Text => value.is_string(),
        Bool => value.is_boolean(),
        Integer | Port => whole(value),
        IntegerOrText => whole(value) || value.is_string(),
        Quantity => value.is_number() || value.is_string(),
        Base64 => value.as_str().is_some_and(is_base64),
        Fields(_) | MapOf(_) | ListOf(_) => false,
    }
}

fn expected_text(wanted: FieldType) -> &'static str {
    match wanted {
        Text => "a string (put quotes around it)",
        Bool => "true or false, without quotes",
        Integer => "a whole number, without quotes",
        Port => "a port number, without quotes",
        IntegerOrText => "a whole number or a string",
        Quantity => "a quantity such as 500m or 1Gi",
        Base64 => "base64 (use stringData for plain text)",
        Fields(_) => "a map",
        MapOf(Text) => "a map of strings",
        MapOf(_) => "a map",
        ListOf(_) => "a list",
    }
}

/// Returns true if the text is standard, padded base64. Line breaks are ignored.
fn is_base64(text: &str) -> bool {
    let (mut digits, mut padding) = (0_usize, 0_usize);
    for byte in text.bytes() {
        match byte {
            b'\n' | b'\r' => {}
            b'=' => padding += 1,
            _ if padding > 0 => return false,
            b'+' | b'/' => digits += 1,
            byte if byte.is_ascii_alphanumeric() => digits += 1,
            _ => return false,
        }
    }
    padding <= 2 && (digits + padding) % 4 == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong_fields(group: &str, kind: &str, object: &Value) -> Vec<String> {
        let text =
            |wrong: WrongType<'_, Value>| format!("{}: {}, not {}", wrong.field, wrong.expected, wrong.found);
        wrong_types(group, kind, object).into_iter().map(text).collect()
    }

    #[test]
    fn wrong_types_are_found_with_their_path() {
        for (group, kind, object, expected) in [
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": "three"}}),
                "spec.replicas: a whole number, without quotes, not a string",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 1.5}}),
                "spec.replicas: a whole number, without quotes, not a number",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"template": {"spec": {"containers": {"name": "a"}}}}}),
                "spec.template.spec.containers: a list, not a map",
            ),
            (
                "apps",
                "StatefulSet",
                json!({"spec": {"template": {"spec": {"containers": [{}, {"ports": [{"containerPort": "http"}]}]}}}}),
                "spec.template.spec.containers[1].ports[0].containerPort: a port number, without quotes, not a string",
            ),
            (
                "batch",
                "Job",
                json!({"spec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}}),
                "spec.template.spec.containers[0].env[0].value: a string (put quotes around it), not a number",
            ),
            (
                "batch",
                "CronJob",
                json!({"spec": {"jobTemplate": {"spec": {"suspend": "yes"}}}}),
                "spec.jobTemplate.spec.suspend: true or false, without quotes, not a string",
            ),
            ("", "ConfigMap", json!({"data": [1, 2]}), "data: a map of strings, not a list"),
            (
                "",
                "ConfigMap",
                json!({"data": {"n": 5}}),
                "data.n: a string (put quotes around it), not a number",
            ),
            (
                "",
                "Secret",
                json!({"data": {"p": "not base64!"}}),
                "data.p: base64 (use stringData for plain text), not a string that is not base64",
            ),
            (
                "",
                "Service",
                json!({"spec": {"ports": [{"port": "80"}]}}),
                "spec.ports[0].port: a port number, without quotes, not a string",
            ),
            (
                "rbac.authorization.k8s.io",
                "Role",
                json!({"rules": [{"verbs": "get"}]}),
                "rules[0].verbs: a list, not a string",
            ),
        ] {
            assert_eq!(wrong_fields(group, kind, &object), [expected], "{object}");
        }
    }

    #[test]
    fn values_that_a_server_accepts_are_valid() {
        for (group, kind, object) in [
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": null, "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}, "unknown": [1],
                "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}}}]}}}}),
            ),
            (
                "",
                "Secret",
                json!({"data": {"a": "", "b": "Zg==", "c": "Zm9v\nZm9v\n", "d": null}, "stringData": {"e": "5"}}),
            ),
            (
                "",
                "Service",
                json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]}}),
            ),
            ("example.com", "Deployment", json!({"spec": {"replicas": "three"}})),
            ("", "ConfigMap", json!({"data": null})),
        ] {
            assert_eq!(wrong_fields(group, kind, &object), [""; 0], "{object}");
        }
    }

    #[test]
    fn base64_needs_its_padding() {
        for (text, good) in [
            ("Zg", false),
            ("Zg==", true),
            ("Zg=", false),
            ("Z===", false),
            ("=Zg=", false),
            ("Zm9v", true),
            ("Zm-v", false),
        ] {
            assert_eq!(is_base64(text), good, "{text}");
        }
    }
}
