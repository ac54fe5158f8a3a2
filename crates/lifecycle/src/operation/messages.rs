//! Exact messages, which users' scripts may match.

mod overrides;
mod paused;
mod remaining_objects;

use std::collections::BTreeSet;

use tidegate_model::{ClaimHolder, Phase, ResultCode, SUPERSEDED_PREFIX, Task, TaskId, Timestamp};

use super::state::{Claim, Header, Loss, Operation, Progress, Stage, State, TaskState, WaveStep};

pub(crate) use overrides::{describe_task, describe_task_state, override_message, with_overrides};
pub(crate) use remaining_objects::with_remaining_objects;

pub(crate) const SUCCEEDED_ALL: &str = "successfully synced (all tasks run)";
pub(crate) const SUCCEEDED_NO_MORE: &str = "successfully synced (no more tasks)";
/// Message of a completed application deletion.
pub(crate) const DELETED: &str = "successfully deleted";
/// Message of a completed application deletion that left the objects in place.
pub(crate) const DELETED_WITHOUT_OBJECTS: &str = "successfully deleted (its objects remain)";
pub(crate) const NOT_VALID: &str = "one or more synchronization tasks are not valid";
pub(crate) const DRY_RUN_FAILED: &str = "one or more objects failed to apply (dry run)";
pub(crate) const NAMESPACE_FAILED: &str = "the namespace failed to apply";
pub(crate) const APPLY_FAILED: &str = "one or more objects failed to apply";
pub(crate) const UNSUCCESSFUL: &str = "one or more synchronization tasks completed unsuccessfully";
pub(crate) const SYNC_FAIL_FAILED: &str = "one or more SyncFail hooks failed";
pub(crate) const RUNNING: &str = "one or more tasks are running";
pub(crate) const TERMINATED: &str = "Operation terminated";
/// Maximum number of failed objects in the message of an operation.
const FAILURES_MAX: usize = 10;
/// Maximum length of a quoted log line, in characters.
const LAST_LINE_MAX: usize = 200;
/// Requester of a termination by deadline.
pub(crate) const TERMINATED_BY_DEADLINE: &str = "deadline";
pub(crate) const TERMINATION_ERRORS: &str = "Operation termination had errors";
pub(crate) const TERMINATING: &str = "operation is terminating";
pub(crate) const TERMINATING_LATE: &str = "operation is terminating due to timeout";
pub(crate) const INCONSISTENT_PLAN: &str = "the plan is inconsistent; please report this bug in the planner";
pub(crate) const PRUNED: &str = "pruned";
pub(crate) const NOT_TRIED: &str =
    "not checked: this operation creates the object's kind or namespace (dry run)";
pub(crate) const RUNNER_NOT_TRIED: &str = "not checked: a hook runner runs this hook (dry run)";
/// Message of a resource that was deleted and must be recreated.
pub(crate) const RECREATED: &str = "deleted; will be recreated";
/// Message of an object that still exists although its deletion was requested.
const DELETION_PENDING: &str = "deletion requested";
pub(crate) const PRUNED_DRY_RUN: &str = "pruned (dry run)";

/// Appends reasons to a base message.
pub(crate) fn with_reason(base: &str, reasons: &[impl AsRef<str>]) -> String {
    let reasons: Vec<&str> = reasons.iter().map(AsRef::as_ref).collect();
    if reasons.is_empty() { base.to_owned() } else { format!("{base}, reason: {}", reasons.join(",")) }
}

/// Describes a failed object: its message, the reason derived from its pods, and the last log line of one of
/// its containers.
pub(crate) fn describe_failure(task: &Task, state: &TaskState) -> String {
    let reason = if state.message.contains(state.reason()) { "" } else { state.reason() };
    let message = with_cause(&state.message, reason);
    let last = state
        .logs()
        .iter()
        .rev()
        .find_map(|log| log.text.lines().rev().map(str::trim).find(|line| !line.is_empty()));
    // A server's rejection usually contains the object's name, and should be reported unchanged.
    let is_named = state.status == Some(ResultCode::SyncFailed) && has_word(&message, &task.name);
    let message = if is_named { message } else { with_cause(&describe_task(task), &message) };
    match last {
        None => message,
        Some(line) => {
            let line: String = line.chars().take(LAST_LINE_MAX).collect();
            format!("{message} (last log line: {line:?}; see `tidegate ops show` for more)")
        }
    }
}

/// Returns true if a string contains a word, which may contain dashes and dots.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.split(|c: char| !is_part(c)).any(|part| part.trim_matches('.') == word)
}

/// Describes the failed objects, up to the maximum number. Objects with a repeated message are omitted.
pub(crate) fn describe_failures(operation: &Operation, sync_fail: bool) -> Vec<String> {
    let mut messages: Vec<&str> = Vec::new();
    let mut failures = Vec::new();
    let mut more = 0_usize;
    for (_, task, state) in operation.all_tasks() {
        // As in Argo CD, SyncFail hooks that ran and failed aren't mentioned.
        let is_failed = state.status == Some(ResultCode::SyncFailed) || !sync_fail && state.is_unsuccessful();
        if (task.phase == Phase::SyncFail) != sync_fail || !is_failed {
            continue;
        }
        if failures.len() >= FAILURES_MAX {
            more = more.saturating_add(1);
        } else if state.message.is_empty() || !messages.contains(&state.message.as_str()) {
            messages.push(&state.message);
            failures.push(describe_failure(task, state));
        }
    }
    if more > 0 {
        failures.push(format!(" and {more} more"));
    }
    failures
}

/// Returns the error message for an operation that can't start because another operation is working on the
/// application.
pub(crate) fn claim_refused_message(header: &Header, holder: &ClaimHolder) -> String {
    format!(
        "application {} has another operation running: {holder}; wait for it with `tidegate sync --queue` or `tidegate app sync --policy queue`, or \
         end it with `tidegate sync --supersede` or `tidegate app sync --policy supersede`",
        header.request.application
    )
}

/// Returns the error message for an operation that lost its claim. Another operation is working on the
/// application, or has been in the meantime.
pub(crate) fn claim_lost_message(header: &Header, holder: Option<&ClaimHolder>) -> String {
    let application = &header.request.application;
    let (who, when) = match holder {
        Some(holder) => (format!("is now held by {holder}"), " when the other operation finishes"),
        None => ("was taken by another operation, which has already ended".to_owned(), ""),
    };
    format!(
        "the claim on application {application} {who}: the claim was not renewed in time, or its Lease was \
         changed. This operation stops without writing anything else and leaves its running hooks in \
         place; sync again{when}"
    )
}

/// Message of a hook whose delete request got no response in time.
pub(crate) const NOT_STOPPED: &str = "Failed to delete: the cluster did not respond before the termination \
                                      timed out; the hook may still be running, so check and delete it \
                                      manually";
/// Message of a hook whose finalizer couldn't be removed because the cluster didn't respond in time.
pub(crate) const NOT_RELEASED: &str = "Failed to remove hook finalizer: the cluster did not respond before \
                                       the termination timed out; remove the finalizer manually";

/// Returns the message of a superseded operation.
pub(crate) fn superseded_message(by: &ClaimHolder) -> String {
    format!("{SUPERSEDED_PREFIX}{by}")
}

pub(crate) fn is_superseded_message(message: &str) -> bool {
    message.starts_with(SUPERSEDED_PREFIX)
}

/// Joins a problem and its cause, such as `1 of 3 replicas ready: api-7f is crash-looping`.
pub(crate) fn with_cause(what: &str, cause: &str) -> String {
    match (what, cause) {
        (what, "") => what.to_owned(),
        ("", cause) => cause.to_owned(),
        (what, cause) => format!("{what}: {cause}"),
    }
}

/// Returns the message of an object that still exists although its deletion was requested. Includes the
/// reason if known.
pub(crate) fn deletion_message(reason: &str) -> String {
    if reason.is_empty() { DELETION_PENDING.to_owned() } else { format!("{DELETION_PENDING}; {reason}") }
}

/// Returns the reason why a deleted object still exists. Empty if unknown.
pub(crate) fn deletion_blocker(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!("waits for {what}") }
}

/// Returns the message for a namespace that was deleted or recreated while the operation was writing to it.
pub(crate) fn namespace_lost_message(name: &str, loss: Loss) -> String {
    let what = loss.describe(name);
    match loss {
        Loss::Terminating => {
            format!(
                "{what}, together with everything that this operation wrote there; sync again when it is gone"
            )
        }
        Loss::Gone => format!("{what}, together with everything that this operation wrote there; sync again"),
        Loss::MadeAgain => {
            format!("{what}, and everything that this operation wrote to the old one is gone; sync again")
        }
    }
}

/// Returns the message for a namespace that was deleted or recreated before the operation wrote to it.
pub(crate) fn namespace_lost_early_message(name: &str, loss: Loss) -> String {
    let when = if loss == Loss::Terminating { " once the namespace is gone" } else { "" };
    format!("{}, but this operation writes objects to it; sync again{when}", loss.describe(name))
}

/// Returns the message of an attempt whose dry run failed. The results list the failed objects. The message
/// also lists missing namespaces, because they may have been deleted during the previous attempt.
pub(crate) fn dry_run_failed_message(operation: &Operation) -> String {
    let absent = |name: &str| {
        // All versions of the API server use this phrase.
        let text = format!("namespaces {name:?} not found");
        let mut refused = operation.all_tasks().filter(|(_, _, state)| state.is_unsuccessful());
        refused.any(|(_, task, state)| task.namespace == name && state.message.contains(&text))
    };
    let names: Vec<&str> =
        operation.namespaces.iter().map(String::as_str).filter(|name| absent(name)).collect();
    let reason = match names.as_slice() {
        [] => {
            let reasons = [describe_failures(operation, false), describe_failures(operation, true)].concat();
            return with_reason(DRY_RUN_FAILED, &reasons);
        }
        [name] => format!("namespace {name} does not exist"),
        names => format!("namespaces {} do not exist", names.join(", ")),
    };
    let request = &operation.header.request;
    let advice = match request.options.has("CreateNamespace=true") {
        false => "create the missing namespaces, or sync with CreateNamespace=true".to_owned(),
        true => format!(
            "create the missing namespaces or add them to the manifests: CreateNamespace=true creates only the destination namespace ({})",
            request.namespace
        ),
    };
    with_reason(DRY_RUN_FAILED, &[&format!("{reason}, but this operation writes objects there; {advice}")])
}

impl Loss {
    /// Returns the word for the loss: `terminating`, `gone` or `recreated`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminating => "terminating",
            Self::Gone => "gone",
            Self::MadeAgain => "recreated",
        }
    }

    /// Describes the loss of a namespace, such as `namespace shop is being deleted`.
    pub fn describe(self, namespace: &str) -> String {
        match self {
            Self::Terminating => format!("namespace {namespace} is being deleted"),
            Self::Gone => format!("namespace {namespace} was deleted"),
            Self::MadeAgain => format!("namespace {namespace} was deleted and recreated by another client"),
        }
    }
}

/// Returns the message of an object that isn't pruned because a kept object depends on it.
pub(crate) fn needed_by_kept_message(kept: &Task) -> String {
    format!("ignored (needed by {}, which is kept)", kept.key())
}

/// Returns the error message for a plan that both prunes a namespace and writes to it.
pub(crate) fn namespace_pruned_message(name: &str, inside: &Task) -> String {
    let advice = match inside.phase {
        Phase::PostDelete => "keep the namespace with the sync option Delete=false",
        _ => "keep the namespace in the manifests",
    };
    format!(
        "namespace {name} would be pruned, but this operation writes objects to it, such as {}; {advice}, or move the objects to another namespace",
        inside.key()
    )
}

/// Lists a deletion wave's failed hooks in Argo CD's format.
pub(crate) fn deletion_hook_failures(operation: &Operation, index: u32) -> Option<String> {
    operation.header.request.deletion?;
    let phase = operation.wave(index)?.phase;
    let failed =
        operation.wave_tasks(index).filter(|(_, task, state)| task.is_hook() && state.is_unsuccessful());
    let names: Vec<String> = failed.map(|(_, task, _)| format!("{}/{}", task.namespace, task.name)).collect();
    (!names.is_empty()).then(|| format!("{phase} hook(s) failed: {}", names.join(", ")))
}

/// Returns the message of an invalid plan, with its errors.
pub(crate) fn invalid_plan_message(errors: &[&str]) -> String {
    format!("{NOT_VALID}: {}", errors.join("; "))
}

/// Formats a time of day in UTC in Argo CD's format, such as `3:04PM`.
fn format_time_of_day(at: Timestamp) -> String {
    let minutes = at.as_seconds().rem_euclid(86_400) / 60;
    let (hour, minute) = (minutes / 60, minutes % 60);
    let half = if hour < 12 { "AM" } else { "PM" };
    let hour = if hour % 12 == 0 { 12 } else { hour % 12 };
    format!("{hour}:{minute:02}{half}")
}

/// Returns the error message for a hook of unknown health.
pub(crate) fn unknown_health_message(reason: &str) -> String {
    format!("failed to get resource health: {reason}")
}

/// Returns the message of an object that should exist but doesn't.
pub(crate) fn missing_object_message(task: &Task) -> String {
    format!("Resource {} is missing, it might have been deleted", task.key().in_messages())
}

/// Reason for a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitReason {
    Health,
    Deletion,
    Confirmation,
}

/// Formats a wait, such as `waiting for healthy state of apps/Deployment/api and 2 more resources`. If a hook
/// is awaited, the message contains the hook's name.
fn wait_message(reason: WaitReason, named: &Task, hooks: usize, others: usize) -> String {
    let what = match (reason, named.is_hook()) {
        (WaitReason::Confirmation, _) => "pruning confirmation of",
        (WaitReason::Health, true) => "completion of hook",
        (WaitReason::Health, false) => "healthy state of",
        (WaitReason::Deletion, true) => "deletion of hook",
        (WaitReason::Deletion, false) => "deletion of",
    };
    let name = named.key().in_messages();
    let noun = if others == 0 { "hooks" } else { "resources" };
    match hooks.saturating_add(others).saturating_sub(1) {
        0 => format!("waiting for {what} {name}"),
        more => format!("waiting for {what} {name} and {more} more {noun}"),
    }
}

/// Formats a wait for several tasks.
fn tasks_wait_message<'a>(reason: WaitReason, tasks: impl Iterator<Item = &'a Task>) -> Option<String> {
    let (hooks, others): (Vec<&Task>, Vec<&Task>) = tasks.partition(|task| task.is_hook());
    let named = hooks.first().or(others.first())?;
    Some(wait_message(reason, named, hooks.len(), others.len()))
}

impl TaskState {
    /// Returns the health message and the reason derived from the pods. Empty before the first observation.
    pub(crate) fn describe_health(&self) -> String {
        let health = self.health.as_ref().map_or("", |seen| seen.health.message.as_str());
        with_cause(health, self.reason())
    }

    /// Returns the reason why the object isn't healthy.
    pub(crate) fn unhealthy_reason(&self) -> String {
        match (self.describe_health(), &self.health) {
            (reason, _) if !reason.is_empty() => reason,
            (_, Some(seen)) => format!("{:?}", seen.health.status),
            (_, None) => "its health is not known yet".to_owned(),
        }
    }

    /// Returns the message of an awaited task when a deadline passes. `whose` is `wave` or `operation`, and
    /// `reason` explains why the object isn't healthy.
    pub(crate) fn deadline_message(&self, task: &Task, whose: &str, reason: &str) -> Option<String> {
        if self.is_being_deleted(task) {
            let leaving = deletion_message(self.reason());
            return Some(format!("not deleted when the {whose}'s deadline passed: {leaving}"));
        }
        let is_running = self.progress == Progress::Running;
        is_running.then(|| format!("not healthy when the {whose}'s deadline passed: {reason}"))
    }
}

impl Header {
    /// Returns the message that ends a planned operation after its claim was lost. Another operation has
    /// worked on the application since, so the plan is stale.
    pub(crate) fn lost_claim_message(&self) -> Option<String> {
        match self.claim.as_deref() {
            Some(Claim::Lost { holder }) => Some(claim_lost_message(self, holder.as_ref())),
            _ => None,
        }
    }
}

impl State {
    /// Returns the current message of the operation.
    pub fn message(&self) -> String {
        match self {
            Self::New => String::new(),
            Self::Accepted(header) => header.message(),
            Self::Running(operation) | Self::Finished(operation) => operation.message(),
        }
    }
}

impl Header {
    /// Returns the message of an operation that hasn't been planned yet.
    fn message(&self) -> String {
        // A paused operation makes no calls, so what it will wait for next is unknown.
        if let Some(pause) = &self.paused {
            return pause.describe();
        }
        if self.has_failing_call() {
            let message = self.outage.as_ref().map_or(&self.calls.message, |outage| &outage.message);
            return format!("waiting for the cluster to respond: {message}");
        }
        match self.claim.as_deref() {
            Some(Claim::Taken { holder, .. }) => format!("waiting for the end of {holder}"),
            _ if self.can_begin() => "planning".to_owned(),
            _ => "acquiring the claim".to_owned(),
        }
    }
}

impl Operation {
    /// Returns the current message of the operation.
    pub fn message(&self) -> String {
        if let Some(outcome) = &self.outcome {
            return outcome.message.clone();
        }
        match &self.header.paused {
            Some(pause) => paused::paused_message(pause, self),
            None => self.unpaused_message(),
        }
    }

    /// Returns the current activity or wait, in Argo CD's wording.
    fn unpaused_message(&self) -> String {
        match &self.stage {
            Stage::Planned | Stage::DryRun => RUNNING.to_owned(),
            Stage::Wave { index, step } => self.wave_message(*index, *step),
            Stage::AwaitingRetry { until } => {
                let message =
                    self.failure.as_ref().map(|failure| failure.message.as_str()).unwrap_or_default();
                format!("{message}. Retrying attempt #{} at {}.", self.attempt, format_time_of_day(*until))
            }
            Stage::Terminating => {
                let late = self
                    .termination
                    .as_ref()
                    .is_some_and(|termination| termination.by == TERMINATED_BY_DEADLINE);
                if late { TERMINATING_LATE } else { TERMINATING }.to_owned()
            }
            Stage::Finishing { message, .. } => message.clone(),
        }
    }

    /// Describes what the operation is waiting for when a deadline passes. For an object that is being
    /// deleted, includes the reason why the object still exists.
    pub(crate) fn describe_wait(&self) -> String {
        let message = self.message();
        let kept = self.current_wave().and_then(|(index, step)| match step {
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                let awaiting = self.awaited_tasks(index);
                let (first, _) = awaiting.first_deletion().filter(|_| awaiting.first_health().is_none())?;
                self.task(first)
            }
            _ if self.occupied_place_message(index).is_some() => None,
            _ => self.blocking_deletions(index, step).min_by_key(|(task, _)| !task.is_hook()),
        });
        match kept {
            Some((_, state)) => format!("{message} ({})", deletion_message(state.reason())),
            None => message,
        }
    }

    /// Returns the objects being deleted that block a step of a wave.
    fn blocking_deletions(&self, index: u32, step: WaveStep) -> impl Iterator<Item = (&Task, &TaskState)> {
        // Only hooks and the deletions in the cursor can be in this state.
        let open = self.cursor_for_wave(index).deletions.tasks.clone();
        let hooks = self.wave_hooks(index).map(|(id, _, _)| id);
        let ids: BTreeSet<TaskId> = open.into_iter().chain(hooks).collect();
        let deleting = ids.into_iter().filter_map(|id| self.task(id));
        let deleting = deleting.filter(|(_, state)| matches!(state.progress, Progress::Deleting { .. }));
        deleting.filter(move |(task, _)| match step {
            WaveStep::AwaitingGone | WaveStep::Clearing => true,
            // Only deletions that make room for new objects block this step. Prunes don't.
            WaveStep::Applying => !task.action.is_prune(),
            _ => false,
        })
    }

    fn wave_message(&self, index: u32, step: WaveStep) -> String {
        let message = match step {
            WaveStep::Held => tasks_wait_message(WaitReason::Confirmation, self.unconfirmed_prunes(index))
                .or_else(|| self.first_closed_gate()),
            WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::Applying => self
                .occupied_place_message(index)
                .or_else(|| {
                    tasks_wait_message(
                        WaitReason::Deletion,
                        self.blocking_deletions(index, step).map(|(task, _)| task),
                    )
                })
                .or_else(|| self.dependencies_message(index).filter(|_| step == WaveStep::Applying)),
            WaveStep::Pruning => self.awaited_prune_message(index),
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                let awaiting = self.awaited_tasks(index);
                let health = awaiting
                    .first_health()
                    .map(|(named, hooks, others)| (WaitReason::Health, named, hooks, others));
                let deletion = || {
                    awaiting.first_deletion().map(|(named, others)| (WaitReason::Deletion, named, 0, others))
                };
                health.or_else(deletion).and_then(|(reason, named, hooks, others)| {
                    Some(wait_message(reason, self.plan.task(named)?, hooks, others))
                })
            }
            _ => None,
        };
        message.unwrap_or_else(|| RUNNING.to_owned())
    }

    /// Formats the wait of manifests for their dependencies. `None` while other manifests can be applied.
    pub(super) fn dependencies_message(&self, index: u32) -> Option<String> {
        let awaited = &self.cursor_for_wave(index).awaited_dependencies;
        let waits = self.awaits_dependencies(index) && self.cursor_for_wave(index).released.is_empty();
        let named = self.plan.task(*awaited.first().filter(|_| waits)?)?;
        let (hooks, others) = if named.is_hook() { (awaited.len(), 0) } else { (0, awaited.len()) };
        Some(wait_message(WaitReason::Health, named, hooks, others))
    }

    /// Formats the wait of prunes for the deletion of the objects that depend on them.
    fn awaited_prune_message(&self, index: u32) -> Option<String> {
        let cursor = self.cursor_for_wave(index);
        let first = cursor.deletions.tasks.first().filter(|_| !cursor.unmet.is_empty())?;
        let named = self.plan.task(*first)?;
        Some(wait_message(WaitReason::Deletion, named, 0, cursor.deletions.tasks.len()))
    }

    /// Formats a wait for another operation's hook, such as `waiting for completion of hook batch/Job/migrate
    /// of operation 0193…`.
    fn occupied_place_message(&self, index: u32) -> Option<String> {
        let (_, task, state) = self.wave_hooks(index).find(|(_, _, state)| state.occupant.is_some())?;
        let waiting = wait_message(WaitReason::Health, task, 1, 0);
        Some(format!("{waiting} of operation {}", state.occupant.as_ref()?.operation))
    }

    /// Returns the prunes of a wave that are waiting for a user's confirmation. In an application deletion,
    /// these are the unconfirmed prunes of all waves, because nothing is deleted until all of them are
    /// confirmed.
    pub(crate) fn unconfirmed_prunes(&self, index: u32) -> impl Iterator<Item = &Task> {
        let confirmed = self.prune_confirmed || self.header.request.options.prune_confirmed;
        let deletes = self.header.request.deletion.is_some();
        let is_of_deletion = deletes && self.wave(index).is_some_and(|wave| wave.phase == Phase::Sync);
        let own = (!is_of_deletion).then(|| self.wave_tasks(index).map(|(id, task, _)| (id, task)));
        let all = is_of_deletion.then(|| self.plan.tasks_with_ids());
        own.into_iter()
            .flatten()
            .chain(all.into_iter().flatten())
            .filter(move |(id, task)| {
                let is_due = !self.is_overridden_as_done(*id);
                !confirmed
                    && is_due
                    && task.options.confirm_prune
                    && task.action == tidegate_model::Action::Prune
            })
            .map(|(_, task)| task)
    }

    /// Returns the prunes of later waves that the same confirmation covers, with the positions of their
    /// waves.
    pub(crate) fn later_unconfirmed_prunes(&self, index: u32) -> impl Iterator<Item = (u32, &Task)> {
        let asks = self.unconfirmed_prunes(index).next().is_some();
        // In a deletion, all prunes are confirmed together.
        let is_of_sync = self.header.request.deletion.is_none();
        let later = (0..).zip(&self.plan.waves).map(|(later, _): (u32, _)| later);
        later
            .filter(move |later| asks && is_of_sync && *later > index)
            .flat_map(|later| self.unconfirmed_prunes(later).map(move |task| (later, task)))
    }
}

/// Returns the message of a hook that exceeded its deadline.
pub(crate) fn hook_deadline_message(task: &Task) -> String {
    let timeout = task.hook.as_ref().and_then(|hook| hook.timeout).unwrap_or_default();
    format!("hook did not complete within {}", tidegate_model::format_duration(timeout))
}
