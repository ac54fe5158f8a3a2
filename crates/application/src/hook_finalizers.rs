//! The finalizers that keep an application until the hooks of its deletion have run. As in Argo CD nobody has to write them:
//! they are there where the manifests have such hooks.

use std::collections::BTreeSet;

use tidegate_model::Phase;
use tidegate_model::annotations::{POST_DELETE_FINALIZER, PRE_DELETE_FINALIZER, is_stage_of};

/// For the hooks of each phase of a deletion.
const OWN: [(Phase, &str); 2] =
    [(Phase::PreDelete, PRE_DELETE_FINALIZER), (Phase::PostDelete, POST_DELETE_FINALIZER)];
/// Behind each: until hooks are deleted that are to go when they have run.
const CLEANUP: &str = "/cleanup";

/// Whether a finalizer is one of those, whatever stage of its hooks it names.
pub fn is_hook_finalizer(finalizer: &str) -> bool {
    OWN.into_iter().any(|(_, own)| is_stage_of(finalizer, own))
}

/// The phases whose hooks these finalizers wait for.
pub fn asked(finalizers: &[String]) -> Vec<Phase> {
    let asks = |own: &str| finalizers.iter().any(|one| one == own);
    OWN.into_iter().filter(|(_, own)| asks(own)).map(|(phase, _)| phase).collect()
}

/// Those of an application whose manifests have hooks of these phases; what others have put there stays.
pub fn ask(finalizers: &mut Vec<String>, hooks: &BTreeSet<Phase>) {
    for (phase, own) in OWN {
        for wanted in [own.to_owned(), format!("{own}{CLEANUP}")] {
            match (hooks.contains(&phase), finalizers.contains(&wanted)) {
                (true, false) => finalizers.push(wanted),
                (false, true) => finalizers.retain(|one| *one != wanted),
                _ => {}
            }
        }
    }
}

/// Adds those that were there before.
pub fn keep(finalizers: &mut Vec<String>, before: &[String]) {
    for one in before.iter().filter(|one| is_hook_finalizer(one)) {
        if !finalizers.contains(one) {
            finalizers.push(one.clone());
        }
    }
}
