//! How a fact changes the state. Total: a pair that cannot be is an error that names both sides, never a panic.

mod arrows;
mod header;
mod legal;
mod overrides;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{OperationPhase, Plan, TaskId, Timestamp};

use super::earlier;
use super::fact::{DeadlineScope, Fact};
use super::messages;
use super::rules::{is_sound, namespaces_of};
use super::state::{
    Calls, ClaimNews, Cursor, Failure, GateAnswer, Header, Judged, Loss, Operation, Outage, Outcome,
    Progress, SeenNamespaces, Stage, State, TaskState, Termination, WaveTimes,
};
use crate::machine::Illegal;
use overrides::Decision;

/// The state after a fact. Where the machine goes is for [`follow`](super::follow()) to say: a fact other than an arrow
/// leaves the stage as it is. Arrows are `Moved`, and those between the kinds of state: `Accepted`, `Planned`,
/// `RetryStarted` (back to the beginning of the attempt), `RetryPlansAnew` (back to the planning) and `Finished`.
pub fn evolve(state: State, fact: &Fact) -> Result<State, Illegal> {
    let illegal = |state: String| Illegal { state, fact: fact_name(fact) };
    match state {
        State::New => accepted(fact).ok_or_else(|| illegal(State::New.name())),
        State::Accepted(header) => planned(header, fact).ok_or_else(|| illegal("Accepted".to_owned())),
        State::Running(mut operation) => {
            if let Some(stage) = earlier::arrow_left_out(&operation, fact) {
                let (from, at) = (operation.stage.name(), operation.since);
                arrows::moved(&mut operation, &stage, at).ok_or_else(|| illegal(from))?;
                operation.move_cursor(None);
            }
            if !legal::fits(&operation.stage, fact) {
                return Err(illegal(operation.stage.name()));
            }
            if let Fact::Finished { phase, message, at } = fact {
                let stage = operation.stage.name();
                return finish(operation, *phase, message, *at).ok_or_else(|| illegal(stage));
            }
            let anew = match fact {
                Fact::RetryPlansAnew { attempt, .. } => Some(*attempt),
                // Earlier programs said no more of a plan that was not valid.
                Fact::RetryStarted { attempt, .. } if !operation.is_valid() => Some(*attempt),
                _ => None,
            };
            if let Some(attempt) = anew {
                let stage = operation.stage.name();
                return plan_again(*operation, attempt).ok_or_else(|| illegal(stage));
            }
            let before = fact.task().map(|task| operation.before(task));
            match running(&mut operation, fact) {
                Some(()) => {
                    operation.move_cursor(before);
                    Ok(State::Running(operation))
                }
                None => Err(illegal(operation.stage.name())),
            }
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// The first words of a fact, without its content, which may be large or secret.
fn fact_name(fact: &Fact) -> String {
    let text = match fact {
        Fact::Moved { to, .. } => format!("Moved to {}", to.name()),
        Fact::Planned { .. } => "Planned".to_owned(),
        Fact::Accepted { .. } => "Accepted".to_owned(),
        other => format!("{other:?}"),
    };
    text.chars().take(200).collect()
}

fn accepted(fact: &Fact) -> Option<State> {
    let Fact::Accepted { operation, request, targets, at } = fact else { return None };
    Some(State::Accepted(Box::new(Header {
        operation: *operation,
        request: (**request).clone(),
        targets: *targets,
        started_at: *at,
        deadline_from: *at,
        paused: None,
        calls: Calls::default(),
        outage: None,
        blind: None,
        attempt: 1,
        claim: None,
        health_rules: None,
        plan: None,
    })))
}

fn planned(mut header: Box<Header>, fact: &Fact) -> Option<State> {
    match fact {
        Fact::Planned { plan, bundle, at } => {
            if !is_sound(plan) {
                return None;
            }
            header.calls = Calls::default();
            header.outage = None;
            Some(State::Running(Box::new(Operation {
                bundle: Some(*bundle),
                tasks: vec![TaskState::default(); plan.tasks.len()],
                waves: vec![WaveTimes::default(); plan.waves.len()],
                namespaces: namespaces_of(plan),
                ..fresh(*header, Arc::clone(plan), *at)
            })))
        }
        Fact::CallFailed { task: None, message, retry_at, at, outage } => {
            if *outage {
                header::no_answer(&mut header, message, *retry_at, *at);
            } else {
                header.outage = None;
                header::failed_again(&mut header.calls, message, *retry_at);
            }
            Some(State::Accepted(header))
        }
        Fact::Paused { .. } | Fact::Unpaused { .. } => {
            header::pause(&mut header, fact)?;
            Some(State::Accepted(header))
        }
        Fact::TerminateRequested { .. } => Some(State::Accepted(header)),
        Fact::PlanTaken { plan, .. } => {
            header.plan = Some(plan.clone());
            Some(State::Accepted(header))
        }
        Fact::Claim { news, at } => {
            header::claim(&mut header, news, *at)?;
            if matches!(news, ClaimNews::Lost { .. }) {
                // It is taken as if it had never been had.
                header.claim = None;
            }
            header.calls = Calls::default();
            header.outage = None;
            Some(State::Accepted(header))
        }
        Fact::Finished { phase, message, at } => {
            finish(Box::new(fresh(*header, Arc::default(), *at)), *phase, message, *at)
        }
        _ => None,
    }
}

/// An operation that has just been planned.
fn fresh(header: Header, plan: Arc<Plan>, at: Timestamp) -> Operation {
    Operation {
        attempt: header.attempt,
        header,
        plan,
        bundle: None,
        tasks: Vec::new(),
        waves: Vec::new(),
        stage: Stage::Planned,
        since: at,
        gates: Vec::new(),
        results: 0,
        prune_confirmed: false,
        judged: Judged::None,
        wave_expired: None,
        failure: None,
        termination: None,
        outcome: None,
        seen_namespaces: SeenNamespaces::default(),
        lost_namespace: None,
        overrides: BTreeMap::new(),
        cursor: Cursor::default(),
        namespaces: Arc::default(),
    }
}

fn finish(
    mut operation: Box<Operation>,
    phase: OperationPhase,
    message: &str,
    at: Timestamp,
) -> Option<State> {
    if !phase.is_completed() {
        return None;
    }
    operation.outcome = Some(Outcome { phase, message: message.to_owned(), at });
    operation.header.paused = None;
    Some(State::Finished(operation))
}

fn running(operation: &mut Operation, fact: &Fact) -> Option<()> {
    match fact {
        Fact::Moved { to, at } => arrows::moved(operation, to, *at),
        Fact::GateAnswered { gate, verdict, at } => {
            let (index, _) = operation.current_wave()?;
            operation.wave(index)?.gates.contains(gate).then_some(())?;
            operation.gates.retain(|answer| answer.gate != *gate);
            operation.gates.push(GateAnswer { gate: gate.clone(), verdict: verdict.clone(), at: *at });
            Some(())
        }
        Fact::Approved { wave, at, .. } => {
            operation.wave(*wave)?;
            if !operation.is_approved(*wave) {
                operation.gates.push(GateAnswer::approval(*wave, *at));
            }
            Some(())
        }
        Fact::Paused { .. } => header::pause(&mut operation.header, fact),
        Fact::Unpaused { at, .. } => {
            let since = operation.header.paused.as_ref()?.at;
            shift_deadlines(operation, since, *at);
            header::pause(&mut operation.header, fact)
        }
        Fact::PruneConfirmed { .. } => {
            operation.prune_confirmed = true;
            Some(())
        }
        Fact::DeadlinePassed { scope, message, at } => deadline_passed(operation, *scope, message, *at),
        Fact::TerminateRequested { by, at } => {
            terminate(operation, by, messages::TERMINATED, *at);
            Some(())
        }
        Fact::Claim { news: ClaimNews::EndWanted { by }, at } => {
            terminate(operation, &by.to_string(), &messages::superseded(by), *at);
            Some(())
        }
        Fact::Claim { news, at } => header::claim(&mut operation.header, news, *at),
        Fact::HealthRulesKnown { digest, at } => {
            header::judged_by(&mut operation.header, *digest, *at);
            Some(())
        }
        Fact::AttemptFailed { message, retriable, at } => {
            if operation.failure.is_some() {
                return None;
            }
            let wave = operation.current_wave().map(|(index, _)| index);
            match operation.stage {
                Stage::Planned => tasks::record_invalid(operation),
                Stage::DryRun if operation.header.request.options.dry_run => {
                    arrows::record_dry_run(operation);
                }
                _ => {}
            }
            operation.failure =
                Some(Failure { wave, message: message.clone(), retriable: *retriable, at: *at });
            Some(())
        }
        Fact::RetryStarted { attempt, at } => retry(operation, *attempt, *at),
        Fact::NamespaceTerminating { namespace, .. } => {
            end_wave_without(operation, namespace, Loss::Terminating)
        }
        Fact::NamespaceLost { namespace, loss, .. } => {
            operation.lost_namespace = Some(namespace.clone());
            if operation.current_wave().is_some() {
                end_wave_without(operation, namespace, *loss)?;
            }
            Some(())
        }
        Fact::NamespacesSeen { namespaces } => {
            for (name, identity) in namespaces.iter().cloned() {
                operation.seen_namespaces.set(name, identity);
            }
            Some(())
        }
        Fact::Watching { trouble, at } => {
            let outage = |message: &String| {
                Box::new(Outage { since: *at, message: message.clone(), tried: 0, retry_at: *at })
            };
            operation.header.blind = trouble.as_ref().map(outage);
            Some(())
        }
        Fact::Overridden { task, what, by, reason, at } => {
            overrides::decided(operation, *task, &Decision { what: *what, by, reason, at: *at })
        }
        fact => tasks::evolve(operation, fact),
    }
}

/// The wave at work ends: a namespace is lost, and what it put there.
fn end_wave_without(operation: &mut Operation, namespace: &str, loss: Loss) -> Option<()> {
    let (index, _) = operation.current_wave().filter(|(index, _)| !operation.is_sync_fail(*index))?;
    tasks::lose_namespace(operation, index, namespace, loss);
    operation.wave_expired = Some(messages::namespace_lost(namespace, loss));
    Some(())
}

/// While an operation is paused its deadlines stand still.
fn shift_deadlines(operation: &mut Operation, since: Timestamp, at: Timestamp) {
    let shifted = |from: Timestamp| from + at.since(since.max(from));
    for times in &mut operation.waves {
        times.deadline_from = times.deadline_from.map(shifted);
    }
    for task in &mut operation.tasks {
        if task.progress == Progress::Running
            && let Some(applied) = &mut task.applied
        {
            applied.at = shifted(applied.at);
        }
    }
    if let Stage::AwaitingRetry { until } = &mut operation.stage {
        *until = *until + at.since(since);
    }
}

/// It is to end; hooks at work are stopped.
fn terminate(operation: &mut Operation, by: &str, message: &str, at: Timestamp) {
    tasks::stop_hooks(operation, messages::HOOK_TERMINATED);
    operation.header.paused = None;
    operation.termination =
        Some(Termination { by: by.to_owned(), message: message.to_owned(), had_errors: false, at });
    operation.since = at;
}

fn deadline_passed(
    operation: &mut Operation,
    scope: DeadlineScope,
    message: &str,
    at: Timestamp,
) -> Option<()> {
    match scope {
        DeadlineScope::Operation => terminate(operation, messages::BY_DEADLINE, message, at),
        DeadlineScope::Wave => {
            let (index, _) = operation.current_wave()?;
            tasks::expire_wave(operation, index, message);
            operation.wave_expired = Some(message.to_owned());
        }
        DeadlineScope::Hook(task) => {
            let (_, state) = operation.task(task)?;
            (state.progress == Progress::Running).then_some(())?;
            tasks::stop_hook(operation, task, message)?;
        }
    }
    Some(())
}

/// Another attempt. What was done stays done and only what ended badly is done again, unless the request or a resource
/// asks for more: then all is done again.
fn retry(operation: &mut Operation, attempt: u32, at: Timestamp) -> Option<()> {
    if attempt != operation.attempt.saturating_add(1) {
        return None;
    }
    operation.failure.take()?;
    let restart = operation.header.request.retry.restart || operation.plan.restart_on_retry;
    operation.attempt = attempt;
    operation.wave_expired = None;
    operation.lost_namespace = None;
    operation.since = at;
    let overrides = &operation.overrides;
    let is_passed_over = |id| overrides.get(&id).is_some_and(|overridden| overridden.what.passes_over());
    for (id, task) in (0..).map(TaskId).zip(&mut operation.tasks) {
        // What a person decided holds in every attempt.
        if restart && !is_passed_over(id) || task.is_unsuccessful() {
            let notes = task.notes.take();
            *task = TaskState { leftover: leftover(task), notes, ..TaskState::default() };
        }
    }
    renumber(operation);
    if restart {
        operation.waves.fill(WaveTimes::default());
        // Whatever stands there now gets all of it again.
        operation.seen_namespaces.clear();
    }
    operation.stage = Stage::Planned;
    Some(())
}

/// Another attempt that plans anew: what was missing may have come, and what was there may have gone.
fn plan_again(operation: Operation, attempt: u32) -> Option<State> {
    if attempt != operation.attempt.saturating_add(1) {
        return None;
    }
    Some(State::Accepted(Box::new(Header { attempt, calls: Calls::default(), ..operation.header })))
}

/// Closes the gaps among the results that stay.
fn renumber(operation: &mut Operation) {
    let mut kept: Vec<&mut TaskState> = operation.tasks.iter_mut().filter(|task| task.order > 0).collect();
    kept.sort_unstable_by_key(|task| task.order);
    operation.results = 0;
    for task in kept {
        operation.results = operation.results.saturating_add(1);
        task.order = operation.results;
    }
}

/// The object an attempt leaves behind, so that the hook's policy still finds it if no later attempt gets that far.
fn leftover(task: &mut TaskState) -> Option<String> {
    let applied = task.applied.take().map(|applied| applied.uid).filter(|uid| !uid.is_empty());
    applied.or_else(|| task.leftover.take())
}
