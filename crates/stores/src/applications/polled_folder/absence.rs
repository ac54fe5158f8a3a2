//! Absence of files and documents that have disappeared.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum undisturbed absence until a file or document counts as deleted.
pub(in super::super) const GRACE_PERIOD: Duration = Duration::from_millis(900);
/// Maximum absence until a file or document counts as deleted despite disturbances.
pub(in super::super) const GRACE_PERIOD_MAX: Duration = Duration::from_secs(10);

/// Grace periods until a missing file or document counts as deleted.
#[derive(Clone, Copy)]
pub(super) struct GracePeriods {
    /// Minimum undisturbed absence.
    pub undisturbed: Duration,
    /// Maximum absence, despite disturbances.
    pub total: Duration,
}

/// Absence of a file or document since the first poll that didn't find it.
#[derive(Default)]
pub(super) struct Absence {
    first_missed: Option<Instant>,
    /// Start of the current period without disturbances.
    undisturbed_since: Option<Instant>,
}

impl Absence {
    /// Records a poll without the file or document, with the poll's start and end. If `is_disturbed` is true,
    /// it may still exist. Returns true once the absence is certain: after the undisturbed grace period, or
    /// after the maximum time.
    pub fn record_missing(
        &mut self,
        began: Instant,
        now: Instant,
        is_disturbed: bool,
        grace_periods: GracePeriods,
    ) -> bool {
        let GracePeriods { undisturbed, total } = grace_periods;
        let is_late = |since: Option<Instant>, grace_period| {
            since.is_some_and(|since| began.duration_since(since) >= grace_period)
        };
        let is_sure = !is_disturbed && is_late(self.undisturbed_since, undisturbed)
            || is_late(self.first_missed, total);
        self.first_missed.get_or_insert(now);
        self.undisturbed_since = self.undisturbed_since.filter(|_| !is_disturbed).or(Some(now));
        is_sure
    }

    /// Records a period when the folder was unreadable.
    pub fn reset_undisturbed(&mut self) {
        self.undisturbed_since = None;
    }
}
