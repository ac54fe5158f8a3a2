//! Dependencies between tasks that follow from the annotations of kapp and Nelm.

use std::collections::{BTreeSet, HashMap};

use tidegate_model::{Action, ObjectKey, TaskDependency, TaskId};

use super::foreign::{Relation, UNTRANSLATED};
use super::{DependencyError, index_by_key, place, with_ids};
use crate::draft::TaskDraft;
use crate::findings::Findings;

/// Maximum number of dependencies that follow from groups and patterns.
pub(super) const RELATIONS_MAX: usize = 200_000;

/// Adds the dependencies between all tasks. Reports a dependency on a later wave.
pub(super) fn add_relations(
    drafts: &[TaskDraft],
    is_deletion: bool,
    dependencies: &mut Vec<TaskDependency>,
    errors: &mut Vec<(TaskId, DependencyError)>,
    findings: &mut Findings,
) {
    if drafts.iter().all(|draft| draft.foreign.relations.is_empty()) {
        return;
    }
    let by_key = index_by_key(drafts);
    let mut by_name: HashMap<&str, Vec<TaskId>> = HashMap::new();
    for (id, draft) in with_ids(drafts) {
        by_name.entry(&draft.task.name).or_default().push(id);
    }
    let mut groups: HashMap<&str, Vec<TaskId>> = HashMap::new();
    for (id, draft) in with_ids(drafts) {
        for group in &draft.foreign.groups {
            groups.entry(group).or_default().push(id);
        }
    }
    let mut left = RELATIONS_MAX;
    let mut unmatched: BTreeSet<(usize, String)> = BTreeSet::new();
    for (id, draft) in with_ids(drafts) {
        for relation in &draft.foreign.relations {
            let members: Vec<TaskId> = match relation {
                Relation::AfterGroup(group)
                | Relation::BeforeGroup(group)
                | Relation::DeletedBefore(group)
                | Relation::DeletedAfter(group) => groups.get(group.as_str()).cloned().unwrap_or_default(),
                Relation::AfterMatching(pattern) => {
                    let fits = |id: &TaskId| {
                        drafts.get(id.index()).is_some_and(|other| pattern.matches(&other.task))
                    };
                    match &pattern.name {
                        Some(name) => {
                            let named = by_name.get(name.as_str()).into_iter().flatten();
                            named.copied().filter(fits).collect()
                        }
                        None => with_ids(drafts).map(|(id, _)| id).filter(fits).collect(),
                    }
                }
            };
            let of_prunes = matches!(relation, Relation::DeletedBefore(_) | Relation::DeletedAfter(_));
            // The objects of a deletion may be gone already.
            if of_prunes != draft.task.action.is_prune() || is_deletion && !of_prunes {
                continue;
            }
            let is_other = |other: &TaskId| {
                let task = drafts.get(other.index()).map(|other| &other.task);
                task.is_some_and(|task| match of_prunes {
                    true => task.action == Action::Prune,
                    false => !task.action.is_prune() && task.key() != draft.task.key(),
                })
            };
            let members: Vec<TaskId> =
                members.into_iter().filter(|other| *other != id && is_other(other)).collect();
            if members.is_empty() && !of_prunes {
                unmatched.insert((id.index(), describe(relation)));
                continue;
            }
            let Some(rest) = left.checked_sub(members.len()) else {
                errors.push((id, DependencyError::TooMany));
                return;
            };
            left = rest;
            let is_first = matches!(relation, Relation::BeforeGroup(_) | Relation::DeletedBefore(_));
            for other in members {
                let (dependent, dependency) = if is_first { (other, id) } else { (id, other) };
                if let Err(error) = add(drafts, &by_key, dependent, dependency, dependencies) {
                    errors.push((dependent, error));
                }
            }
        }
    }
    for (index, text) in unmatched {
        if let Some(draft) = drafts.get(index) {
            let message = format!("the manifests contain no {text}, so the object doesn't wait for it");
            findings.warn(UNTRANSLATED, &draft.subject, message);
        }
    }
}

fn describe(relation: &Relation) -> String {
    match relation {
        Relation::AfterGroup(group)
        | Relation::BeforeGroup(group)
        | Relation::DeletedBefore(group)
        | Relation::DeletedAfter(group) => format!("other object in the kapp group {group:?}"),
        Relation::AfterMatching(_) => "other object that its Nelm dependency matches".to_owned(),
    }
}

/// Adds a dependency within a wave. The order of the waves satisfies or contradicts any other one. Prunes in
/// different waves keep the order of their waves.
fn add(
    drafts: &[TaskDraft],
    by_key: &HashMap<ObjectKey, Vec<TaskId>>,
    dependent: TaskId,
    dependency: TaskId,
    dependencies: &mut Vec<TaskDependency>,
) -> Result<(), DependencyError> {
    let (Some(first), Some(last)) = (drafts.get(dependency.index()), drafts.get(dependent.index())) else {
        return Ok(());
    };
    if place(first) == place(last) {
        dependencies.push(TaskDependency { dependent, dependency });
        return Ok(());
    }
    // A hook may also run in an earlier phase.
    let same = by_key.get(&first.task.key()).into_iter().flatten();
    let mut same = same.filter_map(|id| drafts.get(id.index()));
    if !first.task.action.is_prune() && same.all(|one| place(one) > place(last)) {
        let (phase, wave) = place(first);
        let (dependent, dependency) = (last.task.key().to_string(), first.task.key().to_string());
        return Err(DependencyError::LaterWave { dependent, dependency, phase, wave });
    }
    Ok(())
}
