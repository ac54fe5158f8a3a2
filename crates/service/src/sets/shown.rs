//! An ApplicationSet as it may be shown: without credentials.

use serde_json::Value;
use tidegate_application::credentials::text_without_credentials;
use tidegate_model::argo::ApplicationSet;

/// A set without the credentials of addresses, wherever they are in it: in sources, in generators, in their elements, in
/// patches, and in the copy that `kubectl apply` keeps.
pub fn shown(set: &ApplicationSet) -> ApplicationSet {
    let hidden = serde_json::to_value(set).and_then(|mut value| {
        hide(&mut value);
        serde_json::from_value(value)
    });
    // What it was read from is what it is written as.
    hidden.unwrap_or_default()
}

fn hide(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("://") => *text = text_without_credentials(text),
        Value::Array(all) => all.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_credentials_are_left_and_nothing_else_is_changed() {
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
        assert_eq!(shown(&set(secret)), set("https://******@example.com/a.git"));
        assert_eq!(shown(&set("./repo")), set("./repo"));
    }
}
