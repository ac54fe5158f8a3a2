//! Annotations that look as if they meant something, and mean nothing.

use tidegate_model::{Object, annotations};

use crate::hooks::Remark;
use crate::text::words;

const PREFIX: &str = "argocd.argoproj.io/";
/// What Argo CD and Tidegate read from resources.
const KNOWN: [&str; 11] = [
    annotations::HOOK,
    annotations::HOOK_DELETE_POLICY,
    annotations::SYNC_WAVE,
    annotations::SYNC_OPTIONS,
    annotations::COMPARE_OPTIONS,
    annotations::TRACKING_ID,
    annotations::IGNORE_HEALTHCHECK,
    annotations::DELETION_APPROVED,
    annotations::MIGRATION_MANAGER,
    annotations::INSTALLATION_ID,
    annotations::HOOK_FINALIZER,
];
const COMPARE_OPTIONS: [&str; 5] = [
    "IgnoreExtraneous",
    "ServerSideDiff=true",
    "ServerSideDiff=false",
    "IncludeMutationWebhook=true",
    "IncludeMutationWebhook=false",
];

/// What is surprising in the annotations of an object.
pub(crate) fn review(object: &Object) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for option in words(object.annotation(annotations::COMPARE_OPTIONS).unwrap_or_default()) {
        if !COMPARE_OPTIONS.contains(&option) {
            let known = COMPARE_OPTIONS.join(", ");
            let message = format!("compare option {option:?} is not known and is ignored; known are {known}");
            remarks.push(("unknown-compare-option", message));
        }
    }
    if let Some(value) = object.annotation(annotations::IGNORE_HEALTHCHECK)
        && !matches!(value, "true" | "false")
    {
        let name = annotations::IGNORE_HEALTHCHECK;
        let message = format!("annotation {name} has an effect as \"true\" only, not as {value:?}");
        remarks.push(("annotation-without-effect", message));
    }
    for (written, meant) in misspelt(object) {
        let message = format!("annotation {written} is not known and is ignored; did you mean {meant}?");
        remarks.push(("unknown-annotation", message));
    }
    remarks
}

/// Annotations of Argo CD that are a known one but for signs, capitals or the plural.
fn misspelt(object: &Object) -> impl Iterator<Item = (&str, &'static str)> {
    let names = object.pointer("/metadata/annotations").and_then(|all| all.as_object());
    let names = names.into_iter().flat_map(|all| all.keys()).map(String::as_str);
    names.filter(|name| name.starts_with(PREFIX) && !KNOWN.contains(name)).filter_map(|name| {
        let meant = KNOWN.iter().find(|known| letters(known) == letters(name))?;
        Some((name, *meant))
    })
}

fn letters(name: &str) -> String {
    let all: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let all = all.to_ascii_lowercase();
    all.strip_suffix('s').map(str::to_owned).unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_looks_meant_is_remarked_on() {
        for (name, value, said) in [
            ("compare-options", "IgnoreExtraneous, ServerSideDiff=true", None),
            ("compare-options", "IgnoreExtranous", Some("\"IgnoreExtranous\" is not known")),
            ("compare-options", "ServerSideDiff=maybe", Some("\"ServerSideDiff=maybe\" is not known")),
            ("ignore-healthcheck", "true", None),
            ("ignore-healthcheck", "TRUE", Some("as \"true\" only, not as \"TRUE\"")),
            ("syncwave", "1", Some("did you mean argocd.argoproj.io/sync-wave?")),
            ("sync-option", "Prune=false", Some("did you mean argocd.argoproj.io/sync-options?")),
            ("Hook", "PreSync", Some("did you mean argocd.argoproj.io/hook?")),
            ("manifest-generate-paths", ".", None),
        ] {
            let name = format!("{PREFIX}{name}");
            let metadata = json!({"name": "a", "annotations": {name.as_str(): value}});
            let object =
                Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
            let remarks = review(&object.unwrap());
            assert_eq!(remarks.len(), usize::from(said.is_some()), "{name}: {remarks:?}");
            assert!(said.is_none_or(|said| remarks[0].1.contains(said)), "{remarks:?}");
        }
    }
}
