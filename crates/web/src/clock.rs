//! What the time is, for what ends at a time.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock: that of the machine, unless another one is given.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Default for Clock {
    fn default() -> Self {
        Self::new(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// One that says how many seconds have passed since 1970.
    pub fn new(says: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(says))
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> u64 {
        (self.0)()
    }
}

fn now() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "tokens end at a time of the clock, however long a process sleeps"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
