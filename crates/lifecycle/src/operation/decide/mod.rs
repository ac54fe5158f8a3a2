//! Which facts an input means, given the state. Pure: the same pair gives the same facts.

mod again;
mod answers;
mod claim;
mod gates;
mod namespaces;
mod observed;
mod overrides;
mod people;
mod rejection;
mod supersede;

use std::sync::Arc;

use tidegate_model::{Digest, OperationPhase, Timestamp};

use super::fact::Fact;
use super::follow::ending;
use super::input::Input;
use super::rules::is_sound;
use super::state::{Header, Operation, State};

use again::{Again, call_again};
use overrides::Words;
pub use rejection::Rejection;

/// The facts an input means.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match (state, input) {
        (State::New, Input::Request { operation, request, targets, plan }) => {
            let (operation, request, targets) = (*operation, request.clone(), *targets);
            let accepted = Fact::Accepted { operation, request, targets, at: now };
            let taken = plan.clone().map(|plan| Fact::PlanTaken { plan, at: now });
            Ok(std::iter::once(accepted).chain(taken).collect())
        }
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Request { .. }) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(operation), input) => finished(operation, input),
        (_, Input::Abort { reason }) => Ok(ending::at_once(OperationPhase::Error, reason.clone(), now)),
        (State::Accepted(header), input) => accepted(header, input, now),
        (State::Running(operation), input) => running(operation, input, now),
    }
}

fn finished(operation: &Operation, input: &Input) -> Result<Vec<Fact>, Rejection> {
    if input.is_wish() {
        return Err(Rejection::AlreadyFinished { message: operation.message() });
    }
    Err(Rejection::Stale { state: "Finished".to_owned() })
}

fn accepted(header: &Header, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match input {
        Input::Claim(Ok(news)) => Ok(claim::before_plan(header, news, now)),
        Input::Claim(Err(error)) => Ok(claim::not_answered(header, error, now)),
        // It was made before another operation had the application.
        Input::Planned { .. } | Input::PlanFailed(_) | Input::PlanRefused { .. } if !header.may_begin() => {
            Err(Rejection::Stale { state: "Accepted".to_owned() })
        }
        Input::Planned { plan, .. } if !is_sound(plan) => {
            Ok(ending::at_once(OperationPhase::Error, super::messages::UNSOUND_PLAN.to_owned(), now))
        }
        Input::Planned { plan, bundle, namespaces } => {
            let planned = Fact::Planned { plan: Arc::clone(plan), bundle: *bundle, at: now };
            let seen = namespaces::planned(plan, namespaces, now);
            Ok(std::iter::once(planned).chain(seen).collect())
        }
        Input::PlanRefused { reason } => Ok(ending::at_once(OperationPhase::Error, reason.clone(), now)),
        Input::PlanFailed(error) => {
            let message = error.message.clone();
            Ok(match call_again(header, Some(&header.calls), error, true, now) {
                Some(Again { retry_at, outage }) => {
                    vec![Fact::CallFailed { task: None, message, retry_at, at: now, outage }]
                }
                None => {
                    let message = format!("failed to read the cluster: {message}");
                    ending::at_once(OperationPhase::Error, message, now)
                }
            })
        }
        Input::Terminate { by } => {
            let wish = Fact::TerminateRequested { by: by.clone(), at: now };
            let message = super::messages::TERMINATED.to_owned();
            Ok(std::iter::once(wish).chain(ending::at_once(OperationPhase::Failed, message, now)).collect())
        }
        Input::Supersede { by, when } => supersede::before_plan(header, by, *when, now),
        Input::Pause { by, reason } => people::pause(header, by, reason, now),
        Input::Unpause { by } => people::unpause(header, by, now),
        Input::ConfirmPrune { .. } => Err(Rejection::NothingToConfirm),
        Input::Approve { .. } => {
            Err(Rejection::NothingToApprove("the operation is not planned yet; approve it then".to_owned()))
        }
        Input::Override { what, .. } => Err(Rejection::NothingToOverride(format!(
            "the operation is not planned yet, and has nothing to {}; wait for its plan",
            what.verb()
        ))),
        // Nothing is judged yet.
        Input::Resumed | Input::HealthRules { .. } => Ok(Vec::new()),
        _ => Err(Rejection::Stale { state: "Accepted".to_owned() }),
    }
}

fn running(operation: &Operation, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let stale = || Rejection::Stale { state: operation.stage.name() };
    match input {
        Input::Answer { task, attempt, answer } if *attempt == operation.attempt => {
            answers::decide(operation, *task, answer, now).ok_or_else(stale)
        }
        Input::Observed { task, observation } => {
            observed::decide(operation, *task, observation, now).ok_or_else(stale)
        }
        Input::Claim(Ok(news)) => Ok(claim::news(operation, news, now)),
        // Whoever holds it tries again.
        Input::Claim(Err(_)) => Ok(Vec::new()),
        Input::StopsOverdue if operation.is_hurried() => Ok(ending::unstopped(operation, now)),
        Input::Reason { task, reason } => observed::reason(operation, *task, reason, now).ok_or_else(stale),
        Input::NamespaceSeen(sight) => Ok(namespaces::one_seen(operation, sight, now)),
        Input::NamespacesSeen { namespaces } => {
            namespaces::all_seen(operation, namespaces, now).ok_or_else(stale)
        }
        Input::Watching { trouble, since } => Ok(watching(operation, trouble.as_deref(), (*since).min(now))),
        Input::Gate { wave, gate, verdict } => {
            gates::answered(operation, *wave, gate, verdict, now).ok_or_else(stale)
        }
        Input::Resumed => Ok(gates::resumed(operation, now)),
        Input::HealthRules { digest } => Ok(health_rules_known(&operation.header, *digest, now)),
        input if input.is_wish() => {
            people::refuse_if_ending(operation)?;
            wish(operation, input, now)
        }
        _ => Err(stale()),
    }
}

fn wish(operation: &Operation, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match input {
        Input::Terminate { by } => Ok(people::terminate(by, now)),
        Input::Supersede { by, when } => supersede::planned(operation, by, *when, now),
        Input::Pause { by, reason } => people::pause(&operation.header, by, reason, now),
        Input::Unpause { by } => people::unpause(&operation.header, by, now),
        Input::ConfirmPrune { by } => people::confirm_prune(operation, by, now),
        Input::Approve { wave, by, reason } => people::approve(operation, *wave, by, reason, now),
        Input::Override { what, scope, by, reason } => {
            overrides::decide(operation, *what, scope, &Words { by, reason }, now)
        }
        _ => Ok(Vec::new()),
    }
}

/// Watches that fail are worth a word, and so is that they work again.
fn watching(operation: &Operation, trouble: Option<&str>, since: Timestamp) -> Vec<Fact> {
    let known = operation.header.blind.as_ref().map(|blind| blind.message.as_str());
    if known == trouble {
        return Vec::new();
    }
    vec![Fact::Watching { trouble: trouble.map(str::to_owned), at: since }]
}

/// Objects are judged by these rules from now on.
fn health_rules_known(header: &Header, digest: Digest, now: Timestamp) -> Vec<Fact> {
    let is_recorded = header.health_rules.as_ref().is_some_and(|known| known.digest == digest);
    if is_recorded { Vec::new() } else { vec![Fact::HealthRulesKnown { digest, at: now }] }
}
