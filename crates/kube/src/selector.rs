//! Converts label selectors to query parameters.

use serde_json::{Map, Value};

use crate::paths::push_value;

/// Returns `&labelSelector=…` for a selector with `matchLabels` and `matchExpressions`. `None` if the
/// selector is empty or malformed.
pub(crate) fn selector_query(selector: &Value) -> Option<String> {
    let selector = selector.as_object()?;
    let mut terms = equality_terms(selector.get("matchLabels").and_then(Value::as_object))?;
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        terms.push(expression_term(expression)?);
    }
    join_terms(&terms)
}

/// Returns the query for a ReplicationController's selector, which is a plain map of labels.
pub(crate) fn labels_query(labels: &Value) -> Option<String> {
    join_terms(&equality_terms(labels.as_object())?)
}

fn equality_terms(labels: Option<&Map<String, Value>>) -> Option<Vec<String>> {
    labels.into_iter().flatten().map(|(name, value)| Some(format!("{name}={}", value.as_str()?))).collect()
}

fn expression_term(expression: &Value) -> Option<String> {
    let text = |field| expression.get(field).and_then(Value::as_str);
    let key = text("key")?;
    let values = || -> Option<String> {
        let values = expression.get("values")?.as_array()?;
        let values: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
        Some(values?.join(","))
    };
    Some(match text("operator")? {
        "In" => format!("{key} in ({})", values()?),
        "NotIn" => format!("{key} notin ({})", values()?),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    })
}

fn join_terms(terms: &[String]) -> Option<String> {
    if terms.is_empty() {
        return None;
    }
    let mut query = "&labelSelector=".to_owned();
    push_value(&mut query, &terms.join(","));
    Some(query)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_become_queries_or_nothing() {
        for (selector, expected) in [
            (json!({"matchLabels": {"app": "api", "tier": "web"}}), Some("app%3Dapi,tier%3Dweb")),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [
                    {"key": "x", "operator": "In", "values": ["1", "2"]},
                    {"key": "y", "operator": "NotIn", "values": ["3"]},
                    {"key": "example.org/z", "operator": "Exists"},
                    {"key": "w", "operator": "DoesNotExist"},
                ]}),
                Some("a%3Db,x%20in%20(1,2),y%20notin%20(3),example.org/z,!w"),
            ),
            (json!({}), None),
            (json!(null), None),
            (json!({"matchLabels": {"app": 1}}), None),
            (json!({"matchExpressions": [{"key": "x", "operator": "Near"}]}), None),
        ] {
            let expected = expected.map(|terms| format!("&labelSelector={terms}"));
            assert_eq!(selector_query(&selector), expected, "{selector}");
        }
        assert_eq!(labels_query(&json!({"a": "b"})).as_deref(), Some("&labelSelector=a%3Db"));
    }
}
