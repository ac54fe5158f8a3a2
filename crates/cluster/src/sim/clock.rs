//! Where a [`SimCluster`](super::SimCluster) gets its time from.

use std::fmt;
use std::sync::Arc;

use tidegate_model::Timestamp;
use tokio::time::Instant;

/// Where the time comes from. The pure core needs none of these: it is told the time with every call.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Wall(Arc<dyn Fn() -> Timestamp + Send + Sync>),
    Tokio { base: Timestamp, start: Instant },
}

impl Clock {
    /// The time of day, read by the caller's function.
    pub fn wall(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Wall(Arc::new(read)))
    }

    /// The time of the tokio runtime, which tests may pause: it is `base` now.
    pub fn tokio(base: Timestamp) -> Self {
        Self(Source::Tokio { base, start: Instant::now() })
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Wall(read) => read(),
            Source::Tokio { base, start } => *base + start.elapsed(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Wall(_) => "Clock::wall",
            Source::Tokio { .. } => "Clock::tokio",
        })
    }
}
