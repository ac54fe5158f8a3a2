//! Counters of the plans for comparisons and operations.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of plans since the engine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Plans that comparisons and operations computed.
    pub computed: u64,
    /// Plans that operations took over from comparisons.
    pub reused: u64,
}

#[derive(Default)]
pub(crate) struct PlanCounters {
    computed: AtomicU64,
    reused: AtomicU64,
}

impl PlanCounters {
    pub fn count_plan(&self, is_reused: bool) {
        let counter = if is_reused { &self.reused } else { &self.computed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> PlanCounts {
        let [computed, reused] = [&self.computed, &self.reused].map(|one| one.load(Ordering::Relaxed));
        PlanCounts { computed, reused }
    }
}
