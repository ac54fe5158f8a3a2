//! Counter of task visits, for tests that measure the amount of work.

use std::cell::Cell;

mod tests;

thread_local! {
    static VISIT_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Records that a task was visited.
pub(super) fn record_visit() {
    VISIT_COUNT.set(VISIT_COUNT.get() + 1);
}

/// Returns the number of task visits during `work`.
fn count_visits(work: impl FnOnce()) -> u64 {
    let before = VISIT_COUNT.get();
    work();
    VISIT_COUNT.get() - before
}
