//! Time source of a [`SimCluster`](super::SimCluster).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_model::Timestamp;
use tokio::time::Instant;

/// A time source. The pure core doesn't need a clock, because callers pass the time to every function.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    /// Lead of this clock over its source.
    offset: Duration,
}

#[derive(Clone)]
enum Source {
    Wall(Arc<dyn Fn() -> Timestamp + Send + Sync>),
    Tokio { base: Timestamp, start: Instant },
}

impl Clock {
    /// Creates a clock that calls `read` to get the time of day.
    pub fn wall(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::from_source(Source::Wall(Arc::new(read)))
    }

    /// Creates a clock based on the tokio runtime's time, which tests can pause. The clock starts at `base`.
    pub fn tokio(base: Timestamp) -> Self {
        Self::from_source(Source::Tokio { base, start: Instant::now() })
    }

    fn from_source(source: Source) -> Self {
        Self { source, offset: Duration::ZERO }
    }

    /// Returns the current time of the simulated cluster, including its offset.
    pub fn now(&self) -> Timestamp {
        let now = match &self.source {
            Source::Wall(read) => read(),
            Source::Tokio { base, start } => *base + start.elapsed(),
        };
        now + self.offset
    }

    /// Returns this clock, moved forward to `time` if it is behind. Otherwise, a cluster last used with a
    /// clock further ahead would stand still until this clock caught up.
    pub(crate) fn starting_no_earlier_than(self, time: Timestamp) -> Self {
        let offset = self.offset.saturating_add(time.since(self.now()));
        Self { offset, ..self }
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
