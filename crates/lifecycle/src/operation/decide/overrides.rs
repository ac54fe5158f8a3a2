//! What people may ask about single tasks and waves of a running operation.

use tidegate_model::{Action, Override, Task, TaskId, Timestamp};

use super::rejection::Rejection;
use crate::operation::fact::Fact;
use crate::operation::messages;
use crate::operation::named::{Scope, TaskName};
use crate::operation::state::{Operation, Progress, Stage, TaskState};

/// Who asks, and why.
pub(super) struct Words<'a> {
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
}

pub(super) fn decide(
    operation: &Operation,
    what: Override,
    scope: &Scope,
    words: &Words<'_>,
    now: Timestamp,
) -> Result<Vec<Fact>, Rejection> {
    if what.passes_over() && words.reason.trim().is_empty() {
        return Err(Rejection::ReasonWanted(what.verb()));
    }
    let tasks = chosen(operation, what, scope).map_err(Rejection::NothingToOverride)?;
    let fact = |task| Fact::Overridden {
        task,
        what,
        by: words.by.to_owned(),
        reason: words.reason.to_owned(),
        at: now,
    };
    Ok(tasks.into_iter().map(fact).collect())
}

/// The tasks it is done to; otherwise what they are about, that it cannot be done.
fn chosen(operation: &Operation, what: Override, scope: &Scope) -> Result<Vec<TaskId>, String> {
    if operation.header.request.options.dry_run {
        return Err(format!(
            "the operation only tries and writes nothing; there is nothing to {}",
            what.verb()
        ));
    }
    match scope {
        Scope::Task(name) => {
            let task = one(operation, what, name)?;
            why_not(operation, what, task).map_or(Ok(vec![task]), Err)
        }
        Scope::Wave(choice) => {
            let tasks = operation.wave_named(*choice).ok_or_else(|| no_such_wave(operation, *choice))?;
            let mut refused = None;
            let mut chosen = Vec::new();
            for task in tasks {
                match why_not(operation, what, task) {
                    None => chosen.push(task),
                    Some(why) => refused = refused.or(Some(why)),
                }
            }
            if chosen.is_empty() {
                let why = refused.unwrap_or_default();
                return Err(format!("nothing of {choice} can be {} now: {why}", what.done()));
            }
            Ok(chosen)
        }
    }
}

fn no_such_wave(operation: &Operation, choice: impl std::fmt::Display) -> String {
    let waves: Vec<String> =
        operation.wave_names().map(|name| format!("{}/{}", name.phase, name.wave)).collect();
    format!("the plan has no {choice}; it has {}", waves.join(", "))
}

/// The one task with this name. Where there are several, the one it can be done to.
fn one(operation: &Operation, what: Override, name: &TaskName) -> Result<TaskId, String> {
    let all = operation.tasks_named(name);
    let open: Vec<TaskId> =
        all.iter().copied().filter(|task| why_not(operation, what, *task).is_none()).collect();
    match (open.as_slice(), all.as_slice()) {
        (_, []) => Err(format!(
            "the plan has no {name}; `tidegate ops show {}` lists what it has",
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
                "{name} is the name of {} tasks; say which, with its namespace, its phase or KIND.GROUP/NAME: {}",
                several.len(),
                places.join(", ")
            ))
        }
    }
}

/// Why it cannot be done to a task now; `None` when it can.
fn why_not(operation: &Operation, what: Override, id: TaskId) -> Option<String> {
    let (task, state) = operation.task(id)?;
    let name = messages::named(task);
    match task.action {
        Action::Unchanged => return Some(format!("{name} is unchanged, and nothing is done about it")),
        Action::PruneSkipped => return Some(format!("{name} is left as it is: {}", task.reason)),
        Action::Create | Action::Apply | Action::Replace | Action::Prune => {}
    }
    attempt_is_over(operation, task, what)
        .or_else(|| wave_is_over(operation, id))
        .map(|why| format!("{name} cannot be {} now: {why}", what.done()))
        .or_else(|| match what {
            Override::Skip | Override::MarkDone => not_passed_over(operation, id, &name, state),
            Override::Retry => {
                not_reached_again(operation, id, &name).or_else(|| not_retried(operation, id, &name, state))
            }
        })
}

/// The attempt that the task belongs to has failed, and is not gone on with.
fn attempt_is_over(operation: &Operation, task: &Task, what: Override) -> Option<String> {
    let failure = operation.failure.as_ref()?;
    let is_rescue = task.phase == tidegate_model::Phase::SyncFail;
    match operation.stage {
        // It begins at once, if somebody wants that; what is passed over now would be nothing of its plan.
        Stage::AwaitingRetry { .. } if operation.plans_anew() && what.passes_over() => Some(
            "the attempt has failed, and the next one makes a plan of its own; `retry-task` begins it at once"
                .to_owned(),
        ),
        Stage::AwaitingRetry { .. } => None,
        _ if is_rescue => None,
        _ => Some(format!("its attempt has failed: {}", failure.message)),
    }
}

/// The wave of the task has passed, or is being ended.
fn wave_is_over(operation: &Operation, id: TaskId) -> Option<String> {
    let index = operation.wave_of(id)?;
    if operation.times(index).passed_at.is_some() {
        return Some(format!("wave {} has passed", index.saturating_add(1)));
    }
    let is_current = operation.current_wave().is_some_and(|(current, _)| current == index);
    let expired = operation.wave_expired.as_ref().filter(|_| is_current)?;
    Some(format!("wave {} is being ended: {expired}", index.saturating_add(1)))
}

fn not_passed_over(operation: &Operation, id: TaskId, name: &str, state: &TaskState) -> Option<String> {
    if let Some(overridden) = operation.overrides.get(&id).filter(|_| operation.is_passed_over(id)) {
        return Some(format!("{name} was {} already", overridden.words()));
    }
    let is_done = state.progress == Progress::Done && !state.is_unsuccessful();
    is_done.then(|| format!("{name} {}", messages::standing(operation, id, state)))
}

/// A wave of which all was skipped is gone past without being opened; nothing of it would be done any more, in the next attempt
/// neither.
fn not_reached_again(operation: &Operation, id: TaskId, name: &str) -> Option<String> {
    let index = operation.wave_of(id)?;
    let (reached, is_at_work) = match operation.current_wave() {
        Some((current, _)) => (current, true),
        None => (operation.interrupted_wave()?, false),
    };
    (index < reached).then(|| {
        let (index, reached) = (index.saturating_add(1), reached.saturating_add(1));
        let why = match is_at_work {
            true => format!("wave {reached} is at work"),
            false => format!("the next attempt goes on with wave {reached}"),
        };
        format!("{name} cannot be retried now: all of wave {index} was skipped, and {why}")
    })
}

fn not_retried(operation: &Operation, id: TaskId, name: &str, state: &TaskState) -> Option<String> {
    let standing = || messages::standing(operation, id, state);
    if matches!(operation.stage, Stage::AwaitingRetry { .. }) && !operation.is_passed_over(id) {
        let is_over = state.is_unsuccessful();
        return (!is_over)
            .then(|| format!("{name} has not failed, and needs no other try: it {}", standing()));
    }
    if state.is_closing() {
        return Some(format!("{name} {}; try again when that is done", standing()));
    }
    let waits = state.calls.as_ref().is_some_and(|calls| calls.not_before.is_some());
    let may_be = waits || state.is_unsuccessful() || operation.is_passed_over(id);
    (!may_be).then(|| {
        format!(
            "{name} {}; only what has failed, waits for another try or was skipped can be retried",
            standing()
        )
    })
}
