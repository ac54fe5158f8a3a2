//! Restart policy for actors: a maximum number of restarts within a time window, with increasing delays.
//!
//! The engine soon gives up on an actor that fails on every start. It never gives up on one that fails once a
//! day, however long it runs.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Time window in which failures count.
pub(crate) const RESTART_WINDOW: Duration = Duration::from_secs(300);
/// Maximum number of failures of an operation's or machine's actor within [`RESTART_WINDOW`] before the
/// operation or machine ends with an error.
pub(crate) const RESTARTS_MAX: usize = 3;
/// Delay before the first restart within a window. Doubles with each further restart.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// Maximum delay before a restart.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// Times of the failures within the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// Adds a failure. Returns the number of failures within the window, including this one.
    pub fn record_failure(&mut self, now: Instant) -> usize {
        self.0.retain(|at| now.saturating_duration_since(*at) < RESTART_WINDOW);
        self.0.push_back(now);
        self.0.len()
    }

    /// Returns the delay before the next restart.
    pub fn delay(&self) -> Duration {
        let doubled = u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX);
        DELAY_MIN.saturating_mul(2_u32.saturating_pow(doubled)).min(DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, RESTART_WINDOW, Restarts};

    #[tokio::test(start_paused = true)]
    async fn only_failures_within_the_window_count() {
        let mut restarts = Restarts::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            restarts.record_failure(Instant::now());
            waits.push(restarts.delay().as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        tokio::time::advance(RESTART_WINDOW.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(restarts.record_failure(Instant::now()), 11);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(restarts.record_failure(Instant::now()), 2);
        assert_eq!(restarts.delay(), Duration::from_millis(200));
        tokio::time::advance(RESTART_WINDOW).await;
        assert_eq!(restarts.record_failure(Instant::now()), 1);
    }
}
