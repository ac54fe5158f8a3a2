//! Decides which events follow from an input. The functions are pure: the same input, state and time always
//! yield the same events.

mod answers;
mod call_retry;
mod gates;
mod namespaces;
mod observation;
mod overrides;
mod rejection;
mod supersede;
mod user_requests;

use std::sync::Arc;

use tidegate_model::{ClaimConflictPolicy, Digest, OperationPhase, Timestamp};

use super::advance::{self, ending};
use super::input::{CallError, Input};
use super::messages;
use super::recorded_event::OperationEvent;
use super::rules::is_consistent;
use super::state::{Claim, ClaimEvent, Header, Operation, State};

use call_retry::{CallRetry, schedule_call_retry};
use overrides::Attribution;
pub use rejection::Rejection;

/// Returns the events that an input causes.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<OperationEvent>, Rejection> {
    match (state, input) {
        (State::New, Input::Request { operation, request, targets, plan }) => {
            let (operation, request, targets) = (*operation, request.clone(), *targets);
            let accepted = OperationEvent::Accepted { operation, request, targets, at: now };
            let taken = plan.clone().map(|plan| OperationEvent::StoredPlanUsed { plan, at: now });
            Ok(std::iter::once(accepted).chain(taken).collect())
        }
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Request { .. }) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(operation), input) => decide_finished(operation, input),
        (_, Input::Abort { reason }) => Ok(ending::finish_now(OperationPhase::Error, reason.clone(), now)),
        (State::Accepted(header), input) => decide_accepted(header, input, now),
        (State::Running(operation), input) => decide_running(operation, input, now),
    }
}

fn decide_finished(operation: &Operation, input: &Input) -> Result<Vec<OperationEvent>, Rejection> {
    if input.is_request() {
        return Err(Rejection::AlreadyFinished { message: operation.message() });
    }
    Err(Rejection::Stale { state: "Finished".to_owned() })
}

fn decide_accepted(header: &Header, input: &Input, now: Timestamp) -> Result<Vec<OperationEvent>, Rejection> {
    match input {
        Input::Claim(Ok(news)) => Ok(handle_claim_before_plan(header, news, now)),
        Input::Claim(Err(error)) => Ok(handle_claim_failure(header, error, now)),
        // The plan is stale: another operation has claimed the application since.
        Input::Planned { .. } | Input::PlanFailed(_) | Input::PlanRejected { .. } if !header.can_begin() => {
            Err(Rejection::Stale { state: "Accepted".to_owned() })
        }
        Input::Planned { plan, .. } if !is_consistent(plan) => {
            Ok(ending::finish_now(OperationPhase::Error, messages::INCONSISTENT_PLAN.to_owned(), now))
        }
        Input::Planned { plan, bundle, namespaces } => {
            let planned = OperationEvent::Planned { plan: Arc::clone(plan), bundle: *bundle, at: now };
            let seen = namespaces::handle_planned_namespaces(plan, namespaces, now);
            Ok(std::iter::once(planned).chain(seen).collect())
        }
        Input::PlanRejected { reason } => Ok(ending::finish_now(OperationPhase::Error, reason.clone(), now)),
        Input::PlanFailed(error) => {
            let message = error.message.clone();
            Ok(match schedule_call_retry(header, Some(&header.calls), error, true, now) {
                Some(CallRetry { retry_at, is_outage: outage }) => {
                    vec![OperationEvent::CallFailed { task: None, message, retry_at, at: now, outage }]
                }
                None => {
                    let message = format!("failed to read the cluster: {message}");
                    ending::finish_now(OperationPhase::Error, message, now)
                }
            })
        }
        Input::Terminate { by } => {
            let request = OperationEvent::TerminationRequested { by: by.clone(), at: now };
            let message = messages::TERMINATED.to_owned();
            Ok(std::iter::once(request)
                .chain(ending::finish_now(OperationPhase::Failed, message, now))
                .collect())
        }
        Input::Supersede { by, when } => supersede::supersede_before_plan(header, by, *when, now),
        Input::Pause { by, reason } => user_requests::pause(header, by, reason, now),
        Input::Unpause { by } => user_requests::unpause(header, by, now),
        Input::ConfirmPrune { .. } => Err(Rejection::NothingToConfirm),
        Input::Approve { .. } => Err(Rejection::NothingToApprove(
            "the operation has not been planned yet; approve it once it has a plan".to_owned(),
        )),
        Input::Override { what, .. } => Err(Rejection::NothingToOverride(format!(
            "the operation has not been planned yet, so there is nothing to {}; wait for its plan",
            what.verb()
        ))),
        // Nothing has been assessed yet, so there is nothing to reassess.
        Input::Resumed | Input::HealthRules { .. } => Ok(Vec::new()),
        _ => Err(Rejection::Stale { state: "Accepted".to_owned() }),
    }
}

fn decide_running(
    operation: &Operation,
    input: &Input,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    let stale = || Rejection::Stale { state: operation.stage.name() };
    match input {
        Input::Answer { task, attempt, answer } if *attempt == operation.attempt => {
            answers::decide(operation, *task, answer, now).ok_or_else(stale)
        }
        Input::Observed { task, observation } => {
            observation::decide(operation, *task, observation, now).ok_or_else(stale)
        }
        Input::Claim(Ok(news)) => Ok(handle_claim_event(operation, news, now)),
        // The claim keeper retries the call.
        Input::Claim(Err(_)) => Ok(Vec::new()),
        Input::StopTimeout if operation.should_end_immediately() => Ok(ending::give_up_hooks(operation, now)),
        Input::Reason { task, reason } => {
            observation::handle_reason(operation, *task, reason, now).ok_or_else(stale)
        }
        Input::NamespaceObserved(observation) => {
            Ok(namespaces::handle_namespace(operation, observation, now))
        }
        Input::NamespacesRead { namespaces } => {
            namespaces::handle_namespace_check(operation, namespaces, now).ok_or_else(stale)
        }
        Input::WatchStatus { trouble, since } => {
            Ok(record_watch_status(operation, trouble.as_deref(), (*since).min(now)))
        }
        Input::Gate { wave, gate, verdict } => {
            gates::handle_verdict(operation, *wave, gate, verdict, now).ok_or_else(stale)
        }
        Input::Resumed => Ok(gates::withdraw_open_verdicts(operation, now)),
        Input::HealthRules { digest } => Ok(record_health_rules(&operation.header, *digest, now)),
        input if input.is_request() => {
            user_requests::reject_if_ending(operation)?;
            decide_user_request(operation, input, now)
        }
        _ => Err(stale()),
    }
}

fn decide_user_request(
    operation: &Operation,
    input: &Input,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    match input {
        Input::Terminate { by } => Ok(user_requests::terminate(by, now)),
        Input::Supersede { by, when } => supersede::supersede_planned(operation, by, *when, now),
        Input::Pause { by, reason } => user_requests::pause(&operation.header, by, reason, now),
        Input::Unpause { by } => user_requests::unpause(&operation.header, by, now),
        Input::ConfirmPrune { by } => user_requests::confirm_prune(operation, by, now),
        Input::Approve { wave, by, reason } => user_requests::approve_wave(operation, *wave, by, reason, now),
        Input::Override { what, scope, by, reason } => {
            overrides::decide(operation, *what, scope, &Attribution { by, reason }, now)
        }
        _ => Ok(Vec::new()),
    }
}

/// Handles a claim event before planning, when nothing has been written to the cluster.
fn handle_claim_before_plan(header: &Header, news: &ClaimEvent, now: Timestamp) -> Vec<OperationEvent> {
    let event = OperationEvent::ClaimChanged { news: news.clone(), at: now };
    if let ClaimEvent::EndWanted { by } = news {
        let end = ending::finish_now(OperationPhase::Failed, messages::superseded_message(by), now);
        return std::iter::once(event).chain(end).collect();
    }
    let Some(request) = &header.request.claim else { return Vec::new() };
    match news {
        ClaimEvent::Held { place, epoch } if header.has_claim(place, *epoch) => Vec::new(),
        ClaimEvent::Without { reason } if header.is_without_claim_because(reason) => Vec::new(),
        ClaimEvent::Held { .. } | ClaimEvent::Without { .. } => vec![event],
        ClaimEvent::Taken { holder, at_work: true } if request.if_taken == ClaimConflictPolicy::Refuse => {
            let end = ending::finish_now(
                OperationPhase::Error,
                messages::claim_refused_message(header, holder),
                now,
            );
            std::iter::once(event).chain(end).collect()
        }
        ClaimEvent::Taken { holder, .. } => match header.claim.as_deref() {
            // A known holder isn't recorded twice, unless calls have failed: the event resets the number of
            // failures.
            Some(Claim::Taken { holder: known, .. }) if known == holder && !header.has_failing_call() => {
                Vec::new()
            }
            _ => vec![event],
        },
        // Nothing has been written under this claim, so it can simply be acquired again.
        ClaimEvent::Lost { .. } | ClaimEvent::EndWanted { .. } => vec![event],
    }
}

fn handle_claim_failure(header: &Header, error: &CallError, now: Timestamp) -> Vec<OperationEvent> {
    match schedule_call_retry(header, Some(&header.calls), error, true, now) {
        Some(CallRetry { retry_at, is_outage: outage }) => {
            vec![OperationEvent::CallFailed {
                task: None,
                message: error.message.clone(),
                retry_at,
                at: now,
                outage,
            }]
        }
        None => {
            let message = format!("failed to acquire the claim: {}", error.message);
            ending::finish_now(OperationPhase::Error, message, now)
        }
    }
}

/// Handles a claim event of a planned operation.
fn handle_claim_event(operation: &Operation, news: &ClaimEvent, now: Timestamp) -> Vec<OperationEvent> {
    let event = OperationEvent::ClaimChanged { news: news.clone(), at: now };
    let header = &operation.header;
    match news {
        ClaimEvent::EndWanted { .. } if operation.is_ending() => Vec::new(),
        ClaimEvent::EndWanted { .. } => vec![event, advance::termination_event(now)],
        _ if header.claim_request().is_none() => Vec::new(),
        ClaimEvent::Held { place, epoch } if header.has_claim(place, *epoch) => Vec::new(),
        ClaimEvent::Without { reason } if header.is_without_claim_because(reason) => Vec::new(),
        ClaimEvent::Held { .. } | ClaimEvent::Without { .. } => vec![event],
        ClaimEvent::Lost { .. } => vec![event],
        // A planned operation doesn't wait for the claim.
        ClaimEvent::Taken { .. } => Vec::new(),
    }
}

/// Records that watches are failing, or are working again.
fn record_watch_status(
    operation: &Operation,
    trouble: Option<&str>,
    since: Timestamp,
) -> Vec<OperationEvent> {
    let known = operation.header.blind.as_ref().map(|blind| blind.message.as_str());
    if known == trouble {
        return Vec::new();
    }
    vec![OperationEvent::WatchChanged { trouble: trouble.map(str::to_owned), at: since }]
}

/// Records the health rules that apply from this point on.
fn record_health_rules(header: &Header, digest: Digest, now: Timestamp) -> Vec<OperationEvent> {
    let is_recorded = header.health_rules.as_ref().is_some_and(|known| known.digest == digest);
    if is_recorded { Vec::new() } else { vec![OperationEvent::HealthRulesSet { digest, at: now }] }
}
