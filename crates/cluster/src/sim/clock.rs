//! Where a [`SimCluster`](super::SimCluster) gets its time from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_model::Timestamp;
use tokio::time::Instant;

/// Where the time comes from. The pure core needs none of these: it is told the time with every call.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    /// How much later this clock is than its source.
    ahead: Duration,
}

#[derive(Clone)]
enum Source {
    Wall(Arc<dyn Fn() -> Timestamp + Send + Sync>),
    Tokio { base: Timestamp, start: Instant },
}

impl Clock {
    /// The time of day, read by the caller's function.
    pub fn wall(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::of(Source::Wall(Arc::new(read)))
    }

    /// The time of the tokio runtime, which tests may pause: it is `base` now.
    pub fn tokio(base: Timestamp) -> Self {
        Self::of(Source::Tokio { base, start: Instant::now() })
    }

    fn of(source: Source) -> Self {
        Self { source, ahead: Duration::ZERO }
    }

    /// The present moment of the simulated cluster, with what it was set ahead.
    pub fn now(&self) -> Timestamp {
        let now = match &self.source {
            Source::Wall(read) => read(),
            Source::Tokio { base, start } => *base + start.elapsed(),
        };
        now + self.ahead
    }

    /// The same, but not earlier than `time` from now on. In a cluster that was used with a clock that is ahead of this
    /// one, time would stand still until then.
    pub(crate) fn not_before(self, time: Timestamp) -> Self {
        let ahead = self.ahead.saturating_add(time.since(self.now()));
        Self { ahead, ..self }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::Wall(_) => "Clock::wall",
            Source::Tokio { .. } => "Clock::tokio",
        })
    }
}
