//! Questions about an operation that several parts of the machine ask. Each is answered from state alone.

mod awaiting;
mod task;

use std::time::Duration;

use tidegate_model::{
    Action, DeletePolicy, HealthStatus, OperationPhase, Phase, ResultCode, Task, TaskId, Timestamp, WaitFor,
};

use super::judge::phase_of;
use super::messages::{self, TERMINATED, namespace_pruned};
use super::state::{Judged, Operation, Progress, Stage, TaskState, Termination, WaveStep, WaveTimes};

pub(crate) use awaiting::Awaiting;
pub(crate) use task::{
    Open, awaits_establishment, has_runner, holds_up, is_clearing, is_crd, is_sound, namespaces_of,
    needs_check, unapplied,
};

/// How long a kind that offers no better evidence must look healthy after our write (design: evidence, not sleeping).
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

const ARGO_APPLICATION: (&str, &str) = ("argoproj.io", "Application");

impl Operation {
    /// Whether a wave has anything to do; one of unchanged resources is passed over, and one that a person has skipped.
    pub(crate) fn is_active(&self, index: u32) -> bool {
        self.wave_tasks(index)
            .any(|(id, task, _)| task.action != Action::Unchanged && !self.is_passed_over(id))
    }

    /// The first wave at or after `from` that has something to do, among the SyncFail waves or among the others.
    pub(crate) fn next_wave(&self, from: u32, sync_fail: bool) -> Option<u32> {
        self.waves_from(from, sync_fail).find(|index| self.is_active(*index))
    }

    fn waves_from(&self, from: u32, sync_fail: bool) -> impl Iterator<Item = u32> {
        (from..)
            .zip(self.plan.waves.iter().skip(TaskId(from).index()))
            .filter(move |(_, wave)| (wave.phase == Phase::SyncFail) == sync_fail)
            .map(|(index, _)| index)
    }

    /// Whether a person's wish has left nothing to do in a wave that was not begun.
    pub(crate) fn is_settled(&self, index: u32) -> bool {
        let mut tasks = self.wave_tasks(index).filter(|(_, task, _)| task.action != Action::Unchanged);
        let is_settled = |(id, task, state): (TaskId, &Task, &TaskState)| {
            self.is_passed_over(id) || state.progress == Progress::Done || task.action == Action::PruneSkipped
        };
        !self.overrides.is_empty()
            && self.wave_tasks(index).any(|(id, _, _)| self.is_passed_over(id))
            && tasks.all(is_settled)
    }

    /// The wave that an earlier attempt has opened and not passed. This attempt goes on there.
    pub(crate) fn interrupted_wave(&self) -> Option<u32> {
        let is_open = |times: &WaveTimes| times.opened_at.is_some() && times.passed_at.is_none();
        (0..)
            .zip(&self.waves)
            .find(|(index, times)| is_open(times) && !self.is_sync_fail(*index))
            .map(|(index, _)| index)
    }

    /// The step of the task's own wave, if that wave is at work.
    pub(crate) fn step_of(&self, id: TaskId) -> Option<WaveStep> {
        let (index, step) = self.current_wave()?;
        let wave = self.wave(index)?;
        let position = id.0.checked_sub(wave.first)?;
        (position < wave.count).then_some(step)
    }

    /// Whether the wave is one of the SyncFail phase.
    pub(crate) fn is_sync_fail(&self, index: u32) -> bool {
        self.wave(index).is_some_and(|wave| wave.phase == Phase::SyncFail)
    }

    /// Whether no wave comes after this one unless something fails.
    pub(crate) fn is_final(&self, index: u32) -> bool {
        if self.cursor.wave == Some(index) { self.cursor.is_final } else { self.is_last(index) }
    }

    /// The same, by a look at the plan. What people skip changes nothing of what a wave waits for.
    pub(crate) fn is_last(&self, index: u32) -> bool {
        let does = |index| self.wave_tasks(index).any(|(_, task, _)| task.action != Action::Unchanged);
        !self.waves_from(index.saturating_add(1), false).any(does)
    }

    /// Whether the wave has a hook to run.
    pub(crate) fn has_hooks(&self, index: u32) -> bool {
        self.wave_hooks(index).next().is_some()
    }

    /// Whether the wave's resources must become healthy before it passes (spec: consequences that matter). The last
    /// wave of all is gated only where the request asks for it, or where a hook keeps an operation of several waves
    /// going anyway.
    pub(crate) fn awaits_resources(&self, index: u32) -> bool {
        self.is_gate(index) || self.awaits_application(index)
    }

    /// Whether what comes after the wave waits for its resources.
    fn is_gate(&self, index: u32) -> bool {
        !self.ends_without_health(index)
            && (!self.is_final(index) || (self.has_hooks(index) && self.plan.is_multi_step()))
    }

    /// Whether the wave waits until the application is healthy, which is what the request asks for.
    fn awaits_application(&self, index: u32) -> bool {
        !self.ends_without_health(index) && self.header.request.wait == WaitFor::Healthy
    }

    fn ends_without_health(&self, index: u32) -> bool {
        self.is_sync_fail(index) || self.wave_failed(index)
    }

    /// Which resources of a wave are judged: all, when something waits for the wave or a hook keeps it open anyway;
    /// else those that count for the health of the application, when that is waited for.
    pub(crate) fn judged_in(&self, index: u32) -> Judged {
        if self.is_gate(index) || self.has_hooks(index) {
            Judged::All
        } else if self.awaits_application(index) {
            Judged::ForApplication
        } else {
            Judged::None
        }
    }

    /// Whether the health of the task's object decides how the task ends.
    pub(crate) fn judges(&self, task: &Task) -> bool {
        task.is_hook()
            || match self.judged {
                Judged::All => true,
                Judged::ForApplication => !task.options.ignores_health,
                Judged::None => false,
            }
    }

    /// How a task stands by its health; `None` while it is not decided. An application of applications is no worse for
    /// a child that is not there yet or tells nothing (spec: application health).
    pub(crate) fn phase_by(&self, task: &Task, status: HealthStatus) -> Option<OperationPhase> {
        let is_child = (task.gvk.group.as_str(), task.gvk.kind.as_str()) == ARGO_APPLICATION;
        let tells_nothing = matches!(status, HealthStatus::Missing | HealthStatus::Unknown);
        if self.judged == Judged::ForApplication && is_child && tells_nothing && !task.is_hook() {
            return Some(OperationPhase::Succeeded);
        }
        phase_of(task.is_hook(), status)
    }

    /// Whether the wave applies nothing until pruned objects are gone. Otherwise they are awaited at its end.
    pub(crate) fn awaits_gone(&self, index: u32) -> bool {
        !self.is_final(index) || self.has_hooks(index) || self.header.request.wait == WaitFor::Healthy
    }

    /// Whether a wave ends with a look at the namespaces that the operation writes into: the last one, and one that has
    /// failed, because that may be the reason.
    pub(crate) fn verifies(&self, index: u32) -> bool {
        let is_end = self.is_final(index)
            || self.wave_failed(index)
            || self.next_wave(index.saturating_add(1), false).is_none();
        !self.namespaces.is_empty() && !self.is_sync_fail(index) && is_end
    }

    /// The namespace that the plan prunes and writes into, if there is one, and why that cannot be done. What ends before
    /// anything is pruned may be in it.
    pub(crate) fn prune_from_under_itself(&self) -> Option<(TaskId, String)> {
        let mut pruned =
            self.plan.enumerate().filter(|(_, task)| task.action == Action::Prune && task.gvk.is_namespace());
        pruned.find_map(|(id, namespace)| {
            let mut wanted = self.plan.tasks.iter().filter(|task| !task.action.is_prune());
            let inside =
                wanted.find(|task| task.namespace == namespace.name && task.phase != Phase::PreDelete)?;
            Some((id, namespace_pruned(&namespace.name, inside)))
        })
    }

    /// Whether the plan can be carried out.
    pub(crate) fn is_valid(&self) -> bool {
        self.plan.errors().is_empty()
    }

    /// Whether a wave has failed because the server would not take what could only be tried when it opened.
    pub(crate) fn refused_by_trial(&self, index: u32) -> bool {
        let is_tried = !self.header.request.options.skip_dry_run;
        let refused = |task: &Task, state: &TaskState| {
            task.options.dry_run_at_wave
                && !task.options.checked
                && !state.checked
                && state.status == Some(ResultCode::SyncFailed)
        };
        let mut failed = self.wave_tasks(index).filter(|(_, _, state)| state.is_unsuccessful());
        is_tried && self.wave_failed(index) && failed.all(|(_, task, state)| refused(task, state))
    }

    /// Whether a task of the wave has ended badly.
    pub(crate) fn wave_failed(&self, index: u32) -> bool {
        if self.cursor.wave == Some(index) {
            return self.cursor.unsuccessful > 0;
        }
        self.wave_tasks(index).any(|(_, _, state)| state.is_unsuccessful())
    }

    /// Whether a task may keep its wave open, and as what; and whether what is seen of it only time can confirm.
    pub(crate) fn open(&self, task: &Task, state: &TaskState) -> Option<(Open, bool)> {
        let open = match state.progress {
            Progress::Stopping { .. } => Open::Hook,
            Progress::Running if task.is_hook() => Open::Hook,
            Progress::Running if self.judges(task) => Open::Resource,
            Progress::Done if state.awaits_release() => Open::Hook,
            Progress::Deleting { .. } if state.is_leaving(task) => Open::Leaving,
            _ => return None,
        };
        Some((open, self.weak_verdict(task, state).is_some()))
    }

    /// A verdict that only time can confirm, and when it is confirmed.
    pub(crate) fn weak_verdict(&self, task: &Task, state: &TaskState) -> Option<(Timestamp, OperationPhase)> {
        let seen = state.health.as_ref().filter(|seen| !seen.fresh)?;
        let applied = state.applied.as_ref()?;
        let phase = self.phase_by(task, seen.health.status)?;
        Some((applied.at + self.settle_time(), phase))
    }

    /// What a wave waits for.
    pub(crate) fn awaiting(&self, index: u32) -> Awaiting<'_> {
        Awaiting {
            awaits_resources: self.awaits_resources(index),
            // Of a wave that has failed the end is known, and a finalizer may keep an object for ever.
            awaits_leaving: !self.wave_failed(index),
            cursor: self.cursor_at(index),
        }
    }

    /// The tasks a wave waits for.
    pub(crate) fn awaited(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let mut awaited: Vec<TaskId> =
            self.awaiting(index).sorts().flat_map(|open| &open.tasks).copied().collect();
        awaited.sort_unstable();
        awaited.into_iter().filter_map(|id| {
            let (task, state) = self.task(id)?;
            Some((id, task, state))
        })
    }

    /// What is left of the kind group that is being applied: consecutive tasks of one kind, from the first that is not
    /// done yet.
    ///
    /// Groups run one after the other, the tasks of a group at once. A custom resource definition must be established
    /// before the next group, which may hold objects of its kind.
    pub(crate) fn apply_group(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let mut kind = None;
        self.rest_of_wave(index)
            .filter(|(_, task, _)| task.action.writes())
            .take_while(move |(_, task, _)| *kind.get_or_insert(&task.gvk.kind) == &task.gvk.kind)
    }

    /// Whether everything a wave applies was applied or refused.
    pub(crate) fn all_applied(&self, index: u32) -> bool {
        self.rest_of_wave(index)
            .filter(|(_, task, _)| task.action.writes())
            .all(|(_, _, state)| !unapplied(state))
    }

    /// Whether the hook's policy deletes its object when the operation ends like this, and the object is known.
    pub(crate) fn deletes_at_end(&self, task: &Task, state: &TaskState, phase: OperationPhase) -> bool {
        // Whoever takes its place is to find the place of each hook as if that had run alone.
        let ended = if self.is_superseded() { state.phase } else { Some(phase) };
        let policy = if ended == Some(OperationPhase::Succeeded) {
            DeletePolicy::HookSucceeded
        } else {
            DeletePolicy::HookFailed
        };
        let Some(hook) = &task.hook else { return false };
        // Of one that a person has skipped before it was created, what an earlier operation left stays.
        let is_skipped = matches!(state.status, Some(ResultCode::Skipped | ResultCode::MarkedDone));
        if is_skipped && state.applied.is_none() && state.leftover.is_none() {
            return false;
        }
        !has_runner(task)
            && hook.deletes(policy)
            && !state.deleted
            // What is being deleted needs no second deletion.
            && matches!(state.progress, Progress::Done | Progress::Waiting | Progress::Ready)
            && self.hook_uid(task, state).is_some()
            // An operation that only tries writes nothing, old hooks included.
            && !self.header.request.options.dry_run
    }

    /// The UID of the hook's object, as applied in this attempt or an earlier one, or as it was found in the cluster.
    pub(crate) fn hook_uid<'a>(&self, task: &'a Task, state: &'a TaskState) -> Option<&'a str> {
        let applied = state.applied.as_ref().map(|applied| &applied.uid);
        let live = task.live.as_ref().map(|live| &live.uid);
        applied.or(state.leftover.as_ref()).or(live).map(String::as_str)
    }

    /// Whether the last words of a hook are still to be read: it has failed, or a deadline ends it, and its object is
    /// about to go.
    pub(crate) fn awaits_logs(&self, task: &Task, state: &TaskState) -> bool {
        let is_asked = state.notes.as_ref().is_some_and(|notes| notes.logs.is_some());
        // A hook that a person ends has not failed.
        let wanted = self.termination.as_ref().is_none_or(|termination| termination.message != TERMINATED);
        let ends_badly = match state.progress {
            Progress::Done => state.held && state.is_unsuccessful(),
            Progress::Stopping { .. } => wanted,
            _ => false,
        };
        ends_badly && !is_asked && state.applied.is_some() && task.is_hook() && !has_runner(task)
    }

    /// Whether nothing but cleaning up is left.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Terminating | Stage::Finishing { .. })
    }

    /// Whether it is to be over at once, whatever hangs: a person ends it.
    pub(crate) fn is_hurried(&self) -> bool {
        let by_person =
            |termination: &Termination| termination.by != messages::BY_DEADLINE && !self.is_superseded();
        self.stage == Stage::Terminating && self.termination.as_ref().is_some_and(by_person)
    }

    /// Whether it ends because another one takes its place.
    pub(crate) fn is_superseded(&self) -> bool {
        self.termination.as_ref().is_some_and(|termination| messages::is_superseded(&termination.message))
    }

    /// Whether another attempt is allowed.
    pub(crate) fn may_retry(&self) -> bool {
        let limit = self.header.request.retry.limit;
        limit < 0 || i64::from(self.attempt.saturating_sub(1)) < limit
    }

    /// Whether another attempt needs a plan of its own: nothing came of this one, or it is about a namespace that is lost.
    pub(crate) fn plans_anew(&self) -> bool {
        let has_begun = self.failure.as_ref().is_some_and(|failure| failure.wave.is_some());
        !has_begun || !self.is_valid() || self.lost_namespace.is_some()
    }

    /// How many times the operation was tried again.
    pub fn retry_count(&self) -> u32 {
        self.attempt.saturating_sub(1)
    }

    /// Distinct messages of refused tasks, in plan order, with the filter applied to their phase.
    pub(crate) fn refusals(&self, sync_fail: bool) -> Vec<&str> {
        let mut messages: Vec<&str> = Vec::new();
        for (_, task, state) in self.all_tasks() {
            if (task.phase == Phase::SyncFail) == sync_fail
                && state.status == Some(ResultCode::SyncFailed)
                && !messages.contains(&state.message.as_str())
            {
                messages.push(&state.message);
            }
        }
        messages
    }

    /// The message of the destination namespace, if this operation had to create it and could not. Nothing else can
    /// work then, SyncFail hooks included.
    pub(crate) fn refused_namespace(&self) -> Option<&str> {
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

    /// When the current wave's deadline passes. A wave that has only the fixed delay left cannot be late any more.
    pub fn wave_deadline(&self) -> Option<Timestamp> {
        let (index, step) = self.current_wave()?;
        let timeout = self.wave(index)?.timeout?;
        if matches!(step, WaveStep::Settling { .. }) && self.awaiting(index).count() == 0 {
            return None;
        }
        Some(self.times(index).deadline_from? + timeout)
    }

    /// When the operation's deadline passes.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.header.request.deadline.map(|deadline| self.header.deadline_from + deadline)
    }

    /// When a hook's deadline passes.
    pub fn hook_deadline(&self, task: &Task, state: &TaskState) -> Option<Timestamp> {
        let timeout = task.hook.as_ref()?.timeout?;
        let started = state.applied.as_ref()?.at;
        (state.progress == Progress::Running).then_some(started + timeout)
    }

    /// How long weak evidence must hold.
    pub(crate) fn settle_time(&self) -> Duration {
        self.header.request.wave_delay.unwrap_or(SETTLE)
    }
}
