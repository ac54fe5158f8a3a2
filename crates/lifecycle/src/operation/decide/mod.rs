//! Which facts an input means, given the state. Pure: the same pair gives the same facts.

mod answers;
mod gates;
mod namespaces;
mod observed;
mod people;

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{OperationPhase, Timestamp};

use super::claim;
use super::fact::Fact;
use super::follow::ending;
use super::health_rules;
use super::input::{CallError, Input};
use super::rules::is_sound;
use super::state::{Calls, Header, Operation, Progress, Stage, State, TaskState};

/// How often one call may fail in a passing way before the failure counts. With the waits below about a minute. Calls
/// that fail because the cluster does not answer are not counted, as long as the operation has time.
pub(crate) const CALLS_MAX: u32 = 10;
/// The same where [few tries](CallError::few_tries) are made.
const FEW_CALLS_MAX: u32 = 3;
/// Wait after the first failed call; doubled each time.
const CALL_WAIT: Duration = Duration::from_millis(200);
/// Longest wait between two calls.
const CALL_WAIT_MAX: Duration = Duration::from_secs(15);
/// Longest wait between two looks at a cluster that does not answer. Only one call of the operation is made meanwhile,
/// so it may be short: the operation goes on soon after the cluster is back.
const OUTAGE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the cleaning up after an operation waits for a cluster that does not answer. There is no deadline any more,
/// and an operation on a cluster that is gone for good must end.
const CLEANING_PATIENCE: Duration = Duration::from_secs(600);

/// Why an input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A late or repeated answer. It can be dropped without harm.
    #[error("answer is not awaited in state {state}")]
    Stale {
        /// The state that does not await it.
        state: String,
    },
    /// Nothing was accepted yet.
    #[error("operation does not exist yet; request a sync first")]
    NotStarted,
    /// The operation exists already.
    #[error("operation exists already (state {state}); use a new operation id")]
    AlreadyStarted {
        /// Its state.
        state: String,
    },
    /// The operation is over.
    #[error("operation is already over: {message}")]
    AlreadyFinished {
        /// Its final message.
        message: String,
    },
    /// The operation is ending by itself or was terminated before.
    #[error("operation is already ending (state {state}); wait for it")]
    AlreadyEnding {
        /// Its state.
        state: String,
    },
    /// The operation is paused.
    #[error("operation is already paused by {by}")]
    AlreadyPaused {
        /// By whom.
        by: String,
    },
    /// The operation is not paused.
    #[error("operation is not paused; nothing to unpause")]
    NotPaused,
    /// No prune waits for confirmation.
    #[error("no prune of this operation needs confirmation")]
    NothingToConfirm,
    /// No wave waits for approval, or not the one that was named.
    #[error("{0}")]
    NothingToApprove(String),
}

/// The facts an input means.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match (state, input) {
        (State::New, Input::Request { operation, request, targets }) => Ok(vec![Fact::Accepted {
            operation: *operation,
            request: request.clone(),
            targets: *targets,
            at: now,
        }]),
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
        Input::Planned { .. } | Input::PlanFailed(_) if !header.may_begin() => {
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
        Input::Pause { by, reason } => people::pause(header, by, reason, now),
        Input::Unpause { by } => people::unpause(header, by, now),
        Input::ConfirmPrune { .. } => Err(Rejection::NothingToConfirm),
        Input::Approve { .. } => {
            Err(Rejection::NothingToApprove("the operation is not planned yet; approve it then".to_owned()))
        }
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
        Input::HealthRules { digest } => Ok(health_rules::known(&operation.header, *digest, now)),
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
        Input::Pause { by, reason } => people::pause(&operation.header, by, reason, now),
        Input::Unpause { by } => people::unpause(&operation.header, by, now),
        Input::ConfirmPrune { by } => people::confirm_prune(operation, by, now),
        Input::Approve { wave, by, reason } => people::approve(operation, *wave, by, reason, now),
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

/// When a failed call may be made again.
pub(crate) struct Again {
    pub(crate) retry_at: Timestamp,
    /// The cluster does not answer, and the call is not counted.
    pub(crate) outage: bool,
}

/// When a failed call may be made again; `None` when the failure counts. `patient`: no deadline has passed, so there is
/// no hurry while the cluster does not answer.
pub(crate) fn call_again(
    header: &Header,
    calls: Option<&Calls>,
    error: &CallError,
    patient: bool,
    now: Timestamp,
) -> Option<Again> {
    // Whoever says how long is asked again then, and not later.
    let or_as_asked = |wait: Duration| error.retry_after.map_or(wait, |asked| asked.max(CALL_WAIT));
    if error.outage && patient {
        let known = header.outage.as_deref();
        // Many calls may have been on their way when it began; they are one try.
        let retry_at = match known.filter(|outage| now < outage.retry_at) {
            Some(outage) => outage.retry_at,
            None => {
                let tried = known.map_or(0, |outage| outage.tried);
                let wait = CALL_WAIT.saturating_mul(2_u32.saturating_pow(tried)).min(OUTAGE_WAIT_MAX);
                now + or_as_asked(wait)
            }
        };
        return Some(Again { retry_at, outage: true });
    }
    let failed = calls.map_or(0, |calls| calls.failed);
    let most = if error.few_tries { FEW_CALLS_MAX } else { CALLS_MAX };
    if !error.transient || failed.saturating_add(1) >= most {
        return None;
    }
    let wait = CALL_WAIT.saturating_mul(2_u32.saturating_pow(failed)).min(CALL_WAIT_MAX);
    Some(Again { retry_at: now + or_as_asked(wait), outage: false })
}

/// Whether calls about this task may be made for as long as the cluster does not answer. Not once a deadline has
/// passed or somebody wants the end: that must come.
pub(crate) fn is_patient(operation: &Operation, state: &TaskState, now: Timestamp) -> bool {
    let stopping = matches!(state.progress, Progress::Stopping { .. }) || operation.wave_expired.is_some();
    match operation.stage {
        Stage::Terminating => false,
        Stage::Finishing { .. } => now < operation.since + CLEANING_PATIENCE,
        _ => !stopping,
    }
}
