//! Predicates about an operation, shared by several modules of the machine. They depend only on the state.

mod awaiting;
mod task;

use std::time::Duration;

use tidegate_model::{
    Action, DeletePolicy, HealthStatus, OperationPhase, Phase, ResultCode, Task, TaskId, Timestamp, WaitFor,
};

use super::judgment::phase_from_health;
use super::messages::{self, TERMINATED, namespace_pruned_message};
use super::state::{HealthScope, Operation, Progress, Stage, TaskState, Termination, WaveStep, WaveTimes};

pub(crate) use awaiting::AwaitedTasks;
pub(crate) use task::{
    OpenReason, has_runner, is_blocking, is_clearing, is_consistent, is_crd, is_unapplied, needs_check,
    needs_establishment, target_namespaces,
};

/// Time that a written object must look healthy if its kind doesn't show that the health refers to the new
/// spec.
pub(crate) const SETTLE_TIME: Duration = Duration::from_secs(2);

const ARGO_APPLICATION: (&str, &str) = ("argoproj.io", "Application");

impl Operation {
    /// Returns true if a wave has work to do. A wave passes immediately if all of its tasks are unchanged or
    /// were skipped by a user.
    pub(crate) fn has_work(&self, index: u32) -> bool {
        self.wave_tasks(index)
            .any(|(id, task, _)| task.action != Action::Unchanged && !self.is_overridden_as_done(id))
    }

    /// Returns the first wave with work at or after `from`, either among the SyncFail waves or among the
    /// other waves.
    pub(crate) fn next_wave_with_work(&self, from: u32, sync_fail: bool) -> Option<u32> {
        self.waves_from(from, sync_fail).find(|index| self.has_work(*index))
    }

    fn waves_from(&self, from: u32, sync_fail: bool) -> impl Iterator<Item = u32> {
        (from..)
            .zip(self.plan.waves.iter().skip(TaskId(from).index()))
            .filter(move |(_, wave)| (wave.phase == Phase::SyncFail) == sync_fail)
            .map(|(index, _)| index)
    }

    /// Returns true if users' overrides have left a held wave without work.
    pub(crate) fn is_settled_by_overrides(&self, index: u32) -> bool {
        let mut tasks = self.wave_tasks(index).filter(|(_, task, _)| task.action != Action::Unchanged);
        let is_settled = |(id, task, state): (TaskId, &Task, &TaskState)| {
            self.is_overridden_as_done(id)
                || state.progress == Progress::Done
                || task.action == Action::PruneSkipped
        };
        !self.overrides.is_empty()
            && self.wave_tasks(index).any(|(id, _, _)| self.is_overridden_as_done(id))
            && tasks.all(is_settled)
    }

    /// Returns the wave that an earlier attempt opened but didn't finish. The current attempt continues
    /// there.
    pub(crate) fn interrupted_wave(&self) -> Option<u32> {
        let is_open = |times: &WaveTimes| times.opened_at.is_some() && times.passed_at.is_none();
        (0..)
            .zip(&self.waves)
            .find(|(index, times)| is_open(times) && !self.is_sync_fail_wave(*index))
            .map(|(index, _)| index)
    }

    /// Returns the current step of the task's wave, or `None` if the task isn't in the current wave.
    pub(crate) fn step_of_task(&self, id: TaskId) -> Option<WaveStep> {
        let (index, step) = self.current_wave()?;
        let wave = self.wave(index)?;
        let position = id.0.checked_sub(wave.first)?;
        (position < wave.count).then_some(step)
    }

    pub(crate) fn is_sync_fail_wave(&self, index: u32) -> bool {
        self.wave(index).is_some_and(|wave| wave.phase == Phase::SyncFail)
    }

    /// Returns true if the wave is the last, apart from SyncFail waves.
    pub(crate) fn is_final_wave(&self, index: u32) -> bool {
        if self.cursor.wave == Some(index) { self.cursor.is_final } else { self.is_last_wave(index) }
    }

    /// Computes [`Operation::is_final_wave`] from the plan. A later wave counts even if all of its tasks were
    /// skipped.
    pub(crate) fn is_last_wave(&self, index: u32) -> bool {
        let does = |index| self.wave_tasks(index).any(|(_, task, _)| task.action != Action::Unchanged);
        !self.waves_from(index.saturating_add(1), false).any(does)
    }

    /// Returns true if the wave has a hook to run.
    pub(crate) fn has_hooks(&self, index: u32) -> bool {
        self.wave_hooks(index).next().is_some()
    }

    /// Returns true if the wave's resources must become healthy before the wave passes. The last wave waits
    /// only if the request says so, or if it has a hook and the plan has several steps.
    pub(crate) fn needs_healthy_resources(&self, index: u32) -> bool {
        self.is_blocking_wave(index) || self.needs_healthy_application(index)
    }

    /// Returns true if the wave must wait for its resources because of a later wave or one of its hooks.
    fn is_blocking_wave(&self, index: u32) -> bool {
        !self.can_end_without_health(index)
            && (!self.is_final_wave(index) || (self.has_hooks(index) && self.plan.is_multi_step()))
    }

    /// Returns true if the request wants the wave to wait until the application is healthy.
    fn needs_healthy_application(&self, index: u32) -> bool {
        !self.can_end_without_health(index) && self.header.request.wait == WaitFor::Healthy
    }

    fn can_end_without_health(&self, index: u32) -> bool {
        self.is_sync_fail_wave(index) || self.has_wave_failed(index)
    }

    /// Returns the resources in a wave that are judged by their health: all of them if another wave follows
    /// or the wave has hooks. If only the application's health is awaited, they are the resources that affect
    /// it.
    pub(crate) fn health_scope(&self, index: u32) -> HealthScope {
        if self.is_blocking_wave(index) || self.has_hooks(index) {
            HealthScope::All
        } else if self.needs_healthy_application(index) {
            HealthScope::ForApplication
        } else {
            HealthScope::None
        }
    }

    /// Returns true if the task's outcome depends on the health of its object.
    pub(crate) fn is_judged_by_health(&self, id: TaskId, task: &Task) -> bool {
        task.is_hook()
            || self.graph.has_dependents(id)
            || match self.judged {
                HealthScope::All => true,
                HealthScope::ForApplication => !task.options.ignores_health,
                HealthScope::None => false,
            }
    }

    /// Returns the phase of a task according to its health, or `None` while the phase is undecided. A missing
    /// or unknown child Application doesn't degrade an app of apps.
    pub(crate) fn task_phase_from_health(
        &self,
        id: TaskId,
        task: &Task,
        status: HealthStatus,
    ) -> Option<OperationPhase> {
        let is_child = (task.gvk.group.as_str(), task.gvk.kind.as_str()) == ARGO_APPLICATION;
        let tells_nothing = matches!(status, HealthStatus::Missing | HealthStatus::Unknown);
        let affects_nothing = self.judged == HealthScope::ForApplication && !self.graph.has_dependents(id);
        if affects_nothing && is_child && tells_nothing && !task.is_hook() {
            return Some(OperationPhase::Succeeded);
        }
        phase_from_health(task.is_hook(), status)
    }

    /// Returns true if the wave must wait until pruned objects are gone before it applies manifests.
    /// Otherwise, it waits for them at its end.
    pub(crate) fn should_await_deletions(&self, index: u32) -> bool {
        !self.is_final_wave(index) || self.has_hooks(index) || self.header.request.wait == WaitFor::Healthy
    }

    /// Returns true if objects of the wave are being pruned.
    pub(crate) fn has_running_prunes(&self, index: u32) -> bool {
        let is_prune = |id: &TaskId| self.plan.task(*id).is_some_and(|task| task.action.is_prune());
        self.cursor_for_wave(index).deletions.tasks.iter().any(is_prune)
    }

    /// Returns true if a wave ends with a check of the namespaces that the operation writes to. Applies to
    /// the last wave and to a failed wave, because a lost namespace may be the cause.
    pub(crate) fn needs_verification(&self, index: u32) -> bool {
        let is_end = self.is_final_wave(index)
            || self.has_wave_failed(index)
            || self.next_wave_with_work(index.saturating_add(1), false).is_none();
        !self.namespaces.is_empty() && !self.is_sync_fail_wave(index) && is_end
    }

    /// Returns the prune of a namespace that the plan also writes to, if any, with an error message.
    /// PreDelete hooks don't count, because they end before any object is pruned.
    pub(crate) fn pruned_namespace_in_use(&self) -> Option<(TaskId, String)> {
        let mut pruned = self
            .plan
            .tasks_with_ids()
            .filter(|(_, task)| task.action == Action::Prune && task.gvk.is_namespace());
        pruned.find_map(|(id, namespace)| {
            let mut wanted = self.plan.tasks.iter().filter(|task| !task.action.is_prune());
            let inside =
                wanted.find(|task| task.namespace == namespace.name && task.phase != Phase::PreDelete)?;
            Some((id, namespace_pruned_message(&namespace.name, inside)))
        })
    }

    /// Returns true if the plan can be executed.
    pub(crate) fn is_valid(&self) -> bool {
        self.plan.errors().is_empty()
    }

    /// Returns true if a wave failed only because the server rejected its dry run at the opening.
    pub(crate) fn is_rejected_by_dry_run(&self, index: u32) -> bool {
        let is_tried = !self.header.request.options.skip_dry_run;
        let refused = |task: &Task, state: &TaskState| {
            task.options.dry_run_at_wave
                && !task.options.checked
                && !state.checked
                && state.status == Some(ResultCode::SyncFailed)
        };
        let mut failed = self.wave_tasks(index).filter(|(_, _, state)| state.is_unsuccessful());
        is_tried && self.has_wave_failed(index) && failed.all(|(_, task, state)| refused(task, state))
    }

    /// Returns true if any task in the wave has failed.
    pub(crate) fn has_wave_failed(&self, index: u32) -> bool {
        if self.cursor.wave == Some(index) {
            return self.cursor.unsuccessful_count > 0;
        }
        self.wave_tasks(index).any(|(_, _, state)| state.is_unsuccessful())
    }

    /// Returns the reason why a task keeps its wave open, or `None` if it doesn't. The flag is true if the
    /// object's observed health counts only after it has persisted for the settle time.
    pub(crate) fn open_reason(
        &self,
        id: TaskId,
        task: &Task,
        state: &TaskState,
    ) -> Option<(OpenReason, bool)> {
        let open = match state.progress {
            Progress::Stopping { .. } => OpenReason::Hook,
            Progress::Running if task.is_hook() => OpenReason::Hook,
            Progress::Running if self.is_judged_by_health(id, task) => OpenReason::Resource,
            Progress::Done if state.needs_release() => OpenReason::Hook,
            Progress::Deleting { .. } if state.is_being_deleted(task) => OpenReason::Deletion,
            _ => return None,
        };
        Some((open, self.weak_verdict(id, task, state).is_some()))
    }

    /// Returns the task's outcome by weak evidence, and the time when the evidence starts to count. `None`
    /// without weak evidence.
    pub(crate) fn weak_verdict(
        &self,
        id: TaskId,
        task: &Task,
        state: &TaskState,
    ) -> Option<(Timestamp, OperationPhase)> {
        let seen = state.health.as_ref().filter(|seen| !seen.fresh)?;
        let applied = state.applied.as_ref()?;
        let phase = self.task_phase_from_health(id, task, seen.health.status)?;
        Some((applied.at + self.settle_time(), phase))
    }

    /// Returns true if manifests of the wave are waiting for dependencies. A failed wave doesn't wait. In a
    /// SyncFail wave, only the hooks that depend on a failed one don't run.
    pub(crate) fn awaits_dependencies(&self, index: u32) -> bool {
        let has_failed = self.has_wave_failed(index);
        !self.cursor_for_wave(index).blocked.is_empty()
            && (!has_failed || self.is_sync_fail_wave(index) && self.has_releasable_tasks(index))
    }

    /// Returns the hooks of a wave whose names must be free before the wave applies manifests. The name of a
    /// hook with dependencies is cleared once these are satisfied.
    pub(crate) fn clearing_tasks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let is_due = |id| !self.graph.has_dependencies(id);
        self.wave_tasks(index).filter(move |(id, task, state)| is_clearing(task, state) && is_due(*id))
    }

    /// Returns true if the name of a hook must be free before the wave applies manifests, and isn't yet.
    pub(crate) fn needs_clearing(&self, index: u32) -> bool {
        self.clearing_tasks(index).next().is_some()
    }

    /// Returns the tasks that a wave is waiting for, grouped by the reason.
    pub(crate) fn awaited_tasks(&self, index: u32) -> AwaitedTasks<'_> {
        AwaitedTasks {
            needs_healthy_resources: self.needs_healthy_resources(index),
            // A failed wave doesn't wait for deletions: its outcome is known, and a finalizer may keep an
            // object forever.
            needs_deletions: !self.has_wave_failed(index),
            cursor: self.cursor_for_wave(index),
        }
    }

    /// Returns the tasks that a wave is waiting for, including those that other tasks depend on.
    pub(crate) fn awaited_task_states(
        &self,
        index: u32,
    ) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let mut awaited: Vec<TaskId> =
            self.awaited_tasks(index).open_tasks().flat_map(|open| &open.tasks).copied().collect();
        if self.awaits_dependencies(index) {
            awaited.extend(&self.cursor_for_wave(index).awaited_dependencies);
        }
        awaited.sort_unstable();
        awaited.dedup();
        awaited.into_iter().filter_map(|id| {
            let (task, state) = self.task(id)?;
            Some((id, task, state))
        })
    }

    /// Returns the rest of the kind group that is being applied: consecutive tasks of the same kind, starting
    /// with the first unfinished task.
    ///
    /// Groups run in sequence, and the tasks within a group in parallel. A custom resource definition must be
    /// established before the next group, which may contain objects of its kind. Tasks with dependencies don't
    /// belong to a group: they start when their dependencies are satisfied and all earlier groups are applied.
    pub(crate) fn current_apply_group(
        &self,
        index: u32,
    ) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let mut kind = None;
        self.remaining_wave_tasks(index)
            .filter(|(id, task, _)| task.action.writes_manifest() && !self.graph.has_dependencies(*id))
            .take_while(move |(_, task, _)| *kind.get_or_insert(&task.gvk.kind) == &task.gvk.kind)
    }

    /// Returns true if all manifests in a wave were either applied or rejected. In a failed wave, manifests
    /// that are waiting for dependencies aren't applied anymore.
    pub(crate) fn is_fully_applied(&self, index: u32) -> bool {
        self.cursor_for_wave(index).released.is_empty()
            && !self.awaits_dependencies(index)
            && self
                .remaining_wave_tasks(index)
                .filter(|(id, task, _)| task.action.writes_manifest() && !self.graph.has_dependencies(*id))
                .all(|(_, _, state)| !is_unapplied(state))
    }

    /// Returns true if the hook's object is known, and the hook's policy deletes it when the operation ends
    /// in this phase.
    pub(crate) fn should_delete_at_end(&self, task: &Task, state: &TaskState, phase: OperationPhase) -> bool {
        // In a superseded operation, a hook's own outcome selects its policy, as if the hook had been the
        // whole operation.
        let ended = if self.is_superseded() { state.phase } else { Some(phase) };
        let policy = if ended == Some(OperationPhase::Succeeded) {
            DeletePolicy::HookSucceeded
        } else {
            DeletePolicy::HookFailed
        };
        let Some(hook) = &task.hook else { return false };
        // If a user skipped the hook before it was created, an object with its name is from an earlier
        // operation.
        let is_skipped = matches!(state.status, Some(ResultCode::Skipped | ResultCode::MarkedDone));
        if is_skipped && state.applied.is_none() && state.leftover.is_none() {
            return false;
        }
        !has_runner(task)
            && hook.has_delete_policy(policy)
            && !state.deleted
            // No need to delete an object that is already being deleted.
            && matches!(state.progress, Progress::Done | Progress::Waiting | Progress::Ready)
            && self.hook_uid(task, state).is_some()
            // A dry run doesn't write to the cluster, so it doesn't delete old hooks either.
            && !self.header.request.options.dry_run
    }

    /// Returns the UID of the hook's object, as applied in this or an earlier attempt, or as read from the
    /// cluster.
    pub(crate) fn hook_uid<'a>(&self, task: &'a Task, state: &'a TaskState) -> Option<&'a str> {
        let applied = state.applied.as_ref().map(|applied| &applied.uid);
        let live = task.live.as_ref().map(|live| &live.uid);
        applied.or(state.leftover.as_ref()).or(live).map(String::as_str)
    }

    /// Returns true if a hook's log must still be read before the hook's object is deleted. This applies to
    /// hooks that failed or hit a deadline.
    pub(crate) fn needs_logs(&self, task: &Task, state: &TaskState) -> bool {
        let is_asked = state.notes.as_ref().is_some_and(|notes| notes.logs.is_some());
        // A hook stopped by a user's termination hasn't failed.
        let wanted = self.termination.as_ref().is_none_or(|termination| termination.message != TERMINATED);
        let ends_badly = match state.progress {
            Progress::Done => state.held && state.is_unsuccessful(),
            Progress::Stopping { .. } => wanted,
            _ => false,
        };
        ends_badly && !is_asked && state.applied.is_some() && task.is_hook() && !has_runner(task)
    }

    /// Returns true if the operation only has to clean up.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Terminating | Stage::Finishing { .. })
    }

    /// Returns true if the operation must end immediately because a user terminated it, even if calls hang.
    pub(crate) fn should_end_immediately(&self) -> bool {
        let by_person = |termination: &Termination| {
            termination.by != messages::TERMINATED_BY_DEADLINE && !self.is_superseded()
        };
        self.stage == Stage::Terminating && self.termination.as_ref().is_some_and(by_person)
    }

    /// Returns true if the operation is ending because another operation supersedes it.
    pub(crate) fn is_superseded(&self) -> bool {
        self.termination
            .as_ref()
            .is_some_and(|termination| messages::is_superseded_message(&termination.message))
    }

    pub(crate) fn can_retry(&self) -> bool {
        let limit = self.header.request.retry.limit;
        limit < 0 || i64::from(self.attempt.saturating_sub(1)) < limit
    }

    /// Returns true if another attempt needs a new plan, because this attempt didn't begin its waves, has an
    /// invalid plan, or lost a namespace.
    pub(crate) fn needs_new_plan(&self) -> bool {
        let has_begun = self.failure.as_ref().is_some_and(|failure| failure.wave.is_some());
        !has_begun || !self.is_valid() || self.lost_namespace.is_some()
    }

    /// Returns the number of retries.
    pub fn retry_count(&self) -> u32 {
        self.attempt.saturating_sub(1)
    }

    /// Returns the error message if the operation couldn't create its destination namespace. Nothing else can
    /// succeed without it, not even SyncFail hooks.
    pub(crate) fn namespace_error(&self) -> Option<&str> {
        let wanted = &self.header.request.namespace;
        self.all_tasks()
            .find(|(_, task, state)| {
                task.gvk.is_namespace()
                    && task.name == *wanted
                    && task.live.is_none()
                    && !task.is_hook()
                    && state.status == Some(ResultCode::SyncFailed)
            })
            .map(|(_, _, state)| state.message.as_str())
    }

    /// Returns the deadline of the current wave. A wave that only waits for the fixed delay doesn't have a
    /// deadline.
    pub fn wave_deadline(&self) -> Option<Timestamp> {
        let (index, step) = self.current_wave()?;
        let timeout = self.wave(index)?.timeout?;
        if matches!(step, WaveStep::Settling { .. }) && self.awaited_tasks(index).count() == 0 {
            return None;
        }
        Some(self.wave_times(index).deadline_from? + timeout)
    }

    /// Returns the deadline of the operation.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.header.request.deadline.map(|deadline| self.header.deadline_from + deadline)
    }

    /// Returns the deadline of a running hook.
    pub fn hook_deadline(&self, task: &Task, state: &TaskState) -> Option<Timestamp> {
        let timeout = task.hook.as_ref()?.timeout?;
        let started = state.applied.as_ref()?.at;
        (state.progress == Progress::Running).then_some(started + timeout)
    }

    /// Returns how long a weak health verdict must persist before it counts.
    pub(crate) fn settle_time(&self) -> Duration {
        self.header.request.wave_delay.unwrap_or(SETTLE_TIME)
    }
}
