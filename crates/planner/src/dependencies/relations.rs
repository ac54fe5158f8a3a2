//! Dependencies between tasks that follow from the annotations of kapp and Nelm.

use std::collections::{BTreeSet, HashMap};

use tidegate_model::{Action, ObjectKey, TaskDependency, TaskId};

use super::foreign::{ObjectPattern, Relation, UNTRANSLATED};
use super::{DependencyError, index_by_key, place, with_ids};
use crate::draft::TaskDraft;
use crate::findings::Findings;

/// Maximum number of dependencies that follow from groups and patterns.
pub(super) const RELATIONS_MAX: usize = 200_000;

/// Adds the dependencies between all tasks. Returns those that can't be honored.
pub(super) fn add_relations(
    drafts: &[TaskDraft],
    is_deletion: bool,
    dependencies: &mut Vec<TaskDependency>,
    findings: &mut Findings,
) -> Vec<(TaskId, DependencyError)> {
    let mut ignored = Vec::new();
    if drafts.iter().all(|draft| draft.foreign.relations.is_empty()) {
        return ignored;
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
    let mut matching: HashMap<&ObjectPattern, Vec<TaskId>> = HashMap::new();
    let mut remaining = RELATIONS_MAX;
    let mut unmatched: BTreeSet<(usize, String)> = BTreeSet::new();
    let mut added = Vec::new();
    let all = with_ids(drafts)
        .flat_map(|(id, draft)| draft.foreign.relations.iter().map(move |one| (id, draft, one)));
    for (id, draft, relation) in all {
        let orders_prunes = matches!(relation, Relation::DeletedBefore(_) | Relation::DeletedAfter(_));
        // The objects of a deletion may be gone already.
        if orders_prunes != draft.task.action.is_prune() || is_deletion && !orders_prunes {
            continue;
        }
        let candidates = match relation {
            Relation::AfterGroup(group)
            | Relation::BeforeGroup(group)
            | Relation::DeletedBefore(group)
            | Relation::DeletedAfter(group) => groups.get(group.as_str()),
            Relation::AfterMatching(pattern) => Some(&*matching.entry(pattern).or_insert_with(|| {
                let matches =
                    |id: &TaskId| drafts.get(id.index()).is_some_and(|other| pattern.matches(&other.task));
                match &pattern.name {
                    Some(name) => {
                        by_name.get(name.as_str()).into_iter().flatten().copied().filter(matches).collect()
                    }
                    None => with_ids(drafts).map(|(id, _)| id).filter(matches).collect(),
                }
            })),
        };
        let candidates = candidates.map(Vec::as_slice).unwrap_or_default();
        let Some(rest) = remaining.checked_sub(candidates.len()) else {
            added.clear();
            ignored = vec![(id, DependencyError::TooMany)];
            break;
        };
        remaining = rest;
        let is_member = |other: &TaskId| {
            let task = drafts.get(other.index()).map(|other| &other.task);
            task.is_some_and(|task| match orders_prunes {
                true => task.action == Action::Prune,
                false => !task.action.is_prune() && task.key() != draft.task.key(),
            })
        };
        let members: Vec<TaskId> =
            candidates.iter().copied().filter(|other| *other != id && is_member(other)).collect();
        if members.is_empty() && !orders_prunes {
            unmatched.insert((id.index(), describe(relation)));
            continue;
        }
        let precedes_members = matches!(relation, Relation::BeforeGroup(_) | Relation::DeletedBefore(_));
        let mut first_error = None;
        for other in members {
            let (dependent, dependency) = if precedes_members { (other, id) } else { (id, other) };
            if let Err(error) = add(drafts, &by_key, dependent, dependency, &mut added) {
                first_error.get_or_insert((id, error));
            }
        }
        ignored.extend(first_error);
    }
    dependencies.append(&mut added);
    for (index, text) in unmatched {
        if let Some(draft) = drafts.get(index) {
            let message = format!("the manifests contain no {text}, so the object doesn't wait for it");
            findings.warn(UNTRANSLATED, &draft.subject, message);
        }
    }
    ignored
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
