//! Pruning: actions and waves for objects that are gone from the manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Action, Object, Phase, SyncRequest};

use crate::deletion;
use crate::draft::TaskDraft;
use crate::findings::{FindingSubject, Findings};
use crate::hooks::{self, SyncRole};
use crate::ownership::{Decision, OwnershipScope, draft_owned};
use crate::sync_options::{self, PruneOption};

/// Maximum number of objects listed in a finding.
const OBJECTS_SHOWN_MAX: usize = 5;

/// Returns the prune tasks for extraneous objects, in the waves given by their own annotations.
///
/// Objects of earlier hooks and objects marked `Skip` are never pruned.
pub(crate) fn draft_prunes(domain: OwnershipScope<'_>, extraneous: &[Arc<Object>]) -> Vec<TaskDraft> {
    let prunable = extraneous.iter().filter(|live| hooks::sync_role(live) == SyncRole::Resource);
    prunable.map(|live| draft_prune(domain, live)).collect()
}

fn draft_prune(domain: OwnershipScope<'_>, live: &Object) -> TaskDraft {
    draft_owned(domain, live, decide_prune)
}

/// Returns the reason an object must not be pruned now, or `None` if it may be. Hours can pass between
/// planning and pruning, and in the meantime the object may have moved to another application or been
/// annotated with `Prune=false`.
pub fn prune_refusal_reason(request: &SyncRequest, live: &Object) -> Option<&'static str> {
    if !request.tracking.can_prune(&request.application, live) {
        return Some("ignored (now belongs to another application or object)");
    }
    if let Some(cascade) = request.deletion {
        return deletion::retention_reason(request, live, cascade);
    }
    let stays = hooks::sync_role(live) != SyncRole::Resource
        || sync_options::prune_option(live, &request.options) == PruneOption::Denied;
    stays.then_some("ignored (no prune)")
}

fn decide_prune(request: &SyncRequest, live: &Object) -> Decision {
    let option = sync_options::prune_option(live, &request.options);
    if !request.options.prune {
        (Action::PruneSkipped, false, "ignored (requires pruning)")
    } else if option == PruneOption::Denied {
        (Action::PruneSkipped, false, "ignored (no prune)")
    } else if option == PruneOption::Confirm && !request.options.prune_confirmed {
        (Action::Prune, true, "no longer in the manifests; waiting for confirmation")
    } else if live.is_deleting() {
        (Action::Prune, false, "no longer in the manifests; already being deleted")
    } else {
        (Action::Prune, false, "no longer in the manifests")
    }
}

/// Reports objects that have the application's mark but aren't pruned because they may belong to another
/// application.
pub(crate) fn review_prunes(request: &SyncRequest, drafts: &[TaskDraft], findings: &mut Findings) {
    let elsewhere = drafts.iter().filter(|draft| draft.task.options.found_elsewhere);
    let names: Vec<String> = elsewhere.map(|draft| draft.task.key().to_string()).collect();
    if names.is_empty() || request.options.adopt {
        return;
    }
    let count = names.len();
    let mut named: Vec<&str> = names.iter().map(String::as_str).take(OBJECTS_SHOWN_MAX).collect();
    let more = count.saturating_sub(named.len());
    let rest = format!("{more} more");
    if more > 0 {
        named.push(&rest);
    }
    let whose = if count == 1 { "it is ignored because it" } else { "they are ignored because they" };
    let message = format!(
        "found outside the destinations of this operation: {}; {whose} may belong to another application named {:?}; adopt such objects with `tidegate sync --adopt`, or give the applications different names or installation IDs (`tidegate sync --installation-id`)",
        named.join(", "),
        request.application,
    );
    findings.warn(
        "found-elsewhere",
        &FindingSubject { position: usize::MAX, ..FindingSubject::default() },
        message,
    );
}

/// Reverses the waves of the prune tasks, so that the objects created first are deleted last, then moves
/// `PruneLast` tasks behind all other waves of the phase.
///
/// Only waves with prune tasks are swapped: the lowest with the highest, and so on. Other tasks stay in their
/// waves.
pub(crate) fn reverse_waves(drafts: &mut [TaskDraft], is_last: impl Fn(&TaskDraft) -> bool) {
    let mut waves: Vec<i64> =
        drafts.iter().filter(|d| d.task.action.is_prune()).map(|d| d.task.wave).collect();
    waves.sort_unstable();
    waves.dedup();
    let swapped: BTreeMap<i64, i64> = waves.iter().copied().zip(waves.iter().rev().copied()).collect();
    for draft in drafts.iter_mut().filter(|draft| draft.task.action.is_prune()) {
        draft.task.wave = swapped.get(&draft.task.wave).copied().unwrap_or(draft.task.wave);
    }
    let highest =
        drafts.iter().filter(|draft| draft.task.phase == Phase::Sync).map(|draft| draft.task.wave).max();
    let last = highest.unwrap_or(0).max(0).saturating_add(1);
    for draft in drafts.iter_mut().filter(|draft| draft.task.action.is_prune()) {
        if is_last(draft) {
            draft.task.wave = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::{Gvk, ObjectKey};

    use super::*;

    fn task(action: Action, phase: Phase, wave: i64, name: &str) -> TaskDraft {
        let key = ObjectKey::new("", "ConfigMap", "shop", name);
        let mut draft = TaskDraft::new(phase, wave, Gvk::new("", "v1", "ConfigMap"), &key);
        draft.task.action = action;
        draft
    }

    fn reversed_waves(prune: &[i64], create: &[i64], last: impl Fn(&TaskDraft) -> bool) -> Vec<i64> {
        let prunes = prune.iter().map(|wave| task(Action::Prune, Phase::Sync, *wave, "p"));
        let creates = create.iter().map(|wave| task(Action::Create, Phase::Sync, *wave, "c"));
        let mut drafts: Vec<TaskDraft> =
            prunes.chain(creates).chain([task(Action::Create, Phase::PostSync, 50, "hook")]).collect();
        reverse_waves(&mut drafts, last);
        drafts.iter().map(|draft| draft.task.wave).collect()
    }

    #[test]
    fn waves_are_reversed_symmetrically() {
        assert_eq!(reversed_waves(&[1, 3, 4], &[0, 2], |_| false), [4, 3, 1, 0, 2, 50]);
        assert_eq!(reversed_waves(&[1, 3, 3, 4, 5], &[], |_| false), [5, 4, 4, 3, 1, 50]);
        assert_eq!(reversed_waves(&[7], &[1], |_| false), [7, 1, 50]);
        assert_eq!(reversed_waves(&[-1, 2], &[], |_| false), [2, -1, 50]);
        assert_eq!(reversed_waves(&[i64::MIN, i64::MAX], &[], |_| false), [i64::MAX, i64::MIN, 50]);
    }

    #[test]
    fn prune_last_comes_after_every_wave_of_the_phase() {
        assert_eq!(reversed_waves(&[1, 2, 3, 4], &[], |_| true), [5, 5, 5, 5, 50]);
        assert_eq!(reversed_waves(&[1, 2], &[7], |_| true), [8, 8, 7, 50]);
        assert_eq!(reversed_waves(&[-5], &[-9], |_| true), [1, -9, 50], "never before wave 1");
        assert_eq!(reversed_waves(&[i64::MAX], &[], |_| true), [i64::MAX, 50]);
        assert_eq!(reversed_waves(&[1, 2, 3], &[], |draft| draft.task.wave == 1), [3, 2, 4, 50]);
    }
}
