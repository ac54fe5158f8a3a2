//! Warnings about an application's annotations that have no effect.

use tidegate_model::annotations::known_keys::{self, AnnotationSubject};
use tidegate_model::argo::Application;

use crate::confirmation;
use crate::dependencies::DEPENDS_ON;

/// Condition type for these warnings, specific to Tidegate.
pub const SPEC_WARNING_CONDITION: &str = "SpecWarning";
/// Maximum number of names listed in a message.
const NAMED_MAX: usize = 10;
/// Returns a message for each annotation that has no effect, with the reason.
pub fn ignored_annotations(application: &Application) -> Vec<String> {
    let names = application.metadata.annotations.keys();
    let unknown = names
        .filter_map(|name| known_keys::ineffective_key_warning(name, AnnotationSubject::Application))
        .take(NAMED_MAX);
    let wrong =
        [invalid_dependency_names(application), confirmation::invalid_annotation_message(application)];
    unknown.chain(wrong.into_iter().flatten()).collect()
}

/// Describes dependencies that can never exist, because they aren't valid application names.
fn invalid_dependency_names(application: &Application) -> Option<String> {
    let given = application.annotation(DEPENDS_ON)?;
    let text = given.split(',').map(str::trim).filter(|word| !word.is_empty());
    let wrong: Vec<String> = text
        .filter(|word| !is_application_name(word))
        .take(NAMED_MAX)
        .map(|word| format!("{word:?}"))
        .collect();
    (!wrong.is_empty()).then(|| {
        format!(
            "{DEPENDS_ON} has invalid entries: {}; use NAME or NAMESPACE/NAME, separated by commas; the \
             application will not be synced until this is fixed",
            wrong.join(", ")
        )
    })
}

/// Returns true for `NAME` or `NAMESPACE/NAME`.
fn is_application_name(word: &str) -> bool {
    let parts: Vec<&str> = word.split('/').map(str::trim).collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    };
    parts.len() <= 2 && parts.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use tidegate_model::annotations::{self, TIDEGATE_PREFIX};

    use super::*;
    use crate::approval::{APPROVAL_ANNOTATION, APPROVERS_ANNOTATION};
    use crate::supersede::ON_NEW_REVISION;

    fn warnings_of(annotations: &[(&str, &str)]) -> Vec<String> {
        let mut application = Application::default();
        let all = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        application.metadata.annotations = all.collect();
        ignored_annotations(&application)
    }

    #[test]
    fn misspelled_annotations_are_named() {
        for known in [
            ("tidegate.dev/depends-on", "a, other/b, c.d"),
            ("tidegate.dev/on-new-revision", "supersede"),
            ("tidegate.dev/gate", "freeze"),
            ("tidegate.dev/timeout", "5m"),
            ("tidegate.dev/application-set", "fleet"),
            ("argocd.argoproj.io/refresh", "hard"),
            ("example.com/depend-on", "a"),
        ] {
            assert_eq!(warnings_of(&[known]), Vec::<String>::new(), "{known:?}");
        }
        for (wrong, hint) in [
            ("tidegate.dev/depend-on", "did you mean tidegate.dev/depends-on?"),
            ("tidegate.dev/on-new-revison", "did you mean tidegate.dev/on-new-revision?"),
            ("tidegate.dev/max-deletions", "applies only to an ApplicationSet"),
            ("argocd.argoproj.io/refesh", "did you mean argocd.argoproj.io/refresh?"),
        ] {
            let said = warnings_of(&[(wrong, "a")]);
            assert!(said.len() == 1 && said[0].contains(wrong) && said[0].contains(hint), "{said:?}");
        }
        for known in [APPROVAL_ANNOTATION, APPROVERS_ANNOTATION, DEPENDS_ON, ON_NEW_REVISION] {
            assert_eq!(known_keys::ineffective_key_warning(known, AnnotationSubject::Application), None);
        }
    }

    /// Every documented annotation has an effect. A documented key counts as an annotation unless it is an
    /// operation info item, a label, or an example of a misspelling.
    #[test]
    fn annotations_that_are_documented_are_known() {
        const OTHERS: [&str; 8] = [
            "tidegate.dev/deletion",
            "tidegate.dev/deletion-asked-at",
            "tidegate.dev/depend-on",
            "tidegate.dev/managed",
            "tidegate.dev/operation-id",
            "tidegate.dev/policy",
            "tidegate.dev/supersedes",
            "tidegate.dev/",
        ];
        let page = include_str!("../../../docs/reference/annotations.md");
        let text = page.split("\n## ").find(|section| section.starts_with("Annotations of Applications\n"));
        let text = text.unwrap_or_default();
        let mut found = std::collections::BTreeSet::new();
        for (at, _) in text.match_indices(TIDEGATE_PREFIX) {
            let rest = text.get(at..).unwrap_or_default();
            let end = rest.find(|c: char| !(c.is_ascii_lowercase() || "-./".contains(c)));
            let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().trim_end_matches('.');
            if !OTHERS.contains(&name) {
                assert_eq!(warnings_of(&[(name, "a")]), Vec::<String>::new(), "{name}");
                found.insert(name);
            }
        }
        assert!(found.len() >= 5, "{found:?}");
    }

    #[test]
    fn a_confirmation_with_an_invalid_time_is_reported() {
        const APPROVED: &str = annotations::DELETION_APPROVED;
        assert_eq!(warnings_of(&[(APPROVED, "2026-11-21T09:30:00Z")]), Vec::<String>::new());
        let said = warnings_of(&[(APPROVED, "yes")]);
        assert!(said.len() == 1 && said[0].contains("has no effect: \"yes\" is not"), "{said:?}");
    }

    #[test]
    fn invalid_dependency_names_are_reported() {
        for wrong in ["bad/ns/x", "/x", "ns/", "a b", "Upper", "ns /../x"] {
            let said = warnings_of(&[(DEPENDS_ON, &format!("good, {wrong}, ns/good"))]);
            assert!(said.len() == 1 && said[0].contains(&format!("{wrong:?}")), "{said:?}");
            assert!(!said[0].contains("\"good\""), "{said:?}");
        }
    }
}
