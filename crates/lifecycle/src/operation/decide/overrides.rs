//! User requests that affect individual tasks and waves of a running operation.

use tidegate_model::{Action, Override, Task, TaskId, Timestamp};

use super::rejection::Rejection;
use crate::operation::messages;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::selection::{Scope, TaskSelector};
use crate::operation::state::{Operation, Progress, Stage, TaskState, WaveStep};

/// Requester and reason of a request.
pub(super) struct Attribution<'a> {
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
}

pub(super) fn decide(
    operation: &Operation,
    what: Override,
    scope: &Scope,
    text: &Attribution<'_>,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    if what.counts_as_done() && text.reason.trim().is_empty() {
        return Err(Rejection::ReasonRequired(what.past_participle()));
    }
    let tasks = select_tasks(operation, what, scope).map_err(Rejection::NothingToOverride)?;
    let event = |task| OperationEvent::Overridden {
        task,
        what,
        by: text.by.to_owned(),
        reason: text.reason.to_owned(),
        at: now,
    };
    Ok(tasks.into_iter().map(event).collect())
}

/// Returns the tasks that the override applies to, or the reason why it doesn't apply to any task.
fn select_tasks(operation: &Operation, what: Override, scope: &Scope) -> Result<Vec<TaskId>, String> {
    if operation.header.request.options.dry_run {
        return Err(format!("the operation is a dry run, so there is nothing to {}", what.verb()));
    }
    match scope {
        Scope::Task(name) => {
            let task = find_task(operation, what, name)?;
            override_error(operation, what, task).map_or(Ok(vec![task]), Err)
        }
        Scope::Wave(choice) => {
            let tasks =
                operation.find_wave_tasks(*choice).ok_or_else(|| unknown_wave_error(operation, *choice))?;
            let mut refused = None;
            let mut chosen = Vec::new();
            for task in tasks {
                match override_error(operation, what, task) {
                    None => chosen.push(task),
                    Some(why) => refused = refused.or(Some(why)),
                }
            }
            if chosen.is_empty() {
                let why = refused.unwrap_or_default();
                return Err(format!("no task in {choice} can be {} now: {why}", what.past_participle()));
            }
            Ok(chosen)
        }
    }
}

fn unknown_wave_error(operation: &Operation, choice: impl std::fmt::Display) -> String {
    let waves: Vec<String> =
        operation.wave_names().map(|name| format!("{}/{}", name.phase, name.wave)).collect();
    format!("the plan has no {choice}; it has {}", waves.join(", "))
}

/// Finds a task by name. If several tasks share the name, returns the task that the override can apply to.
fn find_task(operation: &Operation, what: Override, name: &TaskSelector) -> Result<TaskId, String> {
    let all = operation.find_tasks(name);
    let open: Vec<TaskId> =
        all.iter().copied().filter(|task| override_error(operation, what, *task).is_none()).collect();
    match (open.as_slice(), all.as_slice()) {
        (_, []) => Err(format!(
            "the plan has no {name}; `tidegate ops show {}` lists its tasks",
            operation.header.operation
        )),
        ([one], _) | ([], [one, ..]) => Ok(*one),
        (several, _) => {
            let places = several.iter().filter_map(|id| {
                let task = operation.plan.task(*id)?;
                Some(
                    format!("{} {} in phase {}", task.gvk.group, task.key(), task.phase)
                        .trim_start()
                        .to_owned(),
                )
            });
            let places: Vec<String> = places.collect();
            Err(format!(
                "{name} matches {} tasks; add a namespace, a phase or the group (KIND.GROUP/NAME): {}",
                several.len(),
                places.join(", ")
            ))
        }
    }
}

/// Returns the reason why the override can't apply to a task now, or `None` if it can.
fn override_error(operation: &Operation, what: Override, id: TaskId) -> Option<String> {
    let (task, state) = operation.task(id)?;
    let name = messages::describe_task(task);
    match task.action {
        Action::Unchanged => return Some(format!("{name} is unchanged, so there is nothing to do")),
        Action::PruneSkipped => return Some(format!("{name} is kept: {}", task.reason)),
        Action::Create | Action::Apply | Action::Replace | Action::Prune => {}
    }
    attempt_over_error(operation, task, what)
        .or_else(|| wave_over_error(operation, id))
        .map(|reason| format!("{name} cannot be {} now: {reason}", what.past_participle()))
        .or_else(|| match what {
            Override::Skip | Override::MarkDone => skip_error(operation, id, &name, state),
            Override::Retry => {
                earlier_wave_error(operation, id, &name).or_else(|| retry_error(operation, id, &name, state))
            }
        })
}

/// Returns an error if the task's attempt has failed and won't run the task.
fn attempt_over_error(operation: &Operation, task: &Task, what: Override) -> Option<String> {
    let failure = operation.failure.as_ref()?;
    let is_rescue = task.phase == tidegate_model::Phase::SyncFail;
    match operation.stage {
        // The next attempt creates a new plan, so an override in the old plan would be lost.
        Stage::AwaitingRetry { .. } if operation.needs_new_plan() && what.counts_as_done() => Some(
            "the attempt failed, and the next attempt will create a new plan; to start it now, run \
             `tidegate ops retry-task`"
                .to_owned(),
        ),
        Stage::AwaitingRetry { .. } => None,
        _ if is_rescue => None,
        _ => Some(format!("the attempt has failed: {}", failure.message)),
    }
}

/// Returns an error if the task's wave has passed or is already ending.
fn wave_over_error(operation: &Operation, id: TaskId) -> Option<String> {
    let index = operation.wave_index_of(id)?;
    if operation.wave_times(index).passed_at.is_some() {
        return Some(format!("wave {} has passed", index.saturating_add(1)));
    }
    let is_current = operation.current_wave().is_some_and(|(current, _)| current == index);
    let expired = operation.wave_expired.as_ref().filter(|_| is_current)?;
    Some(format!("wave {} is ending: {expired}", index.saturating_add(1)))
}

fn skip_error(operation: &Operation, id: TaskId, name: &str, state: &TaskState) -> Option<String> {
    if let Some(overridden) = operation.overrides.get(&id).filter(|_| operation.is_overridden_as_done(id)) {
        return Some(format!("{name} was already {}", overridden.describe()));
    }
    let is_done = state.progress == Progress::Done && !state.is_unsuccessful();
    is_done.then(|| format!("{name} {}", messages::describe_task_state(operation, id, state)))
}

/// Returns an error for a task in an earlier wave. It never runs again, because a wave with only skipped
/// tasks passes unopened, even in the next attempt.
fn earlier_wave_error(operation: &Operation, id: TaskId, name: &str) -> Option<String> {
    let index = operation.wave_index_of(id)?;
    let (reached, is_at_work) = match operation.current_wave() {
        Some((current, _)) => (current, true),
        None => (operation.interrupted_wave()?, false),
    };
    (index < reached).then(|| {
        let (index, reached) = (index.saturating_add(1), reached.saturating_add(1));
        let reason = match is_at_work {
            true => format!("wave {reached} is running"),
            false => format!("the next attempt continues with wave {reached}"),
        };
        format!("{name} cannot be retried now: all of wave {index} was skipped, and {reason}")
    })
}

/// Returns a dependent that is being applied because its dependencies, including this task, were satisfied. A
/// call that can't be recalled may be creating its object.
fn released_dependent(operation: &Operation, id: TaskId) -> Option<String> {
    let step = operation.step_of_task(id).filter(|step| *step == WaveStep::Applying);
    step.filter(|_| operation.satisfies_dependents(&operation.cursor, id))?;
    let mut dependents = operation.waiting_for(id).into_iter();
    let released = dependents.find(|dependent| operation.cursor.released.contains(dependent))?;
    operation.plan.task(released).map(messages::describe_task)
}

fn retry_error(operation: &Operation, id: TaskId, name: &str, state: &TaskState) -> Option<String> {
    let standing = || messages::describe_task_state(operation, id, state);
    if matches!(operation.stage, Stage::AwaitingRetry { .. }) && !operation.is_overridden_as_done(id) {
        let is_over = state.is_unsuccessful();
        return (!is_over)
            .then(|| format!("{name} has not failed, so it cannot be retried: it {}", standing()));
    }
    if state.needs_stop_or_release() {
        return Some(format!("{name} {}; try again when that is done", standing()));
    }
    if let Some(dependent) = released_dependent(operation, id) {
        return Some(format!(
            "{name} cannot be retried now: {dependent}, which depends on it, is being applied; try again once it is \
             applied"
        ));
    }
    let waits = state.calls.as_ref().is_some_and(|calls| calls.not_before.is_some());
    let may_be = waits || state.is_unsuccessful() || operation.is_overridden_as_done(id);
    (!may_be).then(|| {
        format!(
            "{name} {}; only a task that failed, waits for a retry or was skipped can be retried",
            standing()
        )
    })
}
