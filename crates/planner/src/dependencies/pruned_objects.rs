//! Dependencies between objects that are no longer in the manifests: which of them are kept, and when the others
//! are pruned.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tidegate_model::{Action, Object, ObjectKey};

use super::declared_dependencies;
use super::entry::parse_entries;
use crate::draft::TaskDraft;

/// Prune tasks that depend on each other, as positions among the drafts.
struct PruneGraph {
    by_key: HashMap<ObjectKey, usize>,
    /// Dependencies of each draft that declares any.
    dependencies: HashMap<usize, Vec<usize>>,
}

impl PruneGraph {
    fn new(drafts: &[TaskDraft]) -> Self {
        let prunes = || drafts.iter().enumerate().filter(|(_, draft)| draft.task.action.is_prune());
        let by_key = prunes().map(|(position, draft)| (draft.task.key(), position)).collect();
        let mut graph = Self { by_key, dependencies: HashMap::new() };
        for (position, draft) in prunes() {
            if let Some(declared) = &draft.depends_on {
                let named = graph.find_named(declared, &draft.task.namespace);
                graph.dependencies.insert(position, named);
            }
        }
        graph
    }

    /// Returns the prune tasks that the annotation of an object names.
    fn find_named(&self, declared: &str, namespace: &str) -> Vec<usize> {
        let entries = parse_entries(declared).into_iter().flatten();
        let find = |key: &ObjectKey| self.by_key.get(key).copied();
        entries.filter_map(|entry| entry.keys(namespace).iter().find_map(find)).collect()
    }

    fn dependencies_of(&self, position: usize) -> impl Iterator<Item = usize> {
        self.dependencies.get(&position).into_iter().flatten().copied()
    }
}

/// Keeps the objects that kept objects depend on. `others` are live objects of the application that the
/// operation doesn't touch.
pub(crate) fn keep_needed_objects(drafts: &mut [TaskDraft], others: &[Arc<Object>]) {
    if !drafts.iter().any(|draft| draft.task.action == Action::Prune) {
        return;
    }
    let graph = PruneGraph::new(drafts);
    let mut needed: Vec<(usize, ObjectKey)> = Vec::new();
    for (position, draft) in drafts.iter().enumerate() {
        // Ignore objects that may belong to another application.
        if draft.task.action == Action::PruneSkipped && !draft.task.options.found_elsewhere {
            needed.extend(graph.dependencies_of(position).map(|dependency| (dependency, draft.task.key())));
        }
    }
    for other in others {
        let named =
            declared_dependencies(other).map(|declared| graph.find_named(&declared, other.namespace()));
        needed.extend(named.into_iter().flatten().map(|dependency| (dependency, other.key())));
    }
    // The reason names the first dependent, whatever the order of the live objects.
    needed.sort_unstable();
    needed.reverse();
    while let Some((position, dependent)) = needed.pop() {
        let Some(draft) = drafts.get_mut(position).filter(|draft| draft.task.action == Action::Prune) else {
            continue;
        };
        draft.task.action = Action::PruneSkipped;
        draft.task.reason = format!("ignored (needed by {dependent}, which is kept)");
        draft.task.options.confirm_prune = false;
        let key = draft.task.key();
        needed.extend(graph.dependencies_of(position).map(|dependency| (dependency, key.clone())));
    }
}

/// Moves prunes to later waves, so that each object is deleted in the same wave as the objects that depend on it,
/// or later. Overrides the waves and `PruneLast`. A namespace is moved with the objects in it.
pub(crate) fn delay_needed_objects(drafts: &mut [TaskDraft]) {
    let graph = PruneGraph::new(drafts);
    let is_namespace = |key: &ObjectKey| key.group.is_empty() && key.kind == "Namespace";
    let namespaces: HashMap<String, usize> = graph
        .by_key
        .iter()
        .filter(|(key, _)| is_namespace(key))
        .map(|(key, at)| (key.name.clone(), *at))
        .collect();
    let mut open: BTreeSet<usize> = graph.dependencies.keys().copied().collect();
    let mut moved: BTreeSet<usize> = BTreeSet::new();
    while let Some(position) = open.pop_first() {
        let Some(dependent) = drafts.get(position).filter(|draft| draft.task.action == Action::Prune) else {
            continue;
        };
        let wave = dependent.task.wave;
        let namespace = namespaces.get(&dependent.task.namespace).filter(|_| moved.contains(&position));
        let later: Vec<usize> = graph.dependencies_of(position).chain(namespace.copied()).collect();
        for position in later {
            let Some(draft) = drafts.get_mut(position) else { continue };
            if draft.task.action != Action::Prune || draft.task.wave >= wave {
                continue;
            }
            draft.task.wave = wave;
            if moved.insert(position) {
                draft.task.reason.push_str("; moved after the objects that depend on it");
            }
            open.insert(position);
        }
    }
}
