use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{OperationId, Timestamp};
use uuid::{NoContext, Uuid};

/// Where the engine reads the time. The machine below never does.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The wall clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The clock of the tokio runtime, starting at a given time. In tests it is virtual: it stands still while anything
/// is at work and jumps to the next timer.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl RuntimeClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.start + tokio::time::Instant::now().saturating_duration_since(self.origin)
    }
}

/// Gives each new operation its id.
pub type IdSource = Arc<dyn Fn(Timestamp) -> OperationId + Send + Sync>;

/// Random UUIDv7 ids.
pub(crate) fn random_ids() -> IdSource {
    Arc::new(|now| {
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
        let time = uuid::Timestamp::from_unix(NoContext, since_epoch.as_secs(), since_epoch.subsec_nanos());
        OperationId(Uuid::new_v7(time))
    })
}
