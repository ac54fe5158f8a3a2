//! The exact texts users match on (spec: result model and messages).

mod left_alone;
mod overrides;
mod paused;

use tidegate_model::{ClaimHolder, Phase, Task, Timestamp};

use super::state::{Claim, Header, Loss, Operation, Progress, Stage, State, TaskState, WaveStep};

pub(crate) use left_alone::with_left_alone;
pub(crate) use overrides::{named, passed_over, standing, with_overrides};

pub(crate) const SUCCEEDED_ALL: &str = "successfully synced (all tasks run)";
pub(crate) const SUCCEEDED_NO_MORE: &str = "successfully synced (no more tasks)";
/// Of the deletion of an application.
pub(crate) const DELETED: &str = "successfully deleted";
/// The same, where its objects stay.
pub(crate) const DELETED_ALONE: &str = "successfully deleted (its objects stay)";
pub(crate) const NOT_VALID: &str = "one or more synchronization tasks are not valid";
pub(crate) const DRY_RUN_FAILED: &str = "one or more objects failed to apply (dry run)";
pub(crate) const NAMESPACE_FAILED: &str = "the namespace failed to apply";
pub(crate) const APPLY_FAILED: &str = "one or more objects failed to apply";
pub(crate) const UNSUCCESSFUL: &str = "one or more synchronization tasks completed unsuccessfully";
pub(crate) const SYNC_FAIL_FAILED: &str = "one or more SyncFail hooks failed";
pub(crate) const RUNNING: &str = "one or more tasks are running";
pub(crate) const TERMINATED: &str = "Operation terminated";
const SUPERSEDED: &str = ", superseded by ";
/// Who ends an operation that is too late.
pub(crate) const BY_DEADLINE: &str = "deadline";
pub(crate) const TERMINATION_ERRORS: &str = "Operation termination had errors";
pub(crate) const TERMINATING: &str = "operation is terminating";
pub(crate) const TERMINATING_LATE: &str = "operation is terminating due to timeout";
pub(crate) const UNSOUND_PLAN: &str =
    "the plan contradicts itself; this is a defect of the planner, please report it";
/// Of a hook whose object was not there when it was to be stopped.
pub(crate) const HOOK_TERMINATED: &str = "Terminated";
pub(crate) const PRUNED: &str = "pruned";
pub(crate) const NOT_TRIED: &str = "not tried: its kind or namespace comes with this operation (dry run)";
pub(crate) const RUNNER_NOT_TRIED: &str = "not tried: a hook runner carries it out (dry run)";
/// Of a resource that was told to go, is gone, and is to be created again.
pub(crate) const RECREATED: &str = "deleted, and to be created again";
/// Of an object that was told to go and is still there.
const LEAVING: &str = "deletion requested";
pub(crate) const PRUNED_DRY_RUN: &str = "pruned (dry run)";

/// A base message with the reasons behind it.
pub(crate) fn with_reason(base: &str, reasons: &[&str]) -> String {
    if reasons.is_empty() { base.to_owned() } else { format!("{base}, reason: {}", reasons.join(",")) }
}

/// Another operation works on the application.
pub(crate) fn claim_refused(header: &Header, holder: &ClaimHolder) -> String {
    format!(
        "application {} is being worked on by another operation: {holder}; wait for it with --queue, or end it with --supersede",
        header.request.application
    )
}

/// Another operation has worked on the application, or still does.
pub(crate) fn claim_lost(header: &Header, holder: Option<&ClaimHolder>) -> String {
    let application = &header.request.application;
    let who = match holder {
        Some(holder) => format!("is that of {holder} now"),
        None => "was taken by another operation, which is over".to_owned(),
    };
    format!(
        "the claim on application {application} {who}: it ran out while nobody renewed it, or its Lease was changed. This operation ends: nothing more is written, and its running hooks are left as they are. To go on, begin anew: sync again when the other operation is over"
    )
}

/// Of a hook that the cluster was asked to stop, and has not answered.
pub(crate) const NOT_STOPPED: &str = "Failed to delete: the cluster has not answered in time, and somebody wants the end; it may still run: look, and delete it by hand";
/// The same, of its finalizer.
pub(crate) const NOT_RELEASED: &str = "Failed to remove hook finalizer: the cluster has not answered in time, and somebody wants the end; remove it by hand";

/// Another operation has asked for the end.
pub(crate) fn superseded(by: &ClaimHolder) -> String {
    format!("{TERMINATED}{SUPERSEDED}{by}")
}

pub(crate) fn is_superseded(message: &str) -> bool {
    message.strip_prefix(TERMINATED).is_some_and(|why| why.starts_with(SUPERSEDED))
}

/// What is wrong, and why: `1 of 3 replicas ready: api-7f is crash-looping`.
pub(crate) fn with_cause(what: &str, cause: &str) -> String {
    match (what, cause) {
        (what, "") => what.to_owned(),
        ("", cause) => cause.to_owned(),
        (what, cause) => format!("{what}: {cause}"),
    }
}

/// Of an object that was told to go and is still there, with the reason, if that is known.
pub(crate) fn leaving(reason: &str) -> String {
    if reason.is_empty() { LEAVING.to_owned() } else { format!("{LEAVING}; {reason}") }
}

/// Why an object is still there that was told to go; empty where that is not known.
pub(crate) fn kept_by(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!("waits for {what}") }
}

/// A namespace that the operation writes into is lost.
pub(crate) fn namespace_lost(name: &str, loss: Loss) -> String {
    let what = loss.of(name);
    match loss {
        Loss::Terminating => {
            format!("{what}, and with it all that this operation put there; sync again when it is gone")
        }
        Loss::Gone => format!("{what}, and with it all that this operation put there; sync again"),
        Loss::MadeAgain => {
            format!("{what}, and what this operation put there has gone with the old one; sync again")
        }
    }
}

/// The same, before anything was put there.
pub(crate) fn namespace_lost_already(name: &str, loss: Loss) -> String {
    let when = if loss == Loss::Terminating { " when it is gone" } else { "" };
    format!("{}, and objects of this operation go into it; sync again{when}", loss.of(name))
}

/// The trial of an attempt has failed. Which objects it failed for is among the results; a namespace that is not there is
/// named here, since the attempt before may have lost it.
pub(crate) fn dry_run_failed(operation: &Operation) -> String {
    let absent = |name: &str| {
        // As every API server says it.
        let words = format!("namespaces {name:?} not found");
        let mut refused = operation.all_tasks().filter(|(_, _, state)| state.is_unsuccessful());
        refused.any(|(_, task, state)| task.namespace == name && state.message.contains(&words))
    };
    let names: Vec<&str> =
        operation.namespaces.iter().map(String::as_str).filter(|name| absent(name)).collect();
    let reason = match names.as_slice() {
        [] => return DRY_RUN_FAILED.to_owned(),
        [name] => format!("namespace {name} does not exist"),
        names => format!("namespaces {} do not exist", names.join(", ")),
    };
    let request = &operation.header.request;
    let advice = match request.options.has("CreateNamespace=true") {
        false => "create what is missing, or sync with CreateNamespace=true".to_owned(),
        true => format!(
            "create what is missing, or have it among the manifests: CreateNamespace=true makes the namespace of the destination alone, which is {}",
            request.namespace
        ),
    };
    with_reason(DRY_RUN_FAILED, &[&format!("{reason}, and objects of this operation go there; {advice}")])
}

impl Loss {
    /// The word for it: `terminating`, `gone` or `made-again`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminating => "terminating",
            Self::Gone => "gone",
            Self::MadeAgain => "made-again",
        }
    }

    /// What became of a namespace: `namespace shop is being deleted`.
    pub fn of(self, namespace: &str) -> String {
        match self {
            Self::Terminating => format!("namespace {namespace} is being deleted"),
            Self::Gone => format!("namespace {namespace} was deleted"),
            Self::MadeAgain => format!("namespace {namespace} was deleted and made again by somebody else"),
        }
    }
}

/// A namespace is to be pruned that the operation writes into.
pub(crate) fn namespace_pruned(name: &str, inside: &Task) -> String {
    let advice = match inside.phase {
        Phase::PostDelete => "keep it with the sync option Delete=false",
        _ => "keep it among the manifests",
    };
    format!(
        "namespace {name} is to be pruned, and objects of this operation go into it, such as {}; {advice}, or move them to another namespace",
        inside.key()
    )
}

/// The hooks of a deletion that have failed in a wave, as Argo CD names them.
pub(crate) fn deletion_hooks_failed(operation: &Operation, index: u32) -> Option<String> {
    operation.header.request.deletion?;
    let phase = operation.wave(index)?.phase;
    let failed =
        operation.wave_tasks(index).filter(|(_, task, state)| task.is_hook() && state.is_unsuccessful());
    let names: Vec<String> = failed.map(|(_, task, _)| format!("{}/{}", task.namespace, task.name)).collect();
    (!names.is_empty()).then(|| format!("{phase} hook(s) failed: {}", names.join(", ")))
}

/// The findings that make a plan invalid.
pub(crate) fn not_valid(errors: &[&str]) -> String {
    format!("{NOT_VALID}: {}", errors.join("; "))
}

/// A time of day in UTC as Argo CD writes it: `3:04PM`.
fn time_of_day(at: Timestamp) -> String {
    let minutes = at.as_seconds().rem_euclid(86_400) / 60;
    let (hour, minute) = (minutes / 60, minutes % 60);
    let half = if hour < 12 { "AM" } else { "PM" };
    let hour = if hour % 12 == 0 { 12 } else { hour % 12 };
    format!("{hour}:{minute:02}{half}")
}

/// The health of a hook could not be found out (spec: judging running tasks).
pub(crate) fn unjudged(why: &str) -> String {
    format!("failed to get resource health: {why}")
}

/// An object that should be there and is not.
pub(crate) fn missing(task: &Task) -> String {
    format!("Resource {} is missing, it might have been deleted", task.key().in_messages())
}

/// Why a waiting message is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Health,
    Deletion,
    Confirmation,
}

/// `waiting for healthy state of apps/Deployment/api and 2 more resources`. Named is a hook, if there is one.
fn waiting(reason: Reason, named: &Task, hooks: usize, others: usize) -> String {
    let what = match (reason, named.is_hook()) {
        (Reason::Confirmation, _) => "pruning confirmation of",
        (Reason::Health, true) => "completion of hook",
        (Reason::Health, false) => "healthy state of",
        (Reason::Deletion, true) => "deletion of hook",
        (Reason::Deletion, false) => "deletion of",
    };
    let name = named.key().in_messages();
    let noun = if others == 0 { "hooks" } else { "resources" };
    match hooks.saturating_add(others).saturating_sub(1) {
        0 => format!("waiting for {what} {name}"),
        more => format!("waiting for {what} {name} and {more} more {noun}"),
    }
}

/// The same, of some tasks.
fn waiting_for<'a>(reason: Reason, tasks: impl Iterator<Item = &'a Task>) -> Option<String> {
    let (hooks, others): (Vec<&Task>, Vec<&Task>) = tasks.partition(|task| task.is_hook());
    let named = hooks.first().or(others.first())?;
    Some(waiting(reason, named, hooks.len(), others.len()))
}

impl TaskState {
    /// The health message, and what the pods tell; empty as long as nothing was seen.
    pub(crate) fn known_health(&self) -> String {
        let health = self.health.as_ref().map_or("", |seen| seen.health.message.as_str());
        with_cause(health, self.reason())
    }

    /// Why it is not well, in words.
    pub(crate) fn why_not_well(&self) -> String {
        match (self.known_health(), &self.health) {
            (why, _) if !why.is_empty() => why,
            (_, Some(seen)) => format!("{:?}", seen.health.status),
            (_, None) => "its health was not seen yet".to_owned(),
        }
    }

    /// What it gets when a deadline passes while it is awaited: the wave's, or the operation's. `why` it is not well.
    pub(crate) fn too_late(&self, task: &Task, whose: &str, why: &str) -> Option<String> {
        if self.is_leaving(task) {
            let leaving = leaving(self.reason());
            return Some(format!("not gone when the {whose}'s deadline passed: {leaving}"));
        }
        let is_running = self.progress == Progress::Running;
        is_running.then(|| format!("not healthy when the {whose}'s deadline passed: {why}"))
    }
}

impl Header {
    /// What ends a planned operation that has lost its claim: somebody else's work has begun since, and what was planned
    /// is of the past.
    pub(crate) fn lost_claim(&self) -> Option<String> {
        match self.claim.as_deref() {
            Some(Claim::Lost { holder }) => Some(claim_lost(self, holder.as_ref())),
            _ => None,
        }
    }
}

impl State {
    /// The operation's message, as it stands now.
    pub fn message(&self) -> String {
        match self {
            Self::New => String::new(),
            Self::Accepted(header) => header.message(),
            Self::Running(operation) | Self::Finished(operation) => operation.message(),
        }
    }
}

impl Header {
    /// The message of an operation that is not planned yet.
    fn message(&self) -> String {
        // Nothing is asked while it is held, so nobody knows for what it would wait.
        if let Some(pause) = &self.paused {
            return pause.words();
        }
        if self.is_troubled() {
            let message = self.outage.as_ref().map_or(&self.calls.message, |outage| &outage.message);
            return format!("waiting for the cluster to answer: {message}");
        }
        match self.claim.as_deref() {
            Some(Claim::Taken { holder, .. }) => format!("waiting for the end of {holder}"),
            _ if self.may_begin() => "planning".to_owned(),
            _ => "taking the claim".to_owned(),
        }
    }
}

impl Operation {
    /// The operation's message, as it stands now.
    pub fn message(&self) -> String {
        if let Some(outcome) = &self.outcome {
            return outcome.message.clone();
        }
        match &self.header.paused {
            Some(pause) => paused::message(pause, self),
            None => self.unpaused_message(),
        }
    }

    /// What it does or waits for, in Argo CD's words.
    fn unpaused_message(&self) -> String {
        match &self.stage {
            Stage::Planned | Stage::DryRun => RUNNING.to_owned(),
            Stage::Wave { index, step } => self.wave_message(*index, *step),
            Stage::AwaitingRetry { until } => {
                let message =
                    self.failure.as_ref().map(|failure| failure.message.as_str()).unwrap_or_default();
                format!("{message}. Retrying attempt #{} at {}.", self.attempt, time_of_day(*until))
            }
            Stage::Terminating => {
                let late = self.termination.as_ref().is_some_and(|termination| termination.by == BY_DEADLINE);
                if late { TERMINATING_LATE } else { TERMINATING }.to_owned()
            }
            Stage::Finishing { message, .. } => message.clone(),
        }
    }

    /// What it waits for when a deadline passes; of an object that was told to go, with what keeps it.
    pub(crate) fn waited_for(&self) -> String {
        let message = self.message();
        let kept = self.current_wave().and_then(|(index, step)| match step {
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                let awaiting = self.awaiting(index);
                let (first, _) = awaiting.leaving().filter(|_| awaiting.health().is_none())?;
                self.task(first)
            }
            _ if self.taken_place(index).is_some() => None,
            _ => self.in_the_way(index, step).min_by_key(|(task, _)| !task.is_hook()),
        });
        match kept {
            Some((_, state)) => format!("{message} ({})", leaving(state.reason())),
            None => message,
        }
    }

    /// The objects whose going a step of a wave waits for.
    fn in_the_way(&self, index: u32, step: WaveStep) -> impl Iterator<Item = (&Task, &TaskState)> {
        let deleting = self
            .wave_tasks(index)
            .filter(|(_, _, state)| matches!(state.progress, Progress::Deleting { .. }));
        let deleting = deleting.map(|(_, task, state)| (task, state));
        deleting.filter(move |(task, _)| match step {
            WaveStep::AwaitingGone | WaveStep::Clearing => true,
            // What is pruned holds up nothing here.
            WaveStep::Applying => !task.action.is_prune(),
            _ => false,
        })
    }

    fn wave_message(&self, index: u32, step: WaveStep) -> String {
        let message = match step {
            WaveStep::Held => waiting_for(Reason::Confirmation, self.unconfirmed_prunes(index))
                .or_else(|| self.closed_gate()),
            WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::Applying => {
                self.taken_place(index).or_else(|| {
                    waiting_for(Reason::Deletion, self.in_the_way(index, step).map(|(task, _)| task))
                })
            }
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                let awaiting = self.awaiting(index);
                let health =
                    awaiting.health().map(|(named, hooks, others)| (Reason::Health, named, hooks, others));
                let deletion =
                    || awaiting.leaving().map(|(named, others)| (Reason::Deletion, named, 0, others));
                health.or_else(deletion).and_then(|(reason, named, hooks, others)| {
                    Some(waiting(reason, self.plan.task(named)?, hooks, others))
                })
            }
            _ => None,
        };
        message.unwrap_or_else(|| RUNNING.to_owned())
    }

    /// `waiting for completion of hook batch/Job/migrate of operation 0193…`.
    fn taken_place(&self, index: u32) -> Option<String> {
        let (_, task, state) = self.wave_tasks(index).find(|(_, _, state)| state.occupant.is_some())?;
        let waiting = waiting(Reason::Health, task, 1, 0);
        Some(format!("{waiting} of operation {}", state.occupant.as_ref()?.operation))
    }

    /// Prunes of a wave that wait for a person. Of an application that is deleted nothing goes before all may.
    pub(crate) fn unconfirmed_prunes(&self, index: u32) -> impl Iterator<Item = &Task> {
        let confirmed = self.prune_confirmed || self.header.request.options.prune_confirmed;
        let deletes = self.header.request.deletion.is_some();
        let is_of_deletion = deletes && self.wave(index).is_some_and(|wave| wave.phase == Phase::Sync);
        let own = (!is_of_deletion).then(|| self.wave_tasks(index).map(|(id, task, _)| (id, task)));
        let all = is_of_deletion.then(|| self.plan.enumerate());
        own.into_iter()
            .flatten()
            .chain(all.into_iter().flatten())
            .filter(move |(id, task)| {
                let is_due = !self.is_passed_over(*id);
                !confirmed
                    && is_due
                    && task.options.confirm_prune
                    && task.action == tidegate_model::Action::Prune
            })
            .map(|(_, task)| task)
    }

    /// Prunes of waves after this one that the same confirmation permits, with the number of their wave.
    pub(crate) fn prunes_confirmed_with(&self, index: u32) -> impl Iterator<Item = (u32, &Task)> {
        let asks = self.unconfirmed_prunes(index).next().is_some();
        // Those of a deletion are awaited all at once.
        let is_of_sync = self.header.request.deletion.is_none();
        let later = (0..).zip(&self.plan.waves).map(|(later, _): (u32, _)| later);
        later
            .filter(move |later| asks && is_of_sync && *later > index)
            .flat_map(|later| self.unconfirmed_prunes(later).map(move |task| (later, task)))
    }
}

/// The message a hook gets when it outlives a deadline.
pub(crate) fn hook_too_late(task: &Task) -> String {
    let timeout = task.hook.as_ref().and_then(|hook| hook.timeout).unwrap_or_default();
    format!("hook did not complete within {}", tidegate_model::format_duration(timeout))
}
