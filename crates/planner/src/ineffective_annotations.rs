//! Annotations that look effective but have no effect.

use tidegate_model::annotations::known_keys::{self, AnnotationSubject};
use tidegate_model::{Object, annotations};

use crate::hooks::Remark;
use crate::text::split_list;

const COMPARE_OPTIONS: [&str; 5] = [
    "IgnoreExtraneous",
    "ServerSideDiff=true",
    "ServerSideDiff=false",
    "IncludeMutationWebhook=true",
    "IncludeMutationWebhook=false",
];

/// Returns remarks about an object's annotations that have no effect.
pub(crate) fn review_ineffective(object: &Object) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for option in split_list(object.annotation(annotations::COMPARE_OPTIONS).unwrap_or_default()) {
        if !COMPARE_OPTIONS.contains(&option) {
            let known = COMPARE_OPTIONS.join(", ");
            let message = format!("unknown compare option {option:?} is ignored; use one of {known}");
            remarks.push(("unknown-compare-option", message));
        }
    }
    if let Some(value) = object.annotation(annotations::IGNORE_HEALTHCHECK)
        && !matches!(value, "true" | "false")
    {
        let name = annotations::IGNORE_HEALTHCHECK;
        let message = format!("the {name} annotation has no effect with the value {value:?}; use \"true\"");
        remarks.push(("annotation-without-effect", message));
    }
    let names = object.pointer("/metadata/annotations").and_then(|all| all.as_object());
    let names = names.into_iter().flat_map(|all| all.keys());
    let warnings = names
        .filter_map(|name| known_keys::ineffective_key_warning(name, AnnotationSubject::for_object(object)));
    remarks.extend(warnings.map(|warning| ("unknown-annotation", warning)));
    remarks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_without_effect_are_reported() {
        for (name, value, said) in [
            ("compare-options", "IgnoreExtraneous, ServerSideDiff=true", None),
            ("compare-options", "IgnoreExtranous", Some("unknown compare option \"IgnoreExtranous\"")),
            (
                "compare-options",
                "ServerSideDiff=maybe",
                Some("unknown compare option \"ServerSideDiff=maybe\""),
            ),
            ("ignore-healthcheck", "true", None),
            ("ignore-healthcheck", "TRUE", Some("has no effect with the value \"TRUE\"")),
            ("syncwave", "1", Some("did you mean argocd.argoproj.io/sync-wave?")),
            ("sync-option", "Prune=false", Some("did you mean argocd.argoproj.io/sync-options?")),
            ("Hook", "PreSync", Some("did you mean argocd.argoproj.io/hook?")),
            ("manifest-generate-paths", ".", None),
        ] {
            let name = format!("argocd.argoproj.io/{name}");
            let metadata = json!({"name": "a", "annotations": {name.as_str(): value}});
            let object =
                Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
            let remarks = review_ineffective(&object.unwrap());
            assert_eq!(remarks.len(), usize::from(said.is_some()), "{name}: {remarks:?}");
            assert!(said.is_none_or(|said| remarks[0].1.contains(said)), "{remarks:?}");
        }
    }
}
