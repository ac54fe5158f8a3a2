//! Applies events to the state. An event that is illegal in a state results in an error, never in a panic.

mod header;
mod legal;
mod overrides;
mod result;
mod tasks;
mod transitions;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{OperationPhase, Plan, TaskId, Timestamp};

use super::messages;
use super::recorded_event::{DeadlineScope, OperationEvent};
use super::rules::{is_consistent, target_namespaces};
use super::state::{
    CallFailures, ClaimEvent, Cursor, DependencyGraph, Failure, GateAnswer, HOOK_TERMINATED, Header,
    HealthScope, Loss, NamespaceIdentities, Operation, Outage, Outcome, Progress, Stage, State, TaskState,
    Termination, WaveTimes,
};
use crate::machine::IllegalEvent;
use overrides::Decision;

/// Applies an event to a state. The stage changes only through transitions, which
/// [`advance`](super::advance()) decides. Transitions are `StageChanged` and the events that start or end a
/// state: `Accepted`, `Planned`, `RetryStarted` (back to the start of the attempt), `ReplanStarted` (back to
/// planning) and `Finished`.
pub fn apply(state: State, event: &OperationEvent) -> Result<State, IllegalEvent> {
    let illegal = |state: String| IllegalEvent { state, event: event_name(event) };
    match state {
        State::New => apply_to_new(event).ok_or_else(|| illegal(State::New.name())),
        State::Accepted(header) => {
            apply_to_accepted(header, event).ok_or_else(|| illegal("Accepted".to_owned()))
        }
        State::Running(mut operation) => {
            if !legal::is_legal(&operation.stage, event) {
                return Err(illegal(operation.stage.name()));
            }
            if let OperationEvent::Finished { phase, message, at } = event {
                let stage = operation.stage.name();
                return finish_operation(operation, *phase, message, *at).ok_or_else(|| illegal(stage));
            }
            if let OperationEvent::ReplanStarted { attempt, .. } = event {
                let stage = operation.stage.name();
                return start_replanning(*operation, *attempt).ok_or_else(|| illegal(stage));
            }
            let before = event.task().map(|task| operation.capture_task_state(task));
            match apply_to_running(&mut operation, event) {
                Some(()) => {
                    operation.update_cursor(before);
                    Ok(State::Running(operation))
                }
                None => Err(illegal(operation.stage.name())),
            }
        }
        State::Finished(_) => Err(illegal("Finished".to_owned())),
    }
}

/// Returns the start of an event's text without its content, which may be large or contain secrets.
fn event_name(event: &OperationEvent) -> String {
    let text = match event {
        OperationEvent::StageChanged { to, .. } => format!("StageChanged to {}", to.name()),
        OperationEvent::Planned { .. } => "Planned".to_owned(),
        OperationEvent::Accepted { .. } => "Accepted".to_owned(),
        other => format!("{other:?}"),
    };
    text.chars().take(200).collect()
}

fn apply_to_new(event: &OperationEvent) -> Option<State> {
    let OperationEvent::Accepted { operation, request, targets, at } = event else { return None };
    Some(State::Accepted(Box::new(Header {
        operation: *operation,
        request: (**request).clone(),
        targets: *targets,
        started_at: *at,
        deadline_from: *at,
        paused: None,
        calls: CallFailures::default(),
        outage: None,
        blind: None,
        attempt: 1,
        claim: None,
        health_rules: None,
        plan: None,
    })))
}

fn apply_to_accepted(mut header: Box<Header>, event: &OperationEvent) -> Option<State> {
    match event {
        OperationEvent::Planned { plan, bundle, at } => {
            if !is_consistent(plan) {
                return None;
            }
            header.calls = CallFailures::default();
            header.outage = None;
            Some(State::Running(Box::new(Operation {
                bundle: Some(*bundle),
                tasks: vec![TaskState::default(); plan.tasks.len()],
                waves: vec![WaveTimes::default(); plan.waves.len()],
                namespaces: target_namespaces(plan),
                graph: Arc::new(DependencyGraph::from_plan(plan)),
                ..new_operation(*header, Arc::clone(plan), *at)
            })))
        }
        OperationEvent::CallFailed { task: None, message, retry_at, at, outage } => {
            if *outage {
                header::record_outage(&mut header, message, *retry_at, *at);
            } else {
                header.outage = None;
                header::record_call_failure(&mut header.calls, message, *retry_at);
            }
            Some(State::Accepted(header))
        }
        OperationEvent::Paused { .. } | OperationEvent::Unpaused { .. } => {
            header::apply_pause_event(&mut header, event)?;
            Some(State::Accepted(header))
        }
        OperationEvent::TerminationRequested { .. } => Some(State::Accepted(header)),
        OperationEvent::StoredPlanUsed { plan, .. } => {
            header.plan = Some(plan.clone());
            Some(State::Accepted(header))
        }
        OperationEvent::ClaimChanged { news, at } => {
            header::apply_claim_event(&mut header, news, *at)?;
            if matches!(news, ClaimEvent::Lost { .. }) {
                // Acquire the claim again, as if it had never been held.
                header.claim = None;
            }
            header.calls = CallFailures::default();
            header.outage = None;
            Some(State::Accepted(header))
        }
        OperationEvent::Finished { phase, message, at } => {
            finish_operation(Box::new(new_operation(*header, Arc::default(), *at)), *phase, message, *at)
        }
        _ => None,
    }
}

fn new_operation(header: Header, plan: Arc<Plan>, at: Timestamp) -> Operation {
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
        judged: HealthScope::None,
        wave_expired: None,
        failure: None,
        termination: None,
        outcome: None,
        seen_namespaces: NamespaceIdentities::default(),
        lost_namespace: None,
        overrides: BTreeMap::new(),
        cursor: Cursor::default(),
        namespaces: Arc::default(),
        graph: Arc::default(),
    }
}

fn finish_operation(
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

fn apply_to_running(operation: &mut Operation, event: &OperationEvent) -> Option<()> {
    match event {
        OperationEvent::StageChanged { to, at } => transitions::apply_transition(operation, to, *at),
        OperationEvent::GateEvaluated { gate, verdict, at } => {
            let (index, _) = operation.current_wave()?;
            operation.wave(index)?.gates.contains(gate).then_some(())?;
            operation.gates.retain(|answer| answer.gate != *gate);
            operation.gates.push(GateAnswer { gate: gate.clone(), verdict: verdict.clone(), at: *at });
            Some(())
        }
        OperationEvent::Approved { wave, at, .. } => {
            operation.wave(*wave)?;
            if !operation.is_approved(*wave) {
                operation.gates.push(GateAnswer::approval(*wave, *at));
            }
            Some(())
        }
        OperationEvent::Paused { .. } => header::apply_pause_event(&mut operation.header, event),
        OperationEvent::Unpaused { at, .. } => {
            let since = operation.header.paused.as_ref()?.at;
            shift_deadlines(operation, since, *at);
            header::apply_pause_event(&mut operation.header, event)
        }
        OperationEvent::PruneConfirmed { .. } => {
            operation.prune_confirmed = true;
            Some(())
        }
        OperationEvent::DeadlineExceeded { scope, message, at } => {
            apply_deadline(operation, *scope, message, *at)
        }
        OperationEvent::TerminationRequested { by, at } => {
            start_termination(operation, by, messages::TERMINATED, *at);
            Some(())
        }
        OperationEvent::ClaimChanged { news: ClaimEvent::EndWanted { by }, at } => {
            start_termination(operation, &by.to_string(), &messages::superseded_message(by), *at);
            Some(())
        }
        OperationEvent::ClaimChanged { news, at } => {
            header::apply_claim_event(&mut operation.header, news, *at)
        }
        OperationEvent::HealthRulesSet { digest, at } => {
            header::apply_health_rules(&mut operation.header, *digest, *at);
            Some(())
        }
        OperationEvent::AttemptFailed { message, retriable, at } => {
            if operation.failure.is_some() {
                return None;
            }
            let wave = operation.current_wave().map(|(index, _)| index);
            match operation.stage {
                Stage::Planned => tasks::record_invalid_tasks(operation),
                Stage::DryRun if operation.header.request.options.dry_run => {
                    transitions::record_dry_run(operation);
                }
                _ => {}
            }
            operation.failure =
                Some(Failure { wave, message: message.clone(), retriable: *retriable, at: *at });
            Some(())
        }
        OperationEvent::RetryStarted { attempt, at } => start_retry(operation, *attempt, *at),
        OperationEvent::NamespaceLost { namespace, loss, .. } => {
            operation.lost_namespace = Some(namespace.clone());
            if operation.current_wave().is_some() {
                end_wave_for_lost_namespace(operation, namespace, *loss)?;
            }
            Some(())
        }
        OperationEvent::NamespacesObserved { namespaces } => {
            for (name, identity) in namespaces.iter().cloned() {
                operation.seen_namespaces.set(name, identity);
            }
            Some(())
        }
        OperationEvent::WatchChanged { trouble, at } => {
            let outage = |message: &String| {
                Box::new(Outage { since: *at, message: message.clone(), tried: 0, retry_at: *at })
            };
            operation.header.blind = trouble.as_ref().map(outage);
            Some(())
        }
        OperationEvent::Overridden { task, what, by, reason, at } => {
            overrides::apply_decision(operation, *task, &Decision { what: *what, by, reason, at: *at })
        }
        event => tasks::apply_task_event(operation, event),
    }
}

/// Ends the current wave because a namespace was lost with all objects in it.
fn end_wave_for_lost_namespace(operation: &mut Operation, namespace: &str, loss: Loss) -> Option<()> {
    let (index, _) = operation.current_wave().filter(|(index, _)| !operation.is_sync_fail_wave(*index))?;
    tasks::fail_tasks_in_namespace(operation, index, namespace, loss);
    operation.wave_expired = Some(messages::namespace_lost_message(namespace, loss));
    Some(())
}

/// Extends deadlines by the length of a pause, because paused time doesn't count toward them.
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

/// Starts the termination: marks running hooks to be stopped, and ends a pause.
fn start_termination(operation: &mut Operation, by: &str, message: &str, at: Timestamp) {
    tasks::stop_hooks(operation, HOOK_TERMINATED);
    operation.header.paused = None;
    operation.termination =
        Some(Termination { by: by.to_owned(), message: message.to_owned(), had_errors: false, at });
    operation.since = at;
}

fn apply_deadline(
    operation: &mut Operation,
    scope: DeadlineScope,
    message: &str,
    at: Timestamp,
) -> Option<()> {
    match scope {
        DeadlineScope::Operation => {
            start_termination(operation, messages::TERMINATED_BY_DEADLINE, message, at)
        }
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

/// Starts another attempt, which repeats only the failed tasks unless the request or a resource asks for a
/// restart.
fn start_retry(operation: &mut Operation, attempt: u32, at: Timestamp) -> Option<()> {
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
    let is_passed_over = |id| overrides.get(&id).is_some_and(|overridden| overridden.what.counts_as_done());
    for (id, task) in (0..).map(TaskId).zip(&mut operation.tasks) {
        // Tasks that a user skipped or marked as done stay that way in every attempt.
        if restart && !is_passed_over(id) || task.is_unsuccessful() {
            let notes = task.notes.take();
            *task = TaskState { leftover: leftover_uid(task), notes, ..TaskState::default() };
        }
    }
    renumber_results(operation);
    if restart {
        operation.waves.fill(WaveTimes::default());
        // The attempt writes everything again, so only the current state of the namespaces matters.
        operation.seen_namespaces.clear();
    }
    operation.stage = Stage::Planned;
    Some(())
}

/// Starts another attempt with a new plan, because missing objects may exist now, and existing objects may
/// have been deleted.
fn start_replanning(operation: Operation, attempt: u32) -> Option<State> {
    if attempt != operation.attempt.saturating_add(1) {
        return None;
    }
    Some(State::Accepted(Box::new(Header { attempt, calls: CallFailures::default(), ..operation.header })))
}

/// Renumbers the remaining results without gaps.
fn renumber_results(operation: &mut Operation) {
    let mut kept: Vec<&mut TaskState> = operation.tasks.iter_mut().filter(|task| task.order > 0).collect();
    kept.sort_unstable_by_key(|task| task.order);
    operation.results = 0;
    for task in kept {
        operation.results = operation.results.saturating_add(1);
        task.order = operation.results;
    }
}

/// Returns the UID of the hook object that an attempt leaves behind. The next attempt deletes it according to
/// the hook's policy, even if it never gets as far as the hook.
fn leftover_uid(task: &mut TaskState) -> Option<String> {
    let applied = task.applied.take().map(|applied| applied.uid).filter(|uid| !uid.is_empty());
    applied.or_else(|| task.leftover.take())
}
