//! Annotation keys that have an effect, and warnings about keys that resemble them.

mod table;

use crate::Object;
use crate::argo::GROUP;

pub use self::table::{Annotation, KNOWN_KEYS};

/// Kind of resource that an annotation affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationSubject {
    /// Objects of any kind. Also used for keys that other programs define.
    Object,
    /// Applications.
    Application,
    /// ApplicationSets.
    ApplicationSet,
    /// No resource: Tidegate writes the annotation itself.
    Internal,
}

impl AnnotationSubject {
    /// Returns the subject for an object's kind.
    pub fn for_object(object: &Object) -> Self {
        match (object.group(), object.kind()) {
            (GROUP, "Application") => Self::Application,
            (GROUP, "ApplicationSet") => Self::ApplicationSet,
            _ => Self::Object,
        }
    }
}

/// Prefix that users tend to forget.
const ARGO_CD_PREFIX: &str = "argocd.argoproj.io/";

/// Prefixes fully covered by [`KNOWN_KEYS`].
const KNOWN_PREFIXES: [&str; 4] = [ARGO_CD_PREFIX, "helm.sh/", "meta.helm.sh/", super::TIDEGATE_PREFIX];

/// Maximum edit distance between a misspelled key and a known key.
const EDITS_MAX: usize = 2;

/// Returns a warning if a key resembles a known key but has no effect on this kind of object. Returns `None`
/// for known keys and for keys of other programs.
pub fn ineffective_key_warning(key: &str, subject: AnnotationSubject) -> Option<String> {
    if key == super::DEPENDS_ON && subject == AnnotationSubject::ApplicationSet {
        return Some(format!(
            "the {key} annotation has no effect here; it applies only to an Application and to the objects of Applications"
        ));
    }
    if let Some(Annotation { subject: of, .. }) = KNOWN_KEYS.iter().find(|known| known.key == key) {
        let only = match of {
            AnnotationSubject::Application => "an Application",
            AnnotationSubject::ApplicationSet => "an ApplicationSet",
            AnnotationSubject::Object | AnnotationSubject::Internal => return None,
        };
        return (*of != subject)
            .then(|| format!("the {key} annotation has no effect here; it applies only to {only}"));
    }
    let lower = key.to_ascii_lowercase();
    let prefix = KNOWN_PREFIXES.into_iter().find(|prefix| lower.starts_with(prefix));
    let nearest = match prefix {
        Some(prefix) => find_nearest_key(&lower, |known| known.starts_with(prefix), usize::MAX)?,
        None => find_misspelled_key(&lower)?,
    };
    let hint = match is_misspelling(&lower, nearest) || is_misspelling(name_of(&lower), name_of(nearest)) {
        true => format!("did you mean {nearest}?"),
        false => format!("the nearest known key is {nearest}"),
    };
    Some(format!("unknown annotation {key:?} has no effect; {hint}"))
}

/// Returns the part of a key after the prefix.
fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

fn is_misspelling(text: &str, known: &str) -> bool {
    text.len().abs_diff(known.len()) <= EDITS_MAX && strsim::damerau_levenshtein(text, known) <= EDITS_MAX
}

/// Returns the known key that a misspelled key resembles. Compares whole keys, then names, then prefixes.
/// Names are compared only if the key has no prefix, or if its domain is a parent of a known prefix (such as
/// `argoproj.io`). The caller has already ruled out keys with a known prefix.
fn find_misspelled_key(key: &str) -> Option<&'static str> {
    let nearest = find_nearest_key(key, |known| is_near(key, known), EDITS_MAX);
    if nearest.is_some() {
        return nearest;
    }
    let Some((domain, name)) = key.split_once('/') else {
        // A name of one word, such as "hook", could have any meaning.
        let mut names = KNOWN_KEYS.iter().map(|known| (known.key, known.key.strip_prefix(ARGO_CD_PREFIX)));
        return names
            .find(|(_, name)| name.is_some_and(|name| name.contains('-') && is_misspelling(key, name)))
            .map(|(known, _)| known);
    };
    let is_parent =
        |of: &str| domain.contains('.') && of.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let shortened =
        KNOWN_KEYS.iter().filter_map(|known| known.key.split_once('/').map(|parts| (known.key, parts)));
    let shortened = shortened
        .filter(|(_, (of, of_name))| is_parent(of) && is_near(name, of_name))
        .min_by_key(|(_, (_, of_name))| strsim::damerau_levenshtein(name, of_name));
    shortened.map(|(known, _)| known).or_else(|| {
        let mut prefixes = KNOWN_PREFIXES.into_iter();
        let prefix = prefixes.find(|prefix| is_misspelling(domain, prefix.trim_end_matches('/')))?;
        find_nearest_key(key, |known| known.starts_with(prefix), usize::MAX)
    })
}

fn find_nearest_key(
    key: &str,
    is_candidate: impl Fn(&str) -> bool,
    edits_max: usize,
) -> Option<&'static str> {
    let all = KNOWN_KEYS.iter().map(|known| known.key).filter(|known| is_candidate(known));
    let all = all.map(|known| (strsim::damerau_levenshtein(key, known), known));
    all.filter(|(edits, _)| *edits <= edits_max).min().map(|(_, known)| known)
}

/// Returns true if a key may be within [`EDITS_MAX`] edits of a known key. This pre-filter is much cheaper
/// than counting edits. It never rejects a close match: two edits, or two swaps of adjacent characters,
/// affect at most four of the known key's five parts.
fn is_near(key: &str, known: &str) -> bool {
    const PARTS: usize = 5;
    if key.len().abs_diff(known.len()) > EDITS_MAX {
        return false;
    }
    let size = known.len().div_ceil(PARTS).max(1);
    let is_there = |part: &[u8]| key.as_bytes().windows(part.len()).any(|window| window == part);
    known.as_bytes().chunks(size).any(is_there) || known.len() <= PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::DELETION_REQUESTED_BY;

    #[test]
    fn misspelled_keys_are_reported_with_the_nearest_known_key() {
        for (key, meant) in [
            ("argocd.argoproj.io/sync-wav", "did you mean argocd.argoproj.io/sync-wave?"),
            (
                "argocd.argoproj.io/hook-delete-policies",
                "the nearest known key is argocd.argoproj.io/hook-delete-policy",
            ),
            ("argocd.argoproj.io/SyncWave", "did you mean argocd.argoproj.io/sync-wave?"),
            ("argocd.argoproj.io/sync-option", "did you mean argocd.argoproj.io/sync-options?"),
            ("argocd.argoproj.io/ignore-differences", "the nearest known key is argocd.argoproj.io/ignore-"),
            ("argoproj.io/sync-wave", "did you mean argocd.argoproj.io/sync-wave?"),
            ("sync-wave", "did you mean argocd.argoproj.io/sync-wave?"),
            ("sync-option", "did you mean argocd.argoproj.io/sync-options?"),
            ("argoproj.io/hooks", "did you mean argocd.argoproj.io/hook?"),
            ("argocd.argoprj.io/hook", "did you mean argocd.argoproj.io/hook?"),
            ("agrocd.argoproj.io/sync-waev", "did you mean argocd.argoproj.io/sync-wave?"),
            ("helm.sh/hooks", "did you mean helm.sh/hook?"),
            ("helm.sh/hook-wieght", "did you mean helm.sh/hook-weight?"),
            ("helm.sh/resource-policies", "the nearest known key is helm.sh/resource-policy"),
            ("hlem.sh/hook", "did you mean helm.sh/hook?"),
            ("tidegate.dev/gates", "did you mean tidegate.dev/gate?"),
            ("tidgate.dev/gate", "did you mean tidegate.dev/gate?"),
            // Misspelled prefixes.
            ("argocd.argoproj.oi/sync-wave", "did you mean argocd.argoproj.io/sync-wave?"),
            ("argocd.argopoj.io/hook", "did you mean argocd.argoproj.io/hook?"),
            ("argocd.argoproj.io.sync-wave", "did you mean argocd.argoproj.io/sync-wave?"),
            ("argocd-argoproj.io/sync-wav", "did you mean argocd.argoproj.io/sync-wave?"),
            ("argcd.argoprj.io/sync-wav", "did you mean argocd.argoproj.io/sync-wave?"),
            ("agrocd.argoproj.io/sync-policies", "the nearest known key is argocd.argoproj.io/"),
            ("helm.sh.hook", "did you mean helm.sh/hook?"),
            ("hlem.hs/resource-polcy", "did you mean helm.sh/resource-policy?"),
            ("meta.hlem.sh/release", "the nearest known key is meta.helm.sh/release-name"),
            ("tidegat.dev/wave-timeouts", "did you mean tidegate.dev/wave-timeout?"),
            ("tidegat.dev/unheard-of", "the nearest known key is tidegate.dev/"),
            ("tidegate.dev.gate", "did you mean tidegate.dev/gate?"),
        ] {
            let warning = ineffective_key_warning(key, AnnotationSubject::Object);
            assert!(warning.as_ref().is_some_and(|warning| warning.contains(meant)), "{key}: {warning:?}");
        }
    }

    #[test]
    fn keys_of_other_programs_are_ignored() {
        for key in [
            "argocd.argoproj.io/sync-wave",
            "argocd.argoproj.io/manifest-generate-paths",
            "link.argocd.argoproj.io/dashboard",
            "pref.argocd.argoproj.io/default-view",
            "notifications.argoproj.io/subscribe.on-sync-failed.slack",
            "notified.notifications.argoproj.io",
            "argocd-image-updater.argoproj.io/image-list",
            "rollout.argoproj.io/revision",
            "workflows.argoproj.io/description",
            "helm.toolkit.fluxcd.io/name",
            "helm.cattle.io/chart",
            "meta.helm.sh/release-name",
            "sim.tidegate.dev/outcome",
            "tidegate.example.com/gate",
            "keel.sh/policy",
            "keda.sh/hook",
            "karpenter.sh/do-not-disrupt",
            "cert-manager.io/cluster-issuer",
            "kubernetes.io/ingress.class",
            "hook",
            "release-name",
            "",
            "/",
        ] {
            assert_eq!(ineffective_key_warning(key, AnnotationSubject::Object), None, "{key}");
        }
    }

    #[test]
    fn keys_of_another_kind_are_reported() {
        let elsewhere = ineffective_key_warning("tidegate.dev/max-deletions", AnnotationSubject::Application);
        assert!(elsewhere.is_some_and(|warning| warning.ends_with("it applies only to an ApplicationSet")));
        assert_eq!(
            ineffective_key_warning("tidegate.dev/max-deletions", AnnotationSubject::ApplicationSet),
            None
        );
        assert_eq!(ineffective_key_warning("tidegate.dev/gate", AnnotationSubject::Application), None);
        assert_eq!(ineffective_key_warning(DELETION_REQUESTED_BY, AnnotationSubject::ApplicationSet), None);
    }

    /// The cheap pre-filter never rejects a close match.
    #[test]
    fn near_keys_are_candidates() {
        for Annotation { key: known, .. } in KNOWN_KEYS {
            for at in 0..known.len() {
                let mut dropped = known.to_owned();
                dropped.remove(at);
                dropped.remove(at * 7 % dropped.len());
                assert!(is_near(&dropped, known), "{dropped}");
                let mut swapped = known.as_bytes().to_vec();
                let length = swapped.len() - 1;
                swapped.swap(at % length, at % length + 1);
                swapped.swap(at * 5 % length, at * 5 % length + 1);
                assert!(is_near(&String::from_utf8_lossy(&swapped), known), "{known}");
            }
        }
    }
}
