//! Selectors for labels and parameters. Unlike in Kubernetes, they accept any value, even URLs, long strings
//! and empty strings.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_model::argo::{LabelSelector, MatchExpression};

use crate::error::Problem;
use crate::name_rules::invalid_name_reason;
use crate::parameters::Parameters;

/// A validated selector.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Validates a selector.
    ///
    /// # Errors
    ///
    /// Returns an error if an operator is unknown, or if a key isn't a valid label key.
    pub fn new(selector: &LabelSelector) -> Result<Self, Problem> {
        let labels = selector.match_labels.iter();
        let mut requirements = Vec::new();
        for (key, value) in labels {
            requirements.push(Requirement {
                key: check_key(key)?,
                operator: Operator::In,
                values: vec![value.clone()],
            });
        }
        for expression in &selector.match_expressions {
            requirements.push(Requirement::new(expression)?);
        }
        Ok(Self { requirements })
    }

    /// Returns true if the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the number of steps that one match costs.
    pub(crate) fn match_cost(&self) -> usize {
        self.requirements.iter().map(|requirement| 1 + requirement.values.len()).sum()
    }

    /// Returns true if the selector matches these labels.
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches(|key| labels.get(key).map(String::as_str))
    }

    /// Returns true if the selector matches these flat parameters.
    pub(crate) fn matches_parameters(&self, parameters: &Parameters) -> bool {
        self.matches(|key| parameters.get(key).and_then(Value::as_str))
    }

    fn matches<'v>(&self, value_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value_of(&requirement.key);
            let is_in = || value.is_some_and(|value| requirement.values.iter().any(|one| one == value));
            match requirement.operator {
                Operator::In => is_in(),
                Operator::NotIn => !is_in(),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn new(expression: &MatchExpression) -> Result<Self, Problem> {
        let wrong = |reason: String| Problem::Selector { reason };
        let (operator, takes_values) = match expression.operator.as_str() {
            "In" => (Operator::In, true),
            "NotIn" => (Operator::NotIn, true),
            "Exists" => (Operator::Exists, false),
            "DoesNotExist" => (Operator::DoesNotExist, false),
            other => {
                return Err(wrong(format!(
                    "unknown operator {other:?}; use In, NotIn, Exists or DoesNotExist"
                )));
            }
        };
        if takes_values == expression.values.is_empty() {
            let how = if takes_values { "needs values" } else { "takes no values" };
            return Err(wrong(format!(
                "operator {} for key {:?} {how}",
                expression.operator, expression.key
            )));
        }
        Ok(Self { key: check_key(&expression.key)?, operator, values: expression.values.clone() })
    }
}

/// Returns the key if it is a valid label key: `name`, or `prefix/name` with a DNS name as the prefix.
fn check_key(key: &str) -> Result<String, Problem> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let can_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_name = can_end(name.chars().next())
        && can_end(name.chars().last())
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if is_name && prefix.is_none_or(|prefix| invalid_name_reason(prefix).is_none()) {
        Ok(key.to_owned())
    } else {
        let reason = format!(
            "invalid label key {key:?}: use at most 63 letters, digits, '-', '_' and '.', optionally after a DNS name and '/'"
        );
        Err(Problem::Selector { reason })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: Value) -> Result<bool, Problem> {
        let labels = json!({
            "env": "prod", "tier": "", "server": "https://example.com:6443/path", "metadata.labels.a.io/b": "c",
            "long": "x".repeat(100),
        });
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        Ok(Selector::new(&selector)?.matches_parameters(labels.as_object().unwrap()))
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn all_requirements_must_match() {
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"env": "prod"}}), true),
            (json!({"matchLabels": {"env": "prod", "tier": "x"}}), false),
            (json!({"matchLabels": {"tier": ""}}), true),
            (json!({"matchLabels": {"server": "https://example.com:6443/path"}}), true),
            (json!({"matchLabels": {"metadata.labels.a.io/b": "c"}}), true),
            (json!({"matchLabels": {"long": "x".repeat(100)}}), true),
            (json!({"matchLabels": {"missing": ""}}), false),
            (expression("env", "In", &["qa", "prod"]), true),
            (expression("env", "In", &["qa"]), false),
            (expression("missing", "In", &["qa"]), false),
            (expression("env", "NotIn", &["prod"]), false),
            (expression("missing", "NotIn", &["prod"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("missing", "Exists", &[]), false),
            (expression("tier", "DoesNotExist", &[]), false),
            (expression("missing", "DoesNotExist", &[]), true),
        ] {
            assert_eq!(matches(selector.clone()), Ok(expected), "{selector}");
        }
    }

    #[test]
    fn invalid_requirements_are_errors() {
        for selector in [
            expression("env", "Is", &["prod"]),
            expression("env", "in", &["prod"]),
            expression("env", "In", &[]),
            expression("env", "Exists", &["prod"]),
            expression("", "Exists", &[]),
            expression("path[0]", "Exists", &[]),
            expression("/a", "Exists", &[]),
            expression("A_B/c", "Exists", &[]),
            json!({"matchLabels": {"a b": "c"}}),
        ] {
            assert!(matches(selector.clone()).is_err(), "{selector}");
        }
    }
}
