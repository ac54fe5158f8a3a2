//! Waits of objects for their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_lifecycle::operation::{OperationEvent, Stage, WaveStep};
use tidegate_model::{Action, OperationPhase, Plan, Task, TaskId};

use super::timeline::{OperationTimeline, Tone};

/// State of an object that waits for its dependencies.
const WAITING: &str = "Waiting";

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
                    named.map(|(id, other)| (id, format!("{}", other.key()))).collect();
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
    fn tasks_in(&self, index: u32, step: WaveStep) -> Vec<TaskId> {
        let Some([prunes, writes]) = self.waves.get(&index) else { return Vec::new() };
        match step {
            WaveStep::Pruning => prunes.clone(),
            WaveStep::Applying => writes.clone(),
            _ => Vec::new(),
        }
    }

    /// Describes the dependencies that a task is waiting for.
    fn describe(&self, id: TaskId) -> Option<String> {
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
    fn satisfy(&mut self, id: TaskId) -> Vec<TaskId> {
        let dependents = self.dependents.remove(&id).unwrap_or_default();
        for dependent in &dependents {
            if let Some(unsatisfied) = self.unsatisfied.get_mut(dependent) {
                unsatisfied.remove(&id);
            }
        }
        dependents
    }
}

impl OperationTimeline {
    /// Starts and updates the waits for dependencies.
    pub(super) fn update_dependency_waits(&mut self, event: &OperationEvent) {
        match event {
            OperationEvent::StageChanged { to: Stage::Wave { index, step }, .. } => {
                for id in self.dependency_waits.tasks_in(*index, *step) {
                    self.begin_dependency_wait(id);
                }
            }
            OperationEvent::TaskCompleted { task, phase: OperationPhase::Succeeded, .. }
            | OperationEvent::Applied { task, done: true, .. }
            | OperationEvent::ObjectDeleted { task }
            | OperationEvent::DeletionCompleted { task } => {
                for dependent in self.dependency_waits.satisfy(*task) {
                    self.narrow_dependency_wait(dependent);
                }
            }
            _ => {}
        }
    }

    /// Starts the wait of an object that hasn't started yet.
    fn begin_dependency_wait(&mut self, id: TaskId) {
        let Some(reason) = self.dependency_waits.describe(id) else { return };
        let span = self.new_span(WAITING, Tone::Wait, reason);
        if let Some(line) = self.object_line(id).filter(|line| line.spans.is_empty()) {
            line.begin_span(span);
        }
    }

    /// Removes a satisfied dependency from the reason of a wait. The last reason stays.
    fn narrow_dependency_wait(&mut self, id: TaskId) {
        let Some(reason) = self.dependency_waits.describe(id) else { return };
        let open = self.object_line(id).and_then(|line| line.open_span());
        if let Some(open) = open.filter(|open| open.state == WAITING) {
            open.reason = reason;
        }
    }
}
