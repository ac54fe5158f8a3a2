//! Finalizers that keep an application around until its deletion hooks have run. As in Argo CD, they are
//! added automatically if the manifests have deletion hooks.

use std::collections::BTreeSet;

use tidegate_model::Phase;
use tidegate_model::annotations::{POST_DELETE_FINALIZER, PRE_DELETE_FINALIZER, is_finalizer_or_stage};

/// Finalizer for the hooks of each deletion phase.
const HOOK_FINALIZERS: [(Phase, &str); 2] =
    [(Phase::PreDelete, PRE_DELETE_FINALIZER), (Phase::PostDelete, POST_DELETE_FINALIZER)];
/// Suffix of the finalizer that keeps an application around until its completed hooks are deleted.
const CLEANUP_SUFFIX: &str = "/cleanup";

/// Returns true for a hook finalizer of any stage.
pub fn is_hook_finalizer(finalizer: &str) -> bool {
    HOOK_FINALIZERS.into_iter().any(|(_, own)| is_finalizer_or_stage(finalizer, own))
}

/// Returns the phases that these finalizers wait for.
pub fn finalizer_phases(finalizers: &[String]) -> Vec<Phase> {
    let asks = |own: &str| finalizers.iter().any(|one| one == own);
    HOOK_FINALIZERS.into_iter().filter(|(_, own)| asks(own)).map(|(phase, _)| phase).collect()
}

/// Sets the finalizers for the phases that have hooks in the manifests. Other controllers' finalizers are
/// kept.
pub fn set_hook_finalizers(finalizers: &mut Vec<String>, hooks: &BTreeSet<Phase>) {
    for (phase, own) in HOOK_FINALIZERS {
        for wanted in [own.to_owned(), format!("{own}{CLEANUP_SUFFIX}")] {
            match (hooks.contains(&phase), finalizers.contains(&wanted)) {
                (true, false) => finalizers.push(wanted),
                (false, true) => finalizers.retain(|one| *one != wanted),
                _ => {}
            }
        }
    }
}

/// Adds the hook finalizers in `before` to the list.
pub fn retain_hook_finalizers(finalizers: &mut Vec<String>, before: &[String]) {
    for one in before.iter().filter(|one| is_hook_finalizer(one)) {
        if !finalizers.contains(one) {
            finalizers.push(one.clone());
        }
    }
}
