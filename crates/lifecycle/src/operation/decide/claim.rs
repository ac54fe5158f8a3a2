//! Handling of claim events.

use tidegate_model::{ClaimConflictPolicy, OperationPhase, Timestamp};

use super::call_retry::{CallRetry, schedule_call_retry};
use crate::operation::advance::{self, ending};
use crate::operation::input::CallError;
use crate::operation::messages;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{Claim, ClaimEvent, Header, Operation};

/// Handles a claim event before planning, when nothing has been written to the cluster.
pub(super) fn handle_claim_before_plan(
    header: &Header,
    news: &ClaimEvent,
    now: Timestamp,
) -> Vec<OperationEvent> {
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

pub(super) fn handle_claim_failure(
    header: &Header,
    error: &CallError,
    now: Timestamp,
) -> Vec<OperationEvent> {
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
pub(super) fn handle_claim_event(
    operation: &Operation,
    news: &ClaimEvent,
    now: Timestamp,
) -> Vec<OperationEvent> {
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
