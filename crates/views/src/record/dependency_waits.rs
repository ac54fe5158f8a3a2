//! Waits of objects for their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_lifecycle::operation::WaveStep;
use tidegate_model::{Action, Plan, Task, TaskId};

/// Maximum number of dependencies listed for an object.
const DEPENDENCIES_MAX: usize = 3;

/// Dependencies that the tasks of a plan are waiting for.
#[derive(Clone, Debug, Default)]
pub(super) struct DependencyWaits {
    /// Unsatisfied dependencies of each task that has dependencies.
    unsatisfied: BTreeMap<TaskId, BTreeSet<TaskId>>,
    dependents: BTreeMap<TaskId, Vec<TaskId>>,
    /// Tasks with dependencies per wave of the plan: prunes, and others.
    waves: BTreeMap<u32, [Vec<TaskId>; 2]>,
    names: BTreeMap<TaskId, String>,
}

impl DependencyWaits {
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let mut waits = Self::default();
        let is_executed = |task: &Task| task.action.writes_manifest() || task.action == Action::Prune;
        for (index, wave) in (0_u32..).zip(&plan.waves) {
            for id in wave.task_ids() {
                let Some(task) = plan.task(id).filter(|task| is_executed(task)) else { continue };
                let named = plan.dependencies_of(id).filter(|(_, other)| is_executed(other));
                let named: BTreeMap<TaskId, String> =
                    named.map(|(id, other)| (id, other.key().to_string())).collect();
                if named.is_empty() {
                    continue;
                }
                let [prunes, writes] = waits.waves.entry(index).or_default();
                if task.action == Action::Prune {
                    prunes.push(id)
                } else {
                    writes.push(id)
                }
                for dependency in named.keys() {
                    waits.dependents.entry(*dependency).or_default().push(id);
                }
                waits.unsatisfied.insert(id, named.keys().copied().collect());
                waits.names.extend(named);
            }
        }
        waits
    }

    /// Returns the tasks that may start to wait in a step of a wave.
    pub(super) fn tasks_in(&self, index: u32, step: WaveStep) -> Vec<TaskId> {
        let Some([prunes, writes]) = self.waves.get(&index) else { return Vec::new() };
        match step {
            WaveStep::Pruning => prunes.clone(),
            WaveStep::Applying => writes.clone(),
            _ => Vec::new(),
        }
    }

    /// Describes the dependencies that a task is waiting for.
    pub(super) fn describe(&self, id: TaskId) -> Option<String> {
        let unsatisfied = self.unsatisfied.get(&id).filter(|unsatisfied| !unsatisfied.is_empty())?;
        let names = unsatisfied.iter().filter_map(|id| self.names.get(id)).map(String::as_str);
        let shown: Vec<&str> = names.take(DEPENDENCIES_MAX).collect();
        let more = match unsatisfied.len().saturating_sub(DEPENDENCIES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("waiting for {}{more}", shown.join(", ")))
    }

    /// Records that a task satisfies its dependents. Returns those whose waits change.
    pub(super) fn satisfy(&mut self, id: TaskId) -> Vec<TaskId> {
        let dependents = self.dependents.remove(&id).unwrap_or_default();
        for dependent in &dependents {
            if let Some(unsatisfied) = self.unsatisfied.get_mut(dependent) {
                unsatisfied.remove(&id);
            }
        }
        dependents
    }
}
