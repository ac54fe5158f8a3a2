//! Dependencies between the tasks of a plan, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Action, Plan, Task, TaskDependency, TaskId};

/// Dependencies between tasks, computed from the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DependencyGraph {
    /// Pairs of a task and its dependency, sorted.
    dependencies: Vec<(TaskId, TaskId)>,
    /// Pairs of a task and its dependent, sorted.
    dependents: Vec<(TaskId, TaskId)>,
    /// For each manifest with dependencies: last task without dependencies in an earlier kind group.
    turns: BTreeMap<TaskId, TaskId>,
}

impl DependencyGraph {
    /// Computes the dependencies between the tasks that a plan executes. An unchanged object stays in the graph
    /// only if it connects executed tasks: its dependents also wait for its own dependencies.
    pub(in crate::operation) fn from_plan(plan: &Plan) -> Self {
        let action = |id: TaskId| plan.task(id).map(|task| task.action);
        let is_executed =
            |id: TaskId| action(id).is_some_and(|action| action.writes_manifest() || action == Action::Prune);
        let is_unchanged = |id: TaskId| action(id) == Some(Action::Unchanged);
        let takes_part = |id: TaskId| is_executed(id) || is_unchanged(id);
        let pairs =
            plan.dependencies.iter().filter(|one| takes_part(one.dependent) && takes_part(one.dependency));
        let mut dependencies: Vec<(TaskId, TaskId)> =
            pairs.map(|one| (one.dependent, one.dependency)).collect();
        let mut dependents = invert(&dependencies);
        if dependencies.iter().any(|(one, other)| is_unchanged(*one) || is_unchanged(*other)) {
            let needed = reachable(&dependencies, is_executed);
            let waiting = reachable(&dependents, is_executed);
            dependencies.retain(|(dependent, dependency)| {
                (is_executed(*dependent) || needed.contains(dependent))
                    && (is_executed(*dependency) || waiting.contains(dependency))
            });
            dependents = invert(&dependencies);
        }
        let mut graph = Self { dependencies, dependents, turns: BTreeMap::new() };
        if !graph.dependencies.is_empty() {
            graph.turns = graph.compute_turns(plan);
        }
        graph
    }

    fn compute_turns(&self, plan: &Plan) -> BTreeMap<TaskId, TaskId> {
        let mut turns = BTreeMap::new();
        for wave in &plan.waves {
            let mut last: Option<(TaskId, &Task)> = None;
            let mut last_of_other_kind: Option<TaskId> = None;
            let tasks = wave.task_ids().filter_map(|id| Some((id, plan.task(id)?)));
            for (id, task) in tasks.filter(|(_, task)| task.action.writes_manifest()) {
                let is_other_kind =
                    last.filter(|(_, earlier)| earlier.gvk.kind != task.gvk.kind).map(|(earlier, _)| earlier);
                let turn = is_other_kind.or(last_of_other_kind);
                if self.has_dependencies(id) {
                    turns.extend(turn.map(|turn| (id, turn)));
                } else {
                    last_of_other_kind = turn;
                    last = Some((id, task));
                }
            }
        }
        turns
    }

    /// Returns the tasks that must succeed before a task starts.
    pub fn dependencies_of(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        neighbors(&self.dependencies, id)
    }

    /// Returns the tasks that wait for a task.
    pub fn dependents_of(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        neighbors(&self.dependents, id)
    }

    /// Returns true if the task waits for other tasks in its wave.
    pub fn has_dependencies(&self, id: TaskId) -> bool {
        self.dependencies_of(id).next().is_some()
    }

    /// Returns true if other tasks in the wave wait for the task.
    pub fn has_dependents(&self, id: TaskId) -> bool {
        self.dependents_of(id).next().is_some()
    }

    /// Returns true if all earlier kind groups are applied. `next` is the first task without dependencies that
    /// blocks later groups.
    pub(in crate::operation) fn is_turn_of(&self, id: TaskId, next: TaskId) -> bool {
        self.turns.get(&id).is_none_or(|turn| *turn < next)
    }
}

/// Returns the pairs in the other direction, sorted.
fn invert(pairs: &[(TaskId, TaskId)]) -> Vec<(TaskId, TaskId)> {
    let mut inverted: Vec<(TaskId, TaskId)> = pairs.iter().map(|(one, other)| (*other, *one)).collect();
    inverted.sort_unstable();
    inverted
}

/// Returns the tasks that the pairs connect to a start, directly or indirectly.
fn reachable(pairs: &[(TaskId, TaskId)], is_start: impl Fn(TaskId) -> bool) -> BTreeSet<TaskId> {
    let mut open: Vec<TaskId> = pairs.iter().map(|(one, _)| *one).filter(|id| is_start(*id)).collect();
    open.dedup();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        open.extend(neighbors(pairs, id).filter(|other| reached.insert(*other)));
    }
    reached
}

fn neighbors(pairs: &[(TaskId, TaskId)], id: TaskId) -> impl Iterator<Item = TaskId> {
    let first = pairs.partition_point(|(task, _)| *task < id);
    pairs.iter().skip(first).take_while(move |(task, _)| *task == id).map(|(_, other)| *other)
}

/// Returns true if the dependencies of a plan can be satisfied: they are sorted, stay within a wave, connect
/// either manifests or prunes, and don't form a cycle.
pub(in crate::operation) fn are_dependencies_consistent(plan: &Plan) -> bool {
    let is_sorted = plan.dependencies.is_sorted_by(|one, next| one < next);
    let wave_of = |id: TaskId| plan.waves.partition_point(|wave| wave.first <= id.0);
    let fits = |one: &TaskDependency| {
        let tasks = plan.task(one.dependent).zip(plan.task(one.dependency));
        tasks.is_some_and(|(dependent, dependency)| {
            dependent.action.is_prune() == dependency.action.is_prune()
                && wave_of(one.dependent) == wave_of(one.dependency)
        })
    };
    is_sorted && plan.dependencies.iter().all(fits) && !has_cycle(&plan.dependencies)
}

fn has_cycle(dependencies: &[TaskDependency]) -> bool {
    let pairs: Vec<(TaskId, TaskId)> =
        dependencies.iter().map(|one| (one.dependent, one.dependency)).collect();
    let dependents = invert(&pairs);
    let mut unmet: BTreeMap<TaskId, u32> = BTreeMap::new();
    for one in dependencies {
        let count = unmet.entry(one.dependent).or_default();
        *count = count.saturating_add(1);
    }
    let all: BTreeSet<TaskId> = dependencies.iter().map(|one| one.dependency).collect();
    let mut ready: Vec<TaskId> = all.into_iter().filter(|id| !unmet.contains_key(id)).collect();
    while let Some(id) = ready.pop() {
        for dependent in neighbors(&dependents, id) {
            let Some(count) = unmet.get_mut(&dependent) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                unmet.remove(&dependent);
                ready.push(dependent);
            }
        }
    }
    !unmet.is_empty()
}

#[cfg(test)]
mod tests {
    use tidegate_model::{Gvk, Phase};

    use super::*;

    fn plan(kinds: &[(&str, i64)], pairs: &[(u32, u32)]) -> Plan {
        let mut plan = Plan::default();
        for (kind, wave) in kinds {
            let gvk = Gvk::new("", "v1", *kind);
            plan.push_task(Task::new(Phase::Sync, *wave, gvk, "shop", "a"), None, Vec::new());
        }
        let one = |(dependent, dependency): &(u32, u32)| TaskDependency {
            dependent: TaskId(*dependent),
            dependency: TaskId(*dependency),
        };
        plan.dependencies = pairs.iter().map(one).collect();
        plan
    }

    #[test]
    fn inconsistent_dependencies_are_recognized() {
        let kinds = [("A", 0), ("A", 0), ("A", 0), ("A", 1)];
        for (pairs, is_consistent) in [
            (&[][..], true),
            (&[(0, 1), (1, 2)], true),
            (&[(1, 2), (0, 1)], false),
            (&[(0, 1), (0, 1)], false),
            (&[(0, 0)], false),
            (&[(0, 1), (1, 0)], false),
            (&[(0, 1), (1, 2), (2, 0)], false),
            (&[(3, 0)], false),
            (&[(0, 4)], false),
        ] {
            assert_eq!(are_dependencies_consistent(&plan(&kinds, pairs)), is_consistent, "{pairs:?}");
        }
        let mut mixed = plan(&kinds, &[(0, 1)]);
        for task in mixed.tasks.iter_mut().take(1) {
            task.action = Action::Prune;
        }
        assert!(!are_dependencies_consistent(&mixed));
    }

    #[test]
    fn unchanged_objects_stay_only_between_executed_tasks() {
        let mut plan = plan(&[("A", 0); 7], &[(0, 1), (1, 2), (2, 3), (4, 3), (0, 5), (5, 6)]);
        for id in [1, 2, 4, 5, 6] {
            plan.tasks[id].action = Action::Unchanged;
        }
        let graph = DependencyGraph::from_plan(&plan);
        let id = TaskId;
        assert_eq!(graph.dependencies, [(id(0), id(1)), (id(1), id(2)), (id(2), id(3))]);
        assert_eq!(graph.dependents_of(id(3)).collect::<Vec<_>>(), [id(2)]);
    }

    #[test]
    fn a_turn_follows_the_last_task_of_another_kind() {
        let kinds = [("A", 0), ("B", 0), ("A", 0), ("A", 0), ("C", 0), ("C", 0), ("A", 1), ("B", 1)];
        let graph = DependencyGraph::from_plan(&plan(&kinds, &[(0, 1), (3, 1), (4, 3), (5, 0), (7, 6)]));
        let turn = |id| graph.turns.get(&TaskId(id)).map(|turn| turn.0);
        assert_eq!([0, 3, 4, 5, 7].map(turn), [None, Some(1), Some(2), Some(2), Some(6)]);
        assert!(!graph.is_turn_of(TaskId(3), TaskId(1)) && graph.is_turn_of(TaskId(3), TaskId(2)));
        assert_eq!(graph.dependents_of(TaskId(1)).collect::<Vec<_>>(), [TaskId(0), TaskId(3)]);
    }
}
