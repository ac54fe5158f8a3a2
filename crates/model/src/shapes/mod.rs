//! Which type the fields of built-in kinds have, as far as people get them wrong.
//!
//! Every API server refuses a field of another type. Fields that are not listed here are the server's business.

mod kinds;

use std::fmt::Write as _;

use serde_json::Value;

use kinds::KINDS;

/// What a field must hold. Nothing (`null`) is allowed everywhere: it means that the field is not set.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Flag,
    Whole,
    Port,
    WholeOrText,
    Quantity,
    Base64,
    /// A map with these fields, and others.
    Fields(Shape),
    /// A map of names to values of one type.
    MapOf(&'static Type),
    /// A list of values of one type.
    ListOf(&'static Type),
}

type Shape = &'static [(&'static str, Type)];

use Type::{Base64, Fields, Flag, ListOf, MapOf, Port, Quantity, Text, Whole, WholeOrText};

/// A value of a tree, wherever it comes from.
pub trait Tree: Sized {
    /// What the value is.
    fn seen(&self) -> Seen<'_, Self>;
}

/// What a value of a tree is.
pub enum Seen<'t, T> {
    /// Neither a list nor a map.
    Scalar(&'t Value),
    /// A list, with what it holds in order.
    List(Box<dyn Iterator<Item = &'t T> + 't>),
    /// A map, with its fields.
    Map(Box<dyn Iterator<Item = (&'t str, &'t T)> + 't>),
}

impl Tree for Value {
    fn seen(&self) -> Seen<'_, Self> {
        match self {
            Self::Array(items) => Seen::List(Box::new(items.iter())),
            Self::Object(fields) => {
                Seen::Map(Box::new(fields.iter().map(|(name, value)| (name.as_str(), value))))
            }
            scalar => Seen::Scalar(scalar),
        }
    }
}

/// A field of another type than its kind has there.
#[derive(Debug)]
pub struct WrongType<'t, T> {
    /// Where: `spec.template.spec.containers[0].image`.
    pub field: String,
    /// What it should hold, in words.
    pub expected: &'static str,
    /// What it holds, in words. Never the value itself.
    pub found: &'static str,
    /// The value that is there, for whoever may look at it.
    pub value: &'t T,
}

/// The fields of an object of a built-in kind that have another type than they should. Other kinds have none.
pub fn wrong_types<'t, T: Tree>(group: &str, kind: &str, object: &'t T) -> Vec<WrongType<'t, T>> {
    let shape = KINDS.iter().find(|(of, name, _)| *of == group && *name == kind).map(|(.., shape)| *shape);
    let mut check = Check { path: String::new(), wrong: Vec::new() };
    if let (Some(shape), Seen::Map(fields)) = (shape, object.seen()) {
        check.fields(shape, fields);
    }
    check.wrong
}

struct Check<'t, T> {
    path: String,
    wrong: Vec<WrongType<'t, T>>,
}

impl<'t, T: Tree> Check<'t, T> {
    fn fields(&mut self, shape: Shape, fields: impl Iterator<Item = (&'t str, &'t T)>) {
        for (name, value) in fields {
            if let Some((_, wanted)) = shape.iter().find(|(field, _)| *field == name) {
                self.inside(|path| push_name(path, name), |check| check.value(*wanted, value));
            }
        }
    }

    fn inside(&mut self, step: impl FnOnce(&mut String), look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        step(&mut self.path);
        look(self);
        self.path.truncate(length);
    }

    fn value(&mut self, wanted: Type, value: &'t T) {
        match (wanted, value.seen()) {
            (_, Seen::Scalar(Value::Null)) => {}
            (Fields(shape), Seen::Map(fields)) => self.fields(shape, fields),
            (MapOf(of), Seen::Map(fields)) => {
                for (name, value) in fields {
                    self.inside(|path| push_name(path, name), |check| check.value(*of, value));
                }
            }
            (ListOf(of), Seen::List(items)) => {
                for (index, item) in items.enumerate() {
                    let step = |path: &mut String| {
                        let _ = write!(path, "[{index}]");
                    };
                    self.inside(step, |check| check.value(*of, item));
                }
            }
            (wanted, Seen::Scalar(scalar)) if fits(wanted, scalar) => {}
            (wanted, seen) => {
                let found = match seen {
                    Seen::Scalar(Value::String(_)) if matches!(wanted, Base64) => "a text that is not",
                    Seen::Scalar(scalar) => crate::describe(scalar),
                    Seen::List(_) => "a list",
                    Seen::Map(_) => "a map",
                };
                let field = self.path.clone();
                self.wrong.push(WrongType { field, expected: expected(wanted), found, value });
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

fn fits(wanted: Type, value: &Value) -> bool {
    let whole = |value: &Value| value.is_i64() || value.is_u64();
    match wanted {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Whole | Port => whole(value),
        WholeOrText => whole(value) || value.is_string(),
        Quantity => value.is_number() || value.is_string(),
        Base64 => value.as_str().is_some_and(is_base64),
        Fields(_) | MapOf(_) | ListOf(_) => false,
    }
}

fn expected(wanted: Type) -> &'static str {
    match wanted {
        Text => "a text (put quotes around it)",
        Flag => "true or false, without quotes",
        Whole => "a whole number, without quotes",
        Port => "a port number, without quotes",
        WholeOrText => "a whole number or a text",
        Quantity => "a quantity such as 500m or 1Gi",
        Base64 => "base64 (stringData takes plain text)",
        Fields(_) => "a map",
        MapOf(Text) => "a map of texts",
        MapOf(_) => "a map",
        ListOf(_) => "a list",
    }
}

/// Standard base64 with padding; line ends do not count.
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

    fn wrong(group: &str, kind: &str, object: &Value) -> Vec<String> {
        let text =
            |wrong: WrongType<'_, Value>| format!("{}: {}, not {}", wrong.field, wrong.expected, wrong.found);
        wrong_types(group, kind, object).into_iter().map(text).collect()
    }

    #[test]
    fn wrong_types_are_found_with_their_place() {
        for (group, kind, object, expected) in [
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": "three"}}),
                "spec.replicas: a whole number, without quotes, not a text",
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
                "spec.template.spec.containers[1].ports[0].containerPort: a port number, without quotes, not a text",
            ),
            (
                "batch",
                "Job",
                json!({"spec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}}),
                "spec.template.spec.containers[0].env[0].value: a text (put quotes around it), not a number",
            ),
            (
                "batch",
                "CronJob",
                json!({"spec": {"jobTemplate": {"spec": {"suspend": "yes"}}}}),
                "spec.jobTemplate.spec.suspend: true or false, without quotes, not a text",
            ),
            ("", "ConfigMap", json!({"data": [1, 2]}), "data: a map of texts, not a list"),
            (
                "",
                "ConfigMap",
                json!({"data": {"n": 5}}),
                "data.n: a text (put quotes around it), not a number",
            ),
            (
                "",
                "Secret",
                json!({"data": {"p": "not base64!"}}),
                "data.p: base64 (stringData takes plain text), not a text that is not",
            ),
            (
                "",
                "Service",
                json!({"spec": {"ports": [{"port": "80"}]}}),
                "spec.ports[0].port: a port number, without quotes, not a text",
            ),
            (
                "rbac.authorization.k8s.io",
                "Role",
                json!({"rules": [{"verbs": "get"}]}),
                "rules[0].verbs: a list, not a text",
            ),
        ] {
            assert_eq!(wrong(group, kind, &object), [expected], "{object}");
        }
    }

    #[test]
    fn what_a_server_takes_is_right() {
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
            assert_eq!(wrong(group, kind, &object), [""; 0], "{object}");
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
