//! Which fields of an object do not count?

mod jq;

use serde_json::Value;
use tidegate_model::{IgnoreDifference, Object};

use super::owned;
use super::path::{Path, find_pointer};
use jq::Jq;
pub use jq::JqError;

/// What is wrong with an entry of `ignoreDifferences`. The entry's other fields hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// An entry without a kind fits nothing.
    #[error("entry {entry} has no kind; write a kind, or \"*\" for all")]
    NoKind {
        /// Which entry, from 1.
        entry: usize,
    },
    /// An entry that names no fields.
    #[error(
        "entry {entry} ignores nothing; give it jsonPointers, jqPathExpressions or managedFieldsManagers"
    )]
    NoFields {
        /// Which entry, from 1.
        entry: usize,
    },
    /// A pattern with more than `*` and `?`.
    #[error("entry {entry}: the pattern {pattern:?} has more than * and ?; write one entry for each kind")]
    Pattern {
        /// Which entry, from 1.
        entry: usize,
        /// The group or kind.
        pattern: String,
    },
    /// Not a JSON pointer.
    #[error("entry {entry}: {pointer:?} is not a JSON pointer; write for example /spec/replicas")]
    Pointer {
        /// Which entry, from 1.
        entry: usize,
        /// The text that should be one.
        pointer: String,
    },
    /// Not a path expression.
    #[error("entry {entry}: the jq expression {expression:?}: {cause}")]
    Jq {
        /// Which entry, from 1.
        entry: usize,
        /// The expression, as it was written.
        expression: String,
        /// What about it is wrong, or too much.
        cause: JqError,
    },
}

/// Fields that do not count, ready for use.
#[derive(Default)]
pub(super) struct IgnoreRules {
    rules: Vec<Rule>,
}

struct Rule {
    scope: IgnoreDifference,
    jq: Vec<Jq>,
}

impl IgnoreRules {
    /// Compiles entries. What is wrong with some does not touch the others.
    pub fn compile(entries: &[IgnoreDifference]) -> (Self, Vec<IgnoreError>) {
        let mut errors = Vec::new();
        let mut rules = Vec::new();
        for (index, scope) in entries.iter().enumerate() {
            let entry = index + 1;
            let before = errors.len();
            check(entry, scope, &mut errors);
            let mut jq = Vec::new();
            for expression in &scope.jq_path_expressions {
                match Jq::compile(expression) {
                    Ok(compiled) => jq.push(compiled),
                    Err(cause) => {
                        errors.push(IgnoreError::Jq { entry, expression: expression.clone(), cause });
                    }
                }
            }
            let usable =
                !errors.iter().skip(before).any(|error| matches!(error, IgnoreError::Pattern { .. }));
            if usable {
                rules.push(Rule { scope: scope.clone(), jq });
            }
        }
        (Self { rules }, errors)
    }

    /// Whether some rule is about the object.
    pub fn apply_to(&self, object: &Object) -> bool {
        self.rules.iter().any(|rule| rule.is_about(object))
    }

    /// The places in `value` that do not count. `value` is what is compared of `object`, wanted or live, and
    /// `live` says who owns which field.
    pub fn paths(&self, object: &Object, value: &Value, live: &Object) -> Vec<Path> {
        let mut paths = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.is_about(object)) {
            paths.extend(rule.scope.json_pointers.iter().filter_map(|pointer| find_pointer(pointer, value)));
            paths.extend(rule.jq.iter().flat_map(|jq| jq.paths(value)));
            for manager in &rule.scope.managed_fields_managers {
                paths.extend(owned::places_of(manager, live, value));
            }
        }
        paths
    }
}

impl Rule {
    fn is_about(&self, object: &Object) -> bool {
        let Self { scope, .. } = self;
        matches_glob(&scope.kind, object.kind())
            && matches_glob(&scope.group, object.group())
            && (scope.name.is_empty() || scope.name == object.name())
            && (scope.namespace.is_empty() || scope.namespace == object.namespace())
    }
}

fn check(entry: usize, scope: &IgnoreDifference, errors: &mut Vec<IgnoreError>) {
    if scope.kind.is_empty() {
        errors.push(IgnoreError::NoKind { entry });
    }
    if scope.json_pointers.is_empty()
        && scope.jq_path_expressions.is_empty()
        && scope.managed_fields_managers.is_empty()
    {
        errors.push(IgnoreError::NoFields { entry });
    }
    for pattern in [&scope.group, &scope.kind] {
        if pattern.contains(['[', ']', '{', '}', '\\']) {
            errors.push(IgnoreError::Pattern { entry, pattern: pattern.clone() });
        }
    }
    for pointer in &scope.json_pointers {
        if !pointer.starts_with('/') {
            errors.push(IgnoreError::Pointer { entry, pointer: pointer.clone() });
        }
    }
}

/// `*` stands for any text, `?` for any one character.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Where the last `*` was, and how much it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(c) if *c == '?' || text.get(read) == Some(c) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                at = place + 1;
                read = taken + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "apps", false),
            ("*", "", true),
            ("*", "apps", true),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "example.com", false),
            ("?pps", "apps", true),
            ("a*p*s", "apps", true),
            ("a*p*x", "apps", false),
            ("Deployment", "Deployments", false),
        ] {
            assert_eq!(matches_glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mistakes_are_named_and_the_rest_holds() {
        let entry = |value: Value| serde_json::from_value::<IgnoreDifference>(value).unwrap();
        let (rules, errors) = IgnoreRules::compile(&[
            entry(json!({"kind": "Deployment", "group": "apps", "jsonPointers": ["/spec/replicas", "spec"],
                "jqPathExpressions": [".a | now"]})),
            entry(json!({"kind": ""})),
            entry(json!({"kind": "{A,B}", "jsonPointers": ["/spec"]})),
        ]);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 5, "{messages:#?}");
        assert!(messages[0].contains("\"spec\" is not a JSON pointer"));
        assert!(messages[1].contains("now/0 cannot be used to name fields"));
        let object = Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 1}}))
        .unwrap();
        let paths = rules.paths(&object, object.as_value(), &object);
        assert_eq!(paths.iter().map(Path::to_string).collect::<Vec<_>>(), ["/spec/replicas"]);
    }

    #[test]
    fn rules_are_for_their_objects_only() {
        let rule = |name: &str, namespace: &str| IgnoreDifference {
            kind: "Config*".into(),
            name: name.into(),
            namespace: namespace.into(),
            json_pointers: vec!["/data".into()],
            ..IgnoreDifference::default()
        };
        let object = Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n"}, "data": {}}))
        .unwrap();
        for (name, namespace, expected) in [
            ("", "", true),
            ("a", "", true),
            ("a", "n", true),
            ("a*", "", false),
            ("a", "m", false),
            ("b", "n", false),
        ] {
            let (rules, _) = IgnoreRules::compile(&[rule(name, namespace)]);
            assert_eq!(rules.apply_to(&object), expected, "{name} {namespace}");
        }
    }
}
