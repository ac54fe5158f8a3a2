//! When what is not found any more is gone.

use std::time::Duration;

use tokio::time::Instant;

/// What is not there any more is gone when it is still not there so long after that was seen.
pub(in super::super) const GONE_AFTER: Duration = Duration::from_millis(900);
/// After so long it is gone, whatever goes on around it.
pub(in super::super) const GONE_AT_LAST: Duration = Duration::from_secs(10);

/// Since when something is not found.
#[derive(Default)]
pub(super) struct Absence {
    first: Option<Instant>,
    /// Since when nothing has happened around it that speaks against it.
    since: Option<Instant>,
}

impl Absence {
    /// It was not found by one more look, which began and ended then. `is_disturbed`: something was going on around it, so it may
    /// be there. Says whether it is sure by now: after some time without that, or after the longest.
    pub fn is_sure(
        &mut self,
        (began, now): (Instant, Instant),
        is_disturbed: bool,
        (patience, at_last): (Duration, Duration),
    ) -> bool {
        let is_late = |since: Option<Instant>, patience| {
            since.is_some_and(|since| began.duration_since(since) >= patience)
        };
        let is_sure = !is_disturbed && is_late(self.since, patience) || is_late(self.first, at_last);
        self.first.get_or_insert(now);
        self.since = self.since.filter(|_| !is_disturbed).or(Some(now));
        is_sure
    }

    /// Nothing could be seen for a while.
    pub fn forget_rest(&mut self) {
        self.since = None;
    }
}
