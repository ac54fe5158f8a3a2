//! Clock that determines when tokens and waits expire.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock, by default the system's.
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
    /// Creates a clock from a function that returns seconds since 1970.
    pub fn new(says: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(says))
    }

    /// Returns the number of seconds since 1970.
    pub fn seconds(&self) -> u64 {
        (self.0)()
    }
}

fn now() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "tokens expire by the wall clock, however long the process sleeps"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
