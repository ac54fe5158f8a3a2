//! What do the annotations of an application say that has no effect? It is told, because whoever wrote it counts on it.

use tidegate_model::annotations::{self, TIDEGATE_PREFIX};
use tidegate_model::argo::Application;

use crate::approval::{APPROVAL, APPROVERS};
use crate::confirmation;
use crate::dependencies::DEPENDS_ON;
use crate::superseding::ON_NEW_REVISION;

/// The condition of our own that says so.
pub const UNHEEDED: &str = "SpecWarning";
/// So many words are named.
const NAMED_MAX: usize = 10;
/// What may be said of an application by an annotation of ours.
const OF_APPLICATIONS: [&str; 4] = [APPROVAL, APPROVERS, DEPENDS_ON, ON_NEW_REVISION];
/// By which of them its ApplicationSet knows it again.
const OF_SETS: &str = "tidegate.dev/application-set";
/// What may be said of an application that is a manifest of another one, as of any object.
const OF_OBJECTS: [&str; 14] = [
    annotations::WAVE_TIMEOUT,
    annotations::TIMEOUT,
    annotations::RETRY,
    annotations::GATE,
    annotations::HOOK_ON,
    annotations::RUN_WHEN,
    annotations::INPUTS,
    annotations::HOOK_RUNNER,
    annotations::HEALTH_JUDGE,
    annotations::HEALTH_CONVENTION,
    annotations::HEALTH_CURRENT,
    annotations::HEALTH_IN_PROGRESS,
    annotations::HEALTH_FAILED,
    OF_SETS,
];
/// What Tidegate itself says there.
const OWN: [&str; 4] = [
    annotations::OPERATION_ID,
    annotations::HOOK_ATTEMPT,
    annotations::HOOK_PHASE,
    annotations::DELETION_REQUESTED_BY,
];

/// What the annotations of an application say that has no effect, and why, a sentence for each.
pub fn unheeded(application: &Application) -> Vec<String> {
    let wrong = [unknown(application), no_names(application), confirmation::problem(application)];
    wrong.into_iter().flatten().collect()
}

/// Annotations of ours that no application has.
fn unknown(application: &Application) -> Option<String> {
    let is_known = |name: &str| [&OF_APPLICATIONS[..], &OF_OBJECTS, &OWN].concat().contains(&name);
    let names = application.metadata.annotations.keys().map(String::as_str);
    let unknown: Vec<&str> =
        names.filter(|name| name.starts_with(TIDEGATE_PREFIX) && !is_known(name)).take(NAMED_MAX).collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "these annotations of an Application have no effect: {}; known are {}",
            unknown.join(", "),
            OF_APPLICATIONS.join(", ")
        )
    })
}

/// What it says it depends on that is the name of no application, and so is never there.
fn no_names(application: &Application) -> Option<String> {
    let given = application.annotation(DEPENDS_ON)?;
    let words = given.split(',').map(str::trim).filter(|word| !word.is_empty());
    let wrong: Vec<String> =
        words.filter(|word| !is_name(word)).take(NAMED_MAX).map(|word| format!("{word:?}")).collect();
    (!wrong.is_empty()).then(|| {
        format!(
            "{DEPENDS_ON} has what names no application: {}; write NAME or NAMESPACE/NAME, with a comma between two; it waits until that is mended",
            wrong.join(", ")
        )
    })
}

/// `NAME` or `NAMESPACE/NAME`.
fn is_name(word: &str) -> bool {
    let parts: Vec<&str> = word.split('/').map(str::trim).collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    };
    parts.len() <= 2 && parts.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(annotations: &[(&str, &str)]) -> Vec<String> {
        let mut application = Application::default();
        let all = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        application.metadata.annotations = all.collect();
        unheeded(&application)
    }

    #[test]
    fn annotations_that_are_misspelt_are_named() {
        for known in [
            ("tidegate.dev/depends-on", "a, other/b, c.d"),
            ("tidegate.dev/on-new-revision", "supersede"),
            ("tidegate.dev/gate", "freeze"),
            ("tidegate.dev/timeout", "5m"),
            ("tidegate.dev/application-set", "fleet"),
            ("argocd.argoproj.io/refresh", "hard"),
            ("example.com/depend-on", "a"),
        ] {
            assert_eq!(with(&[known]), Vec::<String>::new(), "{known:?}");
        }
        for wrong in ["tidegate.dev/depend-on", "tidegate.dev/on-new-revison", "tidegate.dev/max-deletions"] {
            let said = with(&[(wrong, "a")]);
            assert!(said.len() == 1 && said[0].contains(wrong), "{said:?}");
            assert!(
                said[0].contains(
                    "known are tidegate.dev/approval, tidegate.dev/approvers, tidegate.dev/depends-on"
                ),
                "{said:?}"
            );
        }
    }

    /// What people are told to write has an effect. The word is an annotation where it is no remark of an operation, no
    /// label, and no name that stands there as one that is misspelt.
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
        let text = include_str!("../../../docs/applications.md");
        let mut found = std::collections::BTreeSet::new();
        for (at, _) in text.match_indices(TIDEGATE_PREFIX) {
            let rest = text.get(at..).unwrap_or_default();
            let end = rest.find(|c: char| !(c.is_ascii_lowercase() || "-./".contains(c)));
            let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().trim_end_matches('.');
            if !OTHERS.contains(&name) {
                assert_eq!(with(&[(name, "a")]), Vec::<String>::new(), "{name}");
                found.insert(name);
            }
        }
        assert!(found.len() >= 5, "{found:?}");
    }

    #[test]
    fn a_confirmation_that_is_no_time_is_told() {
        const APPROVED: &str = annotations::DELETION_APPROVED;
        assert_eq!(with(&[(APPROVED, "2026-11-21T09:30:00Z")]), Vec::<String>::new());
        let said = with(&[(APPROVED, "yes")]);
        assert!(said.len() == 1 && said[0].contains("confirms nothing: \"yes\" is not"), "{said:?}");
    }

    #[test]
    fn dependencies_that_are_no_names_are_named() {
        for wrong in ["bad/ns/x", "/x", "ns/", "a b", "Upper", "ns /../x"] {
            let said = with(&[(DEPENDS_ON, &format!("good, {wrong}, ns/good"))]);
            assert!(said.len() == 1 && said[0].contains(&format!("{wrong:?}")), "{said:?}");
            assert!(!said[0].contains("\"good\""), "{said:?}");
        }
    }
}
