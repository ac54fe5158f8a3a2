//! Explanation of the objects that a wave waits for because of dependencies.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{TaskId, Timestamp, format_duration};

use super::{AwaitedItem, awaited_reason, wait_start};
use crate::operation::messages::describe_task as name;
use crate::operation::state::{Operation, TaskState};

/// Object on the critical path of a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathStep {
    /// Name of the object, such as `Deployment shop/api`.
    pub subject: String,
    /// Time in seconds from the start of this object to the start of the next one, or until now. `None` for an
    /// object that hasn't started.
    pub seconds: Option<u64>,
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds {
            Some(seconds) => {
                write!(f, "{} ({})", self.subject, format_duration(Duration::from_secs(seconds)))
            }
            None => f.write_str(&self.subject),
        }
    }
}

/// Returns the applied objects that other objects of the wave are waiting for.
pub(super) fn dependency_items(operation: &Operation, index: u32) -> Vec<AwaitedItem> {
    if !operation.awaits_dependencies(index) {
        return Vec::new();
    }
    // Failing calls are listed anyway.
    let is_called = |state: &TaskState| state.calls.as_deref().is_some_and(|calls| calls.failed > 0);
    let awaited = operation.awaited_dependencies(index).filter(|(_, _, state)| !is_called(state));
    let items = awaited.filter_map(|(id, task, state)| {
        let cursor = operation.cursor_for_wave(index);
        let waiting = operation.waiting_for(id).into_iter();
        let waiting: Vec<_> = waiting.filter(|dependent| cursor.blocked.contains(dependent)).collect();
        let first = operation.plan.task(*waiting.first()?)?;
        let others = match waiting.len() {
            0 | 1 => String::new(),
            all => format!(" and {} more", all.saturating_sub(1)),
        };
        Some(AwaitedItem {
            what: name(task),
            why: format!("{}; needed by {}{others}", awaited_reason(operation, state), name(first)),
            since: wait_start(operation, state),
        })
    });
    items.collect()
}

/// Returns the critical path of a wave that waits for dependencies: the longest chain of objects that are still
/// blocked, after the chain of objects whose evidence released the one that they wait for.
pub(super) fn critical_path(operation: &Operation, index: u32, now: Timestamp) -> Vec<PathStep> {
    if !operation.awaits_dependencies(index) {
        return Vec::new();
    }
    let depths = chain_depths(operation, index);
    let longest = |id: TaskId| {
        let waiting = operation.graph.dependents_of(id).filter_map(|id| Some((*depths.get(&id)?, id)));
        waiting.max_by_key(|(depth, id)| (*depth, Reverse(*id)))
    };
    let awaited = operation.awaited_dependencies(index).filter_map(|(id, _, _)| Some((longest(id)?.0, id)));
    let Some((_, current)) = awaited.max_by_key(|(depth, id)| (*depth, Reverse(*id))) else {
        return Vec::new();
    };
    let started = started_chain(operation, current);
    let ends = started.iter().skip(1).map(|(_, start)| *start).chain([now]);
    let mut path: Vec<PathStep> = Vec::new();
    for ((id, start), end) in started.iter().zip(ends) {
        path.extend(path_step(operation, *id, Some(end.since(*start).as_secs())));
    }
    let blocked = &operation.cursor_for_wave(index).blocked;
    let mut next = longest(current);
    while let Some((_, id)) = next {
        path.extend(path_step(operation, id, None).filter(|_| blocked.contains(&id)));
        next = longest(id);
    }
    path
}

fn path_step(operation: &Operation, id: TaskId, seconds: Option<u64>) -> Option<PathStep> {
    Some(PathStep { subject: name(operation.plan.task(id)?), seconds })
}

/// Returns the lengths of the longest chains of dependents, for the blocked tasks and for those between them that
/// are passed over.
fn chain_depths(operation: &Operation, index: u32) -> BTreeMap<TaskId, u32> {
    let cursor = operation.cursor_for_wave(index);
    let waits = |id: &TaskId| cursor.unmet.get(id).is_some_and(|unmet| *unmet > 0);
    let mut depths: BTreeMap<TaskId, u32> = BTreeMap::new();
    // Each task is visited once before its dependents, and once after them.
    let mut open: Vec<(TaskId, bool)> =
        cursor.unmet.keys().filter(|id| waits(id)).map(|id| (*id, false)).collect();
    while let Some((id, is_expanded)) = open.pop() {
        if depths.contains_key(&id) {
            continue;
        }
        let dependents = || operation.graph.dependents_of(id).filter(waits);
        if is_expanded {
            let deepest = dependents().filter_map(|id| depths.get(&id)).max().copied().unwrap_or_default();
            depths.insert(id, deepest.saturating_add(u32::from(cursor.blocked.contains(&id))));
        } else {
            open.push((id, true));
            open.extend(dependents().map(|id| (id, false)));
        }
    }
    depths
}

/// Returns the chain of started tasks that ends with the given one, each with its start time. A task follows the
/// dependency that was satisfied last.
fn started_chain(operation: &Operation, last: TaskId) -> Vec<(TaskId, Timestamp)> {
    let started = |id: TaskId| {
        let (_, state) = operation.task(id)?;
        Some((id, state.applied.as_ref()?.at))
    };
    let satisfied_at = |id: TaskId| {
        let (_, state) = operation.task(id)?;
        let applied = state.applied.as_ref()?.at;
        Some(state.health.as_ref().map_or(applied, |seen| seen.since.max(applied)))
    };
    let mut chain: Vec<(TaskId, Timestamp)> = Vec::new();
    let mut next = started(last);
    while let Some((id, start)) = next {
        chain.push((id, start));
        let dependencies = operation.graph.dependencies_of(id);
        let critical = dependencies.filter_map(|id| Some((satisfied_at(id)?, id))).max_by_key(|(at, _)| *at);
        next = critical.and_then(|(_, id)| started(id));
    }
    chain.reverse();
    chain
}
