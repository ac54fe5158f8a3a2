//! Absence of files and documents that have disappeared.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum duration of an undisturbed absence before the file or document is considered deleted.
pub(in super::super) const GRACE_PERIOD: Duration = Duration::from_millis(900);
/// Duration after which an absent file or document is considered deleted despite disturbances.
pub(in super::super) const GRACE_PERIOD_MAX: Duration = Duration::from_secs(10);

/// Absence of a file or document since the first poll that didn't find it.
#[derive(Default)]
pub(super) struct Absence {
    first_missed: Option<Instant>,
    /// Start of the current period without disturbances.
    undisturbed_since: Option<Instant>,
}

impl Absence {
    /// Records a poll that didn't find the file or document, with the poll's start and end time. If
    /// `is_disturbed` is true, the file or document may still exist. Returns true if the absence is now
    /// certain: after the grace period without disturbances, or after the maximum time.
    pub fn record_missing(
        &mut self,
        (began, now): (Instant, Instant),
        is_disturbed: bool,
        (patience, at_last): (Duration, Duration),
    ) -> bool {
        let is_late = |since: Option<Instant>, patience| {
            since.is_some_and(|since| began.duration_since(since) >= patience)
        };
        let is_sure =
            !is_disturbed && is_late(self.undisturbed_since, patience) || is_late(self.first_missed, at_last);
        self.first_missed.get_or_insert(now);
        self.undisturbed_since = self.undisturbed_since.filter(|_| !is_disturbed).or(Some(now));
        is_sure
    }

    /// Records that the folder couldn't be read for a while.
    pub fn reset_undisturbed(&mut self) {
        self.undisturbed_since = None;
    }
}
