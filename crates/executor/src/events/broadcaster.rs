//! Delivery of durable events to listeners.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::operation::{Event, EventKind};
use tidegate_model::OperationId;
use tokio::sync::broadcast;

/// Number of batches that a slow listener may fall behind before it must read the log.
const CHANNEL_CAPACITY: usize = 256;
/// Number of batches that a slow listener to a single operation may fall behind. There may be thousands of
/// such listeners, and each buffer takes memory.
const OPERATION_CHANNEL_CAPACITY: usize = 16;
/// Number of operations with listeners that triggers the removal of unused channels.
const CHANNEL_CLEANUP_THRESHOLD: usize = 256;

/// Events from one batch of records.
pub(crate) struct EventBatch {
    pub operation: OperationId,
    /// Number of the last record before the batch. A listener that hasn't seen it has missed events.
    pub after: u64,
    /// Number of the last record in the batch.
    pub last: u64,
    pub events: Vec<Event>,
}

/// Broadcasts durable events to all listeners.
pub(crate) struct EventBroadcaster(Mutex<Option<Channels>>);

/// Channels of the listeners, one per operation, so that thousands of listeners can each follow one operation
/// and wake up only for its events.
struct Channels {
    all: broadcast::Sender<Arc<EventBatch>>,
    by_operation: HashMap<OperationId, broadcast::Sender<Arc<EventBatch>>>,
    /// Number of operations that triggers the removal of unused channels.
    cleanup_threshold: usize,
}

impl EventBroadcaster {
    pub fn new() -> Self {
        let all = broadcast::Sender::new(CHANNEL_CAPACITY);
        Self(Mutex::new(Some(Channels {
            all,
            by_operation: HashMap::new(),
            cleanup_threshold: CHANNEL_CLEANUP_THRESHOLD,
        })))
    }

    fn lock_channels(&self) -> MutexGuard<'_, Option<Channels>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Broadcasts a batch. Succeeds even without listeners.
    pub fn broadcast(&self, batch: EventBatch) {
        batch.events.iter().for_each(trace_event);
        let mut listeners = self.lock_channels();
        let Some(Channels { all, by_operation, .. }) = &mut *listeners else { return };
        let (operation, batch) = (batch.operation, Arc::new(batch));
        let is_left = by_operation.get(&operation).is_some_and(|one| one.send(Arc::clone(&batch)).is_err());
        if is_left {
            by_operation.remove(&operation);
        }
        let _ = all.send(batch);
    }

    /// Subscribes to all batches from now on. After the broadcaster is closed, the receiver gets none.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<EventBatch>> {
        match &*self.lock_channels() {
            Some(listeners) => listeners.all.subscribe(),
            None => broadcast::Sender::new(1).subscribe(),
        }
    }

    /// Subscribes to the batches of one operation from now on. After the broadcaster is closed, the receiver
    /// gets none.
    pub fn subscribe_to(&self, operation: OperationId) -> broadcast::Receiver<Arc<EventBatch>> {
        let mut listeners = self.lock_channels();
        let Some(Channels { by_operation, cleanup_threshold, .. }) = &mut *listeners else {
            return broadcast::Sender::new(1).subscribe();
        };
        if by_operation.len() >= *cleanup_threshold {
            by_operation.retain(|_, one| one.receiver_count() > 0);
            *cleanup_threshold = by_operation.len().saturating_mul(2).max(CHANNEL_CLEANUP_THRESHOLD);
        }
        by_operation
            .entry(operation)
            .or_insert_with(|| broadcast::Sender::new(OPERATION_CHANNEL_CAPACITY))
            .subscribe()
    }

    /// Returns the number of operations with a channel.
    pub fn entries(&self) -> usize {
        self.lock_channels().as_ref().map_or(0, |listeners| listeners.by_operation.len())
    }

    /// Closes all channels. Streams end after their last event.
    pub fn close(&self) {
        self.lock_channels().take();
    }
}

/// Writes one structured log line per event.
fn trace_event(event: &Event) {
    let (operation, application) = (event.operation.to_string(), event.application.as_str());
    let sequence = event.sequence;
    match &event.what {
        EventKind::StageChanged { to, .. } => {
            tracing::info!(operation, application, sequence, stage = to.name(), "stage changed");
        }
        EventKind::Task { object, phase, message } => {
            tracing::info!(operation, application, sequence, %object, %phase, message, "task ended");
        }
        EventKind::AttemptFailed { message, .. } => {
            tracing::warn!(operation, application, sequence, message, "attempt failed");
        }
        EventKind::DeadlineExceeded { of, message } => {
            tracing::warn!(operation, application, sequence, ?of, message, "deadline passed");
        }
        EventKind::ClaimChanged { message, .. } => {
            tracing::info!(operation, application, sequence, message, "claim changed");
        }
        EventKind::Finished { phase, message } => {
            tracing::info!(operation, application, sequence, %phase, message, "finished");
        }
        what => tracing::info!(operation, application, sequence, ?what, "event"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn batch(operation: OperationId, last: u64) -> EventBatch {
        EventBatch { operation, after: last.saturating_sub(1), last, events: Vec::new() }
    }

    fn id(number: u128) -> OperationId {
        OperationId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn a_listener_of_one_operation_receives_no_other_events() {
        let announcer = EventBroadcaster::new();
        let (mut all, mut one) = (announcer.subscribe(), announcer.subscribe_to(id(1)));
        let mut again = announcer.subscribe_to(id(1));
        announcer.broadcast(batch(id(2), 1));
        announcer.broadcast(batch(id(1), 1));
        assert_eq!([all.try_recv().unwrap().operation, all.try_recv().unwrap().operation], [id(2), id(1)]);
        for one in [&mut one, &mut again] {
            assert_eq!(one.try_recv().unwrap().operation, id(1));
            assert!(matches!(one.try_recv(), Err(TryRecvError::Empty)));
        }
        announcer.close();
        announcer.broadcast(batch(id(1), 2));
        assert!(matches!(one.try_recv(), Err(TryRecvError::Closed)));
        assert!(matches!(announcer.subscribe_to(id(1)).try_recv(), Err(TryRecvError::Closed)));
    }

    #[test]
    fn unused_channels_are_removed() {
        let announcer = EventBroadcaster::new();
        let count = || announcer.lock_channels().as_ref().map_or(0, |listeners| listeners.by_operation.len());
        drop(announcer.subscribe_to(id(0)));
        announcer.broadcast(batch(id(0), 1));
        assert_eq!(count(), 0, "sent without listeners");
        for number in 1..10_000 {
            drop(announcer.subscribe_to(id(number)));
        }
        assert!(count() <= CHANNEL_CLEANUP_THRESHOLD);
        let kept: Vec<_> = (1..1_000).map(|number| announcer.subscribe_to(id(number))).collect();
        drop(announcer.subscribe_to(id(2_000)));
        assert!(count() >= kept.len());
    }
}
