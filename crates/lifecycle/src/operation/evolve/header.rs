//! What facts make of what is known from the beginning.

use tidegate_model::{Digest, Timestamp};

use crate::operation::fact::Fact;
use crate::operation::state::{Calls, Claim, ClaimNews, Header, JudgedBy, Outage, Pause};

pub(super) fn failed_again(calls: &mut Calls, message: &str, retry_at: Timestamp) {
    calls.failed = calls.failed.saturating_add(1);
    calls.not_before = Some(retry_at);
    message.clone_into(&mut calls.message);
}

/// The cluster does not answer. Calls that were on their way together are one try.
pub(super) fn no_answer(header: &mut Header, message: &str, retry_at: Timestamp, at: Timestamp) {
    let known = header.outage.take();
    let (since, tried) = known.as_ref().map_or((at, 0), |outage| (outage.since, outage.tried));
    let is_same = known.is_some_and(|outage| outage.retry_at == retry_at);
    let tried = if is_same { tried } else { tried.saturating_add(1) };
    header.outage = Some(Box::new(Outage { since, message: message.to_owned(), tried, retry_at }));
}

pub(super) fn pause(header: &mut Header, fact: &Fact) -> Option<()> {
    match (fact, header.paused.take()) {
        (Fact::Paused { by, reason, at }, None) => {
            header.paused = Some(Pause { by: by.clone(), reason: reason.clone(), at: *at });
        }
        (Fact::Unpaused { at, .. }, Some(pause)) => {
            header.deadline_from = header.deadline_from + at.since(pause.at);
        }
        _ => return None,
    }
    Some(())
}

/// What a fact makes of what is known of the claim.
pub(super) fn claim(header: &mut Header, news: &ClaimNews, at: Timestamp) -> Option<()> {
    if matches!(news, ClaimNews::EndWanted { .. }) {
        // Whoever supersedes it in the same engine needs no claim for that.
        return Some(());
    }
    header.request.claim.as_ref()?;
    let claim = match news {
        ClaimNews::Held { place, epoch } => Claim::Held { place: place.clone(), epoch: *epoch, since: at },
        ClaimNews::Taken { holder, .. } => {
            let since = match header.claim.as_deref() {
                Some(Claim::Taken { since, .. }) => *since,
                _ => at,
            };
            Claim::Taken { holder: holder.clone(), since }
        }
        ClaimNews::Without { reason } => Claim::Without { reason: reason.clone() },
        ClaimNews::Lost { holder } => Claim::Lost { holder: holder.clone() },
        ClaimNews::EndWanted { .. } => return Some(()),
    };
    header.claim = Some(Box::new(claim));
    Some(())
}

/// Objects are judged by other rules from now on.
pub(super) fn judged_by(header: &mut Header, digest: Digest, at: Timestamp) {
    let before = header.health_rules.take().map(|known| known.digest);
    header.health_rules = Some(Box::new(JudgedBy { digest, since: at, before }));
}
