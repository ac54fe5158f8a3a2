//! Cycles in dependencies.

use std::collections::BTreeSet;

use tidegate_model::{TaskDependency, TaskId};

/// Maximum number of cycles that are reported.
pub(super) const CYCLES_MAX: usize = 20;

/// Returns the cycles, each from a task to its dependency and so on. The cycles don't share tasks. Without all
/// dependencies within each cycle, no cycle is left, unless there are more than [`CYCLES_MAX`].
///
/// `dependencies` must be sorted. The time is linear in the number of dependencies per cycle.
pub(super) fn find_cycles(task_count: usize, dependencies: &[TaskDependency]) -> Vec<Vec<TaskId>> {
    let mut cycles = Vec::new();
    let mut left: Vec<TaskDependency> = dependencies.to_vec();
    while cycles.len() < CYCLES_MAX {
        left = remove_acyclic(task_count, left);
        let Some(cycle) = follow_dependencies(task_count, &left) else { break };
        let mut is_member = vec![false; task_count];
        for id in &cycle {
            set(&mut is_member, *id, true);
        }
        left.retain(|one| !get(&is_member, one.dependent) || !get(&is_member, one.dependency));
        cycles.push(cycle);
    }
    cycles
}

/// Returns the tasks in cycles, and those between cycles.
pub(super) fn cyclic_tasks(task_count: usize, dependencies: &[TaskDependency]) -> BTreeSet<TaskId> {
    let reverse =
        |one: TaskDependency| TaskDependency { dependent: one.dependency, dependency: one.dependent };
    let left = remove_acyclic(task_count, dependencies.to_vec());
    let left = remove_acyclic(task_count, left.into_iter().map(reverse).collect());
    left.into_iter().flat_map(|one| [one.dependent, one.dependency]).collect()
}

fn get(flags: &[bool], id: TaskId) -> bool {
    flags.get(id.index()).copied().unwrap_or_default()
}

fn set(flags: &mut [bool], id: TaskId, value: bool) {
    if let Some(flag) = flags.get_mut(id.index()) {
        *flag = value;
    }
}

/// Removes the dependencies of all tasks that don't depend on a cycle, directly or indirectly.
fn remove_acyclic(task_count: usize, dependencies: Vec<TaskDependency>) -> Vec<TaskDependency> {
    let mut unmet = vec![0_u32; task_count];
    let mut by_dependency: Vec<(TaskId, TaskId)> =
        dependencies.iter().map(|one| (one.dependency, one.dependent)).collect();
    by_dependency.sort_unstable();
    for one in &dependencies {
        if let Some(count) = unmet.get_mut(one.dependent.index()) {
            *count = count.saturating_add(1);
        }
    }
    let mut ready: Vec<TaskId> =
        (0_u32..).map(TaskId).zip(&unmet).filter(|(_, count)| **count == 0).map(|(id, _)| id).collect();
    while let Some(id) = ready.pop() {
        let first = by_dependency.partition_point(|(dependency, _)| *dependency < id);
        let dependents = by_dependency.iter().skip(first).take_while(|(dependency, _)| *dependency == id);
        for (_, dependent) in dependents {
            let Some(count) = unmet.get_mut(dependent.index()) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                ready.push(*dependent);
            }
        }
    }
    let is_left = |id: TaskId| unmet.get(id.index()).is_some_and(|count| *count > 0);
    dependencies.into_iter().filter(|one| is_left(one.dependent) && is_left(one.dependency)).collect()
}

/// Follows the first dependency of each task until a task repeats. Every dependent must depend on another one.
fn follow_dependencies(task_count: usize, dependencies: &[TaskDependency]) -> Option<Vec<TaskId>> {
    let mut path = Vec::new();
    let mut is_on_path = vec![false; task_count];
    let mut next = dependencies.first()?.dependent;
    while !get(&is_on_path, next) {
        path.push(next);
        set(&mut is_on_path, next, true);
        let place = dependencies.partition_point(|one| one.dependent < next);
        next = dependencies.get(place).filter(|one| one.dependent == next)?.dependency;
    }
    let start = path.iter().position(|id| *id == next)?;
    Some(path.split_off(start))
}
