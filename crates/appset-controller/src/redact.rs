//! Removes credentials from ApplicationSets before they are displayed.

use serde_json::Value;
use tidegate_application::credentials::text_without_credentials;
use tidegate_model::argo::ApplicationSet;

/// Returns an ApplicationSet without the credentials in its URLs: in sources, generators, list elements,
/// patches, and the copy that `kubectl apply` keeps.
pub fn redact_appset(set: &ApplicationSet) -> ApplicationSet {
    let hidden = serde_json::to_value(set).and_then(|mut value| {
        redact_value(&mut value);
        serde_json::from_value(value)
    });
    // The value was serialized from an ApplicationSet, so parsing can't fail.
    hidden.unwrap_or_default()
}

fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("://") => *text = text_without_credentials(text),
        Value::Array(all) => all.iter_mut().for_each(redact_value),
        Value::Object(fields) => fields.values_mut().for_each(redact_value),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_removed_and_nothing_else_changes() {
        let secret = "https://me:hunter2@example.com/a.git";
        let set = |url: &str| {
            let written = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "metadata": {"name": "fleet", "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"repoURL\":\"{url}\"}}"),
                }},
                "spec": {
                    "generators": [
                        {"git": {"repoURL": url, "revision": "HEAD"}},
                        {"list": {"elements": [{"url": url, "say": "a, b: 'c' <d>"}]}},
                    ],
                    "templatePatch": format!("spec:\n  source: {{repoURL: '{url}'}}\n"),
                    "template": {"metadata": {"name": "a"}, "spec": {
                        "project": "default", "destination": {"server": "https://kubernetes.default.svc"},
                        "source": {"repoURL": url, "path": "a"},
                    }},
                },
            });
            serde_json::from_value::<ApplicationSet>(written).unwrap()
        };
        assert_eq!(redact_appset(&set(secret)), set("https://******@example.com/a.git"));
        assert_eq!(redact_appset(&set("./repo")), set("./repo"));
    }
}
