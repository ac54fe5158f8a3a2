//! Reads a resource, and says which field is wrong where it cannot be read.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why a resource cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", prefix(.field))]
pub struct Unreadable {
    /// The path of the field, such as `spec.strategy.rollingSync.steps[0]`; empty where it is the resource itself.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

fn prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// Reads a resource from its document.
///
/// # Errors
///
/// A field has another type, or one is missing that has to be there.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Unreadable> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        // The document itself is written as a dot.
        let field = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        Unreadable { field, problem: error.into_inner().to_string() }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::argo::{Application, ApplicationSet};

    #[test]
    fn the_field_is_named_that_cannot_be_read() {
        let set = |spec: Value| {
            json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "metadata": {"name": "fleet"}, "spec": spec,
            })
        };
        let template = json!({"metadata": {"name": "a"}, "spec": {"project": "", "destination": {}}});
        let steps =
            json!({"type": "RollingSync", "rollingSync": {"steps": [{}, {"matchExpressions": "env"}]}});
        let wrong = [
            (
                set(json!({"generators": [], "template": template, "strategy": steps})),
                "spec.strategy.rollingSync.steps[1].matchExpressions",
            ),
            (set(json!({"generators": {"list": {}}, "template": template})), "spec.generators"),
            (
                set(json!({"generators": [{"list": {"elements": 3}}], "template": template})),
                "spec.generators[0].list.elements",
            ),
            (json!("nothing"), ""),
        ];
        for (document, field) in wrong {
            let error = read::<ApplicationSet>(&document).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(!error.problem.is_empty());
            assert_eq!(error.to_string().starts_with(&format!("{field}: ")), !field.is_empty(), "{error}");
        }
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "", "destination": {"server": 3}},
        });
        assert_eq!(read::<Application>(&application).unwrap_err().field, "spec.destination.server");
    }
}
