//! Order of tasks.
//!
//! Tasks are sorted by phase, wave, kind rank and name, with group, kind and namespace as tie-breakers.
//! Namespaces and CRDs are then moved in front of the first object that needs them.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{GroupKind, Phase};

use crate::draft::TaskDraft;
use crate::known_kinds::{crd_kind, is_crd};

/// End of the reason of a task that was moved.
pub(crate) const MOVED: &str = "; moved before the first object that needs it";

/// Sorts the tasks. `destination` is the destination namespace.
pub(crate) fn sort_tasks(mut drafts: Vec<TaskDraft>, destination: &str) -> Vec<TaskDraft> {
    // Moving indices is cheaper than moving tasks.
    let mut keys: Vec<(SortKey<'_>, usize)> = drafts.iter().map(sort_key).zip(0..).collect();
    keys.sort_unstable();
    let mut order: Vec<usize> = keys.into_iter().map(|(_, index)| index).collect();
    move_before_users(&mut drafts, &mut order, created_namespace, |draft| {
        // As in Argo CD, cluster-scoped objects count as members of the destination namespace.
        let namespace = if draft.task.namespace.is_empty() { destination } else { &draft.task.namespace };
        (!namespace.is_empty()).then(|| namespace.to_owned())
    });
    move_before_users(&mut drafts, &mut order, created_kind, |draft| Some(draft.task.gvk.group_kind()));
    let mut slots: Vec<Option<TaskDraft>> = drafts.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| slots.get_mut(index)?.take()).collect()
}

type SortKey<'d> = ((Phase, i64, usize), [&'d str; 4], bool);

fn sort_key(draft: &TaskDraft) -> SortKey<'_> {
    let task = &draft.task;
    let place = (task.phase, task.wave, draft.rank);
    (place, [&task.name, &task.gvk.group, &task.gvk.kind, &task.namespace], !task.action.is_prune())
}

/// Returns the namespace that a task creates.
pub(crate) fn created_namespace(draft: &TaskDraft) -> Option<String> {
    let gvk = &draft.task.gvk;
    gvk.is_namespace().then(|| draft.task.name.clone())
}

/// Returns the kind that a task defines.
pub(crate) fn created_kind(draft: &TaskDraft) -> Option<GroupKind> {
    let gvk = &draft.task.gvk;
    is_crd(&gvk.group, &gvk.kind).then(|| crd_kind(draft.manifest.as_ref()?)).flatten()
}

/// Moves each provider (a task that creates a namespace or a kind) in front of its first user (a task that
/// needs it). The provider gets the user's phase and wave.
///
/// Prune tasks are neither providers nor users. Within a pass, a provider isn't also a user. If a hook
/// creates the same object in several phases, only its first task is moved.
fn move_before_users<K: Ord>(
    drafts: &mut [TaskDraft],
    order: &mut Vec<usize>,
    makes: impl Fn(&TaskDraft) -> Option<K>,
    uses: impl Fn(&TaskDraft) -> Option<K>,
) {
    if drafts.iter().all(|draft| makes(draft).is_none()) {
        return;
    }
    let mut first_use: BTreeMap<K, usize> = BTreeMap::new();
    let mut all_made: BTreeSet<K> = BTreeSet::new();
    for position in 0..order.len() {
        let Some(index) = order.get(position).copied() else { continue };
        let Some(draft) = drafts.get(index).filter(|draft| draft.manifest.is_some()) else { continue };
        let Some(made) = makes(draft) else {
            if let Some(used) = uses(draft) {
                first_use.entry(used).or_insert(position);
            }
            continue;
        };
        let place = first_use.get(&made).copied();
        let is_first = all_made.insert(made);
        let Some(place) = place.filter(|_| is_first) else { continue };
        let user = order.get(place).and_then(|index| drafts.get(*index));
        let Some((phase, wave)) = user.map(|user| (user.task.phase, user.task.wave)) else { continue };
        if let Some(moved) = drafts.get_mut(index) {
            moved.task.phase = phase;
            moved.task.wave = wave;
            moved.task.reason.push_str(MOVED);
        }
        order.remove(position);
        order.insert(place, index);
        for used in first_use.values_mut().filter(|used| **used >= place) {
            *used += 1;
        }
    }
}
