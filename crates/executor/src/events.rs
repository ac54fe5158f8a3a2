//! From recorded facts to events for people and programs.

use tidegate_lifecycle::operation::{ClaimNews, Fact, Header, State};
use tidegate_model::{IfTaken, TaskId, Timestamp};

use crate::extend::{Event, EventKind};

/// The event a fact is announced as, once it is durable; many facts are too small to be announced.
pub(crate) fn announce(state: &State, fact: &Fact, now: Timestamp) -> Option<Event> {
    let header: &Header = state.header()?;
    let (what, at) = kind(state, fact, now)?;
    Some(Event { operation: header.operation, application: header.request.application.clone(), at, what })
}

fn kind(state: &State, fact: &Fact, now: Timestamp) -> Option<(EventKind, Timestamp)> {
    let task = |id: &TaskId| state.operation().and_then(|operation| operation.plan.task(*id));
    Some(match fact {
        Fact::Accepted { at, .. } => (EventKind::Accepted, *at),
        Fact::Moved { to, at } => (EventKind::Moved { stage: to.name() }, *at),
        Fact::TaskCompleted { task: id, phase, message, at }
        | Fact::TaskFailed { task: id, phase, message, at } => {
            (EventKind::Task { object: task(id)?.key(), phase: *phase, message: message.clone() }, *at)
        }
        Fact::AttemptFailed { message, at, .. } => {
            (EventKind::AttemptFailed { message: message.clone() }, *at)
        }
        Fact::Claim { news, at } => (EventKind::Claim { message: claim(state, news)? }, *at),
        Fact::Paused { by, at, .. } => (EventKind::Paused { by: by.clone(), held: true }, *at),
        Fact::Unpaused { by, at } => (EventKind::Paused { by: by.clone(), held: false }, *at),
        Fact::Finished { phase, message, at } => {
            (EventKind::Finished { phase: *phase, message: message.clone() }, *at)
        }
        Fact::DeadlinePassed { message, .. } => (EventKind::AttemptFailed { message: message.clone() }, now),
        _ => return None,
    })
}

/// What people have to know of a claim. That it is held, or was lost, is told by what follows.
fn claim(state: &State, news: &ClaimNews) -> Option<String> {
    let request = state.header().and_then(|header| header.request.claim.as_ref());
    let waits = request.is_some_and(|request| request.if_taken != IfTaken::Refuse);
    match news {
        ClaimNews::Taken { holder, at_work } if waits || *at_work => {
            Some(format!("waiting for the end of {holder}"))
        }
        ClaimNews::Taken { holder, .. } => {
            Some(format!("the application is claimed by {holder}; looking whether that is still at work"))
        }
        ClaimNews::Without { reason } => {
            Some(format!("going on without a claim on the application: {reason}"))
        }
        ClaimNews::EndWanted { by } => Some(format!("asked to end by {by}")),
        ClaimNews::Held { .. } | ClaimNews::Lost { .. } => None,
    }
}

/// One structured line per event.
pub(crate) fn trace(event: &Event) {
    let (operation, application) = (event.operation.to_string(), event.application.as_str());
    match &event.what {
        EventKind::Accepted => tracing::info!(operation, application, "accepted"),
        EventKind::Moved { stage } => tracing::info!(operation, application, stage, "moved"),
        EventKind::Task { object, phase, message } => {
            tracing::info!(operation, application, %object, %phase, message, "task ended");
        }
        EventKind::AttemptFailed { message } => {
            tracing::warn!(operation, application, message, "attempt failed")
        }
        EventKind::Claim { message } => tracing::info!(operation, application, message, "claim"),
        EventKind::Paused { by, held } => {
            tracing::info!(operation, application, by, held, "paused or let go")
        }
        EventKind::Finished { phase, message } => {
            tracing::info!(operation, application, %phase, message, "finished");
        }
    }
}
