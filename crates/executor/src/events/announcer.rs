//! Tells what is durable to whoever listens.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_lifecycle::operation::{Event, EventKind};
use tidegate_model::OperationId;
use tokio::sync::broadcast;

/// Batches a slow listener may be behind before it reads the log instead.
const TOLD_KEPT: usize = 256;

/// What one batch of facts tells.
pub(crate) struct Told {
    pub operation: OperationId,
    /// Number of the last fact before the batch. Whoever has seen less missed something.
    pub after: u64,
    /// Number of its last fact.
    pub last: u64,
    pub events: Vec<Event>,
}

/// Tells everybody who listens what is durable.
pub(crate) struct Announcer(Mutex<Option<broadcast::Sender<Arc<Told>>>>);

impl Announcer {
    pub fn new() -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(TOLD_KEPT))))
    }

    /// Tells a batch. Nobody listening is fine.
    pub fn tell(&self, told: Told) {
        told.events.iter().for_each(trace);
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = sender.send(Arc::new(told));
        }
    }

    /// What is told from now on; nothing once it is closed.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Told>> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.subscribe(),
            None => broadcast::Sender::new(1).subscribe(),
        }
    }

    /// Nothing more is told: streams end when they have told everything.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// One structured line per event.
fn trace(event: &Event) {
    let (operation, application) = (event.operation.to_string(), event.application.as_str());
    let sequence = event.sequence;
    match &event.what {
        EventKind::Moved { to, .. } => {
            tracing::info!(operation, application, sequence, stage = to.name(), "moved");
        }
        EventKind::Task { object, phase, message } => {
            tracing::info!(operation, application, sequence, %object, %phase, message, "task ended");
        }
        EventKind::AttemptFailed { message, .. } => {
            tracing::warn!(operation, application, sequence, message, "attempt failed");
        }
        EventKind::DeadlinePassed { of, message } => {
            tracing::warn!(operation, application, sequence, ?of, message, "deadline passed");
        }
        EventKind::Claim { message, .. } => {
            tracing::info!(operation, application, sequence, message, "claim");
        }
        EventKind::Finished { phase, message } => {
            tracing::info!(operation, application, sequence, %phase, message, "finished");
        }
        what => tracing::info!(operation, application, sequence, ?what, "happened"),
    }
}
