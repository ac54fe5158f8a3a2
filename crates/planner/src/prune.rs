//! What happens to objects that are no longer in the manifests, and in which wave?

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Action, Object, Phase, SyncRequest};

use crate::deletion;
use crate::domain::{Decision, Domain, draft_of};
use crate::draft::Draft;
use crate::findings::{Findings, Subject};
use crate::hooks::{self, Role};
use crate::options::{self, PruneOption};

/// How many objects a finding names.
const NAMED_MAX: usize = 5;

/// The prune tasks of the extraneous objects, in the waves of their own annotations.
///
/// Hooks of earlier operations and objects marked `Skip` are never pruned.
pub(crate) fn drafts(domain: Domain<'_>, extraneous: &[Arc<Object>]) -> Vec<Draft> {
    let prunable = extraneous.iter().filter(|live| hooks::role(live) == Role::Resource);
    prunable.map(|live| draft(domain, live)).collect()
}

fn draft(domain: Domain<'_>, live: &Object) -> Draft {
    draft_of(domain, live, decide)
}

/// Why an object that was to be pruned is left alone as it is now; `None` when it may go. Between plan and prune there may
/// be hours, in which it goes to another application or somebody wants it to stay.
pub fn reason_to_keep(request: &SyncRequest, live: &Object) -> Option<&'static str> {
    if !request.tracking.is_root(&request.application, live) {
        return Some("ignored (belongs to another application or object now)");
    }
    if let Some(cascade) = request.deletion {
        return deletion::reason_to_stay(request, live, cascade);
    }
    let stays =
        hooks::role(live) != Role::Resource || options::prune(live, &request.options) == PruneOption::Refused;
    stays.then_some("ignored (no prune)")
}

fn decide(request: &SyncRequest, live: &Object) -> Decision {
    let option = options::prune(live, &request.options);
    if !request.options.prune {
        (Action::PruneSkipped, false, "ignored (requires pruning)")
    } else if option == PruneOption::Refused {
        (Action::PruneSkipped, false, "ignored (no prune)")
    } else if option == PruneOption::Confirm && !request.options.prune_confirmed {
        (Action::Prune, true, "no longer in the manifests; waits for confirmation")
    } else if live.is_deleting() {
        (Action::Prune, false, "no longer in the manifests; already being deleted")
    } else {
        (Action::Prune, false, "no longer in the manifests")
    }
}

/// Says what bears the application's mark and is left alone, since it may be another's.
pub(crate) fn review(request: &SyncRequest, drafts: &[Draft], findings: &mut Findings) {
    let elsewhere = drafts.iter().filter(|draft| draft.task.options.found_elsewhere);
    let names: Vec<String> = elsewhere.map(|draft| draft.task.key().to_string()).collect();
    if names.is_empty() || request.options.adopt {
        return;
    }
    let count = names.len();
    let mut named: Vec<&str> = names.iter().map(String::as_str).take(NAMED_MAX).collect();
    let more = count.saturating_sub(named.len());
    let rest = format!("{more} more");
    if more > 0 {
        named.push(&rest);
    }
    let whose = if count == 1 { "it is left alone, since it" } else { "they are left alone, since they" };
    let message = format!(
        "found elsewhere, in places that this operation does not deploy to: {}; {whose} may belong to another application {:?}; --adopt takes in what is this one's, another name or --installation-id keeps them apart",
        named.join(", "),
        request.application,
    );
    findings.warn("found-elsewhere", &Subject { place: usize::MAX, ..Subject::default() }, message);
}

/// Reverses the waves of the prune tasks: what was created first is deleted last. Then `PruneLast` moves tasks behind
/// every wave of the phase.
///
/// The waves in use are swapped symmetrically, the smallest with the largest and so on; other tasks keep theirs.
pub(crate) fn reverse_waves(drafts: &mut [Draft], is_last: impl Fn(&Draft) -> bool) {
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

    fn task(action: Action, phase: Phase, wave: i64, name: &str) -> Draft {
        let key = ObjectKey::new("", "ConfigMap", "shop", name);
        let mut draft = Draft::new(phase, wave, Gvk::new("", "v1", "ConfigMap"), &key);
        draft.task.action = action;
        draft
    }

    fn reversed(prune: &[i64], create: &[i64], last: impl Fn(&Draft) -> bool) -> Vec<i64> {
        let prunes = prune.iter().map(|wave| task(Action::Prune, Phase::Sync, *wave, "p"));
        let creates = create.iter().map(|wave| task(Action::Create, Phase::Sync, *wave, "c"));
        let mut drafts: Vec<Draft> =
            prunes.chain(creates).chain([task(Action::Create, Phase::PostSync, 50, "hook")]).collect();
        reverse_waves(&mut drafts, last);
        drafts.iter().map(|draft| draft.task.wave).collect()
    }

    #[test]
    fn waves_are_swapped_symmetrically() {
        assert_eq!(reversed(&[1, 3, 4], &[0, 2], |_| false), [4, 3, 1, 0, 2, 50]);
        assert_eq!(reversed(&[1, 3, 3, 4, 5], &[], |_| false), [5, 4, 4, 3, 1, 50]);
        assert_eq!(reversed(&[7], &[1], |_| false), [7, 1, 50]);
        assert_eq!(reversed(&[-1, 2], &[], |_| false), [2, -1, 50]);
        assert_eq!(reversed(&[i64::MIN, i64::MAX], &[], |_| false), [i64::MAX, i64::MIN, 50]);
    }

    #[test]
    fn prune_last_comes_after_every_wave_of_the_phase() {
        assert_eq!(reversed(&[1, 2, 3, 4], &[], |_| true), [5, 5, 5, 5, 50]);
        assert_eq!(reversed(&[1, 2], &[7], |_| true), [8, 8, 7, 50]);
        assert_eq!(reversed(&[-5], &[-9], |_| true), [1, -9, 50], "never before wave 1");
        assert_eq!(reversed(&[i64::MAX], &[], |_| true), [i64::MAX, 50]);
        assert_eq!(reversed(&[1, 2, 3], &[], |draft| draft.task.wave == 1), [3, 2, 4, 50]);
    }
}
