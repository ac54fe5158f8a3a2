//! Applies events to the header.

use tidegate_model::{Digest, Timestamp};

use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{ActiveHealthRules, CallFailures, Claim, ClaimEvent, Header, Outage, Pause};

pub(super) fn record_call_failure(calls: &mut CallFailures, message: &str, retry_at: Timestamp) {
    calls.failed = calls.failed.saturating_add(1);
    calls.not_before = Some(retry_at);
    message.clone_into(&mut calls.message);
}

/// Records that the cluster isn't responding. Calls that were in flight together count as a single attempt.
pub(super) fn record_outage(header: &mut Header, message: &str, retry_at: Timestamp, at: Timestamp) {
    let known = header.outage.take();
    let (since, tried) = known.as_ref().map_or((at, 0), |outage| (outage.since, outage.tried));
    let is_same = known.is_some_and(|outage| outage.retry_at == retry_at);
    let tried = if is_same { tried } else { tried.saturating_add(1) };
    header.outage = Some(Box::new(Outage { since, message: message.to_owned(), tried, retry_at }));
}

pub(super) fn apply_pause_event(header: &mut Header, event: &OperationEvent) -> Option<()> {
    match (event, header.paused.take()) {
        (OperationEvent::Paused { by, reason, at }, None) => {
            header.paused = Some(Pause { by: by.clone(), reason: reason.clone(), at: *at });
        }
        (OperationEvent::Unpaused { at, .. }, Some(pause)) => {
            header.deadline_from = header.deadline_from + at.since(pause.at);
        }
        _ => return None,
    }
    Some(())
}

pub(super) fn apply_claim_event(header: &mut Header, news: &ClaimEvent, at: Timestamp) -> Option<()> {
    if matches!(news, ClaimEvent::EndWanted { .. }) {
        // Another operation in the same engine can supersede this operation, even without a claim.
        return Some(());
    }
    header.request.claim.as_ref()?;
    let claim = match news {
        ClaimEvent::Held { place, epoch } => Claim::Held { place: place.clone(), epoch: *epoch, since: at },
        ClaimEvent::Taken { holder, .. } => {
            let since = match header.claim.as_deref() {
                Some(Claim::Taken { since, .. }) => *since,
                _ => at,
            };
            Claim::Taken { holder: holder.clone(), since }
        }
        ClaimEvent::Without { reason } => Claim::Without { reason: reason.clone() },
        ClaimEvent::Lost { holder } => Claim::Lost { holder: holder.clone() },
        ClaimEvent::EndWanted { .. } => return Some(()),
    };
    header.claim = Some(Box::new(claim));
    Some(())
}

pub(super) fn apply_health_rules(header: &mut Header, digest: Digest, at: Timestamp) {
    let before = header.health_rules.take().map(|known| known.digest);
    header.health_rules = Some(Box::new(ActiveHealthRules { digest, since: at, before }));
}
