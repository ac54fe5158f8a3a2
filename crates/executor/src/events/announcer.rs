//! Tells what is durable to whoever listens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_lifecycle::operation::{Event, EventKind};
use tidegate_model::OperationId;
use tokio::sync::broadcast;

/// Batches a slow listener may be behind before it reads the log instead.
const TOLD_KEPT: usize = 256;
/// The same of those who listen to one operation. There may be thousands, and each has its place.
const TOLD_OF_ONE: usize = 16;
/// With so many operations listened to, it is looked to which nobody does any more.
const LISTENED_MANY: usize = 256;

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
pub(crate) struct Announcer(Mutex<Option<Listeners>>);

/// Who listens. Those of one operation hear nothing of others: thousands may follow one each, and be woken by its news alone.
struct Listeners {
    all: broadcast::Sender<Arc<Told>>,
    of_one: HashMap<OperationId, broadcast::Sender<Arc<Told>>>,
    /// With more operations than this, those to which nobody listens any more are forgotten.
    most: usize,
}

impl Announcer {
    pub fn new() -> Self {
        let all = broadcast::Sender::new(TOLD_KEPT);
        Self(Mutex::new(Some(Listeners { all, of_one: HashMap::new(), most: LISTENED_MANY })))
    }

    fn listeners(&self) -> MutexGuard<'_, Option<Listeners>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a batch. Nobody listening is fine.
    pub fn tell(&self, told: Told) {
        told.events.iter().for_each(trace);
        let mut listeners = self.listeners();
        let Some(Listeners { all, of_one, .. }) = &mut *listeners else { return };
        let (operation, told) = (told.operation, Arc::new(told));
        let is_left = of_one.get(&operation).is_some_and(|one| one.send(Arc::clone(&told)).is_err());
        if is_left {
            of_one.remove(&operation);
        }
        let _ = all.send(told);
    }

    /// What is told from now on; nothing once it is closed.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Told>> {
        match &*self.listeners() {
            Some(listeners) => listeners.all.subscribe(),
            None => broadcast::Sender::new(1).subscribe(),
        }
    }

    /// What is told of one operation from now on; nothing once it is closed.
    pub fn listen_to(&self, operation: OperationId) -> broadcast::Receiver<Arc<Told>> {
        let mut listeners = self.listeners();
        let Some(Listeners { of_one, most, .. }) = &mut *listeners else {
            return broadcast::Sender::new(1).subscribe();
        };
        if of_one.len() >= *most {
            of_one.retain(|_, one| one.receiver_count() > 0);
            *most = of_one.len().saturating_mul(2).max(LISTENED_MANY);
        }
        of_one.entry(operation).or_insert_with(|| broadcast::Sender::new(TOLD_OF_ONE)).subscribe()
    }

    /// Nothing more is told: streams end when they have told everything.
    pub fn close(&self) {
        self.listeners().take();
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn told(operation: OperationId, last: u64) -> Told {
        Told { operation, after: last.saturating_sub(1), last, events: Vec::new() }
    }

    fn id(number: u128) -> OperationId {
        OperationId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn who_listens_to_one_operation_hears_of_no_other() {
        let announcer = Announcer::new();
        let (mut all, mut one) = (announcer.listen(), announcer.listen_to(id(1)));
        let mut again = announcer.listen_to(id(1));
        announcer.tell(told(id(2), 1));
        announcer.tell(told(id(1), 1));
        assert_eq!([all.try_recv().unwrap().operation, all.try_recv().unwrap().operation], [id(2), id(1)]);
        for one in [&mut one, &mut again] {
            assert_eq!(one.try_recv().unwrap().operation, id(1));
            assert!(matches!(one.try_recv(), Err(TryRecvError::Empty)));
        }
        announcer.close();
        announcer.tell(told(id(1), 2));
        assert!(matches!(one.try_recv(), Err(TryRecvError::Closed)));
        assert!(matches!(announcer.listen_to(id(1)).try_recv(), Err(TryRecvError::Closed)));
    }

    #[test]
    fn nobody_is_remembered_who_listens_no_more() {
        let announcer = Announcer::new();
        let count = || announcer.listeners().as_ref().map_or(0, |listeners| listeners.of_one.len());
        drop(announcer.listen_to(id(0)));
        announcer.tell(told(id(0), 1));
        assert_eq!(count(), 0, "told, and nobody there");
        for number in 1..10_000 {
            drop(announcer.listen_to(id(number)));
        }
        assert!(count() <= LISTENED_MANY);
        let kept: Vec<_> = (1..1_000).map(|number| announcer.listen_to(id(number))).collect();
        drop(announcer.listen_to(id(2_000)));
        assert!(count() >= kept.len());
    }
}
