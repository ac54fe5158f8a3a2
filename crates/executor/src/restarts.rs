//! How often an actor may be started again: so many times within a window, each time after a longer wait.
//!
//! A fault that comes with every start is given up soon; one that comes once a day never is, however long the engine runs.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The window: failures that are longer ago do not count.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// How often the actor of one operation, or another machine, may fail within [`WINDOW`] before that itself ends in an error.
pub(crate) const RESTARTS_MAX: usize = 3;
/// Wait before the first restart within a window; doubled with each that follows.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// Longest wait before a restart.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// When an actor failed, as far as that still counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// Counts a failure; returns how many there were within the window, this one included.
    pub fn count(&mut self, now: Instant) -> usize {
        self.0.retain(|at| now.saturating_duration_since(*at) < WINDOW);
        self.0.push_back(now);
        self.0.len()
    }

    /// How long to wait before the actor is started again.
    pub fn wait(&self) -> Duration {
        let doubled = u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX);
        WAIT_MIN.saturating_mul(2_u32.saturating_pow(doubled)).min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Restarts, WINDOW};

    #[tokio::test(start_paused = true)]
    async fn only_failures_within_the_window_count() {
        let mut restarts = Restarts::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            restarts.count(Instant::now());
            waits.push(restarts.wait().as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        tokio::time::advance(WINDOW.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(restarts.count(Instant::now()), 11);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(restarts.count(Instant::now()), 2);
        assert_eq!(restarts.wait(), Duration::from_millis(200));
        tokio::time::advance(WINDOW).await;
        assert_eq!(restarts.count(Instant::now()), 1);
    }
}
