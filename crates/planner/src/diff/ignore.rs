//! Rules for ignoring fields of an object.

mod jq;

use serde_json::Value;
use tidegate_model::{IgnoreDifference, Object};

use super::field_ownership;
use super::path::{Path, find_pointer};
use jq::Jq;
pub use jq::JqError;

/// Error in an `ignoreDifferences` entry. The entry's other fields remain in effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// The entry has no kind, so it never matches.
    #[error("entry {entry} has no kind; set a kind, or \"*\" for all")]
    NoKind {
        /// Number of the entry, starting at 1.
        entry: usize,
    },
    /// The entry doesn't specify any fields.
    #[error(
        "entry {entry} does not ignore anything; set jsonPointers, jqPathExpressions or managedFieldsManagers"
    )]
    NoFields {
        /// Number of the entry, starting at 1.
        entry: usize,
    },
    /// A pattern contains wildcards other than `*` and `?`.
    #[error(
        "entry {entry}: pattern {pattern:?} has wildcards other than * and ?; use one entry for each kind"
    )]
    Pattern {
        /// Number of the entry, starting at 1.
        entry: usize,
        /// Pattern for the group or kind.
        pattern: String,
    },
    /// A JSON pointer is invalid.
    #[error("entry {entry}: invalid JSON pointer {pointer:?}; use a path such as /spec/replicas")]
    Pointer {
        /// Number of the entry, starting at 1.
        entry: usize,
        /// The invalid pointer.
        pointer: String,
    },
    /// A jq path expression is invalid.
    #[error("entry {entry}: invalid jq expression {expression:?}: {cause}")]
    Jq {
        /// Number of the entry, starting at 1.
        entry: usize,
        /// The expression as the user wrote it.
        expression: String,
        /// Reason why the expression is invalid.
        cause: JqError,
    },
}

/// Compiled rules for ignored fields.
#[derive(Default)]
pub(super) struct IgnoreRules {
    rules: Vec<Rule>,
}

struct Rule {
    scope: IgnoreDifference,
    jq: Vec<Jq>,
}

impl IgnoreRules {
    /// Compiles entries. Invalid parts are skipped, and their errors returned.
    pub fn compile(entries: &[IgnoreDifference]) -> (Self, Vec<IgnoreError>) {
        let mut errors = Vec::new();
        let mut rules = Vec::new();
        for (index, scope) in entries.iter().enumerate() {
            let entry = index + 1;
            let before = errors.len();
            check_entry(entry, scope, &mut errors);
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

    /// Returns true if a rule matches the object.
    pub fn has_rule_for(&self, object: &Object) -> bool {
        self.rules.iter().any(|rule| rule.applies_to(object))
    }

    /// Returns the paths to ignore in `value`, the compared part of `object` (a target or a live object).
    /// Field owners are taken from `live`.
    pub fn paths(&self, object: &Object, value: &Value, live: &Object) -> Vec<Path> {
        let mut paths = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.applies_to(object)) {
            paths.extend(rule.scope.json_pointers.iter().filter_map(|pointer| find_pointer(pointer, value)));
            paths.extend(rule.jq.iter().flat_map(|jq| jq.paths(value)));
            for manager in &rule.scope.managed_fields_managers {
                paths.extend(field_ownership::field_places(manager, live, value));
            }
        }
        paths
    }
}

impl Rule {
    fn applies_to(&self, object: &Object) -> bool {
        let Self { scope, .. } = self;
        matches_glob(&scope.kind, object.kind())
            && matches_glob(&scope.group, object.group())
            && (scope.name.is_empty() || scope.name == object.name())
            && (scope.namespace.is_empty() || scope.namespace == object.namespace())
    }
}

fn check_entry(entry: usize, scope: &IgnoreDifference, errors: &mut Vec<IgnoreError>) {
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

/// Matches a pattern in which `*` matches any text and `?` matches any single character.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Position of the last `*`, and how much text it matches so far.
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
    fn invalid_entries_are_reported_and_the_others_apply() {
        let entry = |value: Value| serde_json::from_value::<IgnoreDifference>(value).unwrap();
        let (rules, errors) = IgnoreRules::compile(&[
            entry(json!({"kind": "Deployment", "group": "apps", "jsonPointers": ["/spec/replicas", "spec"],
                "jqPathExpressions": [".a | now"]})),
            entry(json!({"kind": ""})),
            entry(json!({"kind": "{A,B}", "jsonPointers": ["/spec"]})),
        ]);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 5, "{messages:#?}");
        assert!(messages[0].contains("invalid JSON pointer \"spec\""));
        assert!(messages[1].contains("now/0 cannot select fields"));
        let object = Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 1}}))
        .unwrap();
        let paths = rules.paths(&object, object.as_value(), &object);
        assert_eq!(paths.iter().map(Path::to_string).collect::<Vec<_>>(), ["/spec/replicas"]);
    }

    #[test]
    fn rules_apply_only_to_their_objects() {
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
            assert_eq!(rules.has_rule_for(&object), expected, "{name} {namespace}");
        }
    }
}
