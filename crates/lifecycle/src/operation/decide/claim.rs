//! What news of the claim mean.

use tidegate_model::{IfTaken, OperationPhase, Timestamp};

use super::again::{Again, call_again};
use crate::operation::fact::Fact;
use crate::operation::follow::{self, ending};
use crate::operation::input::CallError;
use crate::operation::messages;
use crate::operation::state::{Claim, ClaimNews, Header, Operation};

/// News before the operation was planned: it has written nothing.
pub(super) fn before_plan(header: &Header, news: &ClaimNews, now: Timestamp) -> Vec<Fact> {
    let fact = Fact::Claim { news: news.clone(), at: now };
    if let ClaimNews::EndWanted { by } = news {
        let end = ending::at_once(OperationPhase::Failed, messages::superseded(by), now);
        return std::iter::once(fact).chain(end).collect();
    }
    let Some(request) = &header.request.claim else { return Vec::new() };
    match news {
        ClaimNews::Held { place, epoch } if header.holds(place, *epoch) => Vec::new(),
        ClaimNews::Without { reason } if header.goes_on_without(reason) => Vec::new(),
        ClaimNews::Held { .. } | ClaimNews::Without { .. } => vec![fact],
        ClaimNews::Taken { holder, at_work: true } if request.if_taken == IfTaken::Refuse => {
            let end = ending::at_once(OperationPhase::Error, messages::claim_refused(header, holder), now);
            std::iter::once(fact).chain(end).collect()
        }
        ClaimNews::Taken { holder, .. } => match header.claim.as_deref() {
            // That it was looked at again, after calls that failed, is news: those do not count any more.
            Some(Claim::Taken { holder: known, .. }) if known == holder && !header.is_troubled() => {
                Vec::new()
            }
            _ => vec![fact],
        },
        // Nothing was written under it: it is taken anew.
        ClaimNews::Lost { .. } | ClaimNews::EndWanted { .. } => vec![fact],
    }
}

/// The claim could not be asked for.
pub(super) fn not_answered(header: &Header, error: &CallError, now: Timestamp) -> Vec<Fact> {
    match call_again(header, Some(&header.calls), error, true, now) {
        Some(Again { retry_at, outage }) => {
            vec![Fact::CallFailed { task: None, message: error.message.clone(), retry_at, at: now, outage }]
        }
        None => {
            let message = format!("failed to take the claim: {}", error.message);
            ending::at_once(OperationPhase::Error, message, now)
        }
    }
}

/// News about a planned operation.
pub(super) fn news(operation: &Operation, news: &ClaimNews, now: Timestamp) -> Vec<Fact> {
    let fact = Fact::Claim { news: news.clone(), at: now };
    let header = &operation.header;
    match news {
        ClaimNews::EndWanted { .. } if operation.is_ending() => Vec::new(),
        ClaimNews::EndWanted { .. } => vec![fact, follow::to_its_end(now)],
        _ if header.claims().is_none() => Vec::new(),
        ClaimNews::Held { place, epoch } if header.holds(place, *epoch) => Vec::new(),
        ClaimNews::Without { reason } if header.goes_on_without(reason) => Vec::new(),
        ClaimNews::Held { .. } | ClaimNews::Without { .. } => vec![fact],
        ClaimNews::Lost { .. } => vec![fact],
        // Only an operation that has not begun waits.
        ClaimNews::Taken { .. } => Vec::new(),
    }
}
