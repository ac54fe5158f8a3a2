//! Which operations a compaction reduces to their summaries: pure, and the same for every store.

use std::collections::BTreeMap;

use tidegate_model::OperationId;

use crate::Summary;

/// The finished operations beyond the newest `history` of their application. Open operations are never among them.
pub(crate) fn beyond_history<'a>(
    summaries: impl IntoIterator<Item = &'a Summary>,
    history: usize,
) -> Vec<OperationId> {
    let mut finished: BTreeMap<&str, Vec<&Summary>> = BTreeMap::new();
    for summary in summaries.into_iter().filter(|summary| summary.finished_at.is_some()) {
        finished.entry(&summary.application).or_default().push(summary);
    }
    let mut beyond = Vec::new();
    for mut operations in finished.into_values() {
        operations.sort_by_key(|summary| summary.operation);
        operations.reverse();
        beyond.extend(operations.iter().skip(history).map(|summary| summary.operation));
    }
    beyond.sort_unstable();
    beyond
}

/// Sorts summaries oldest first: by their ids, which are in the order in which operations came. The times in them are
/// those of clocks, which may have been wrong.
pub(crate) fn oldest_first(summaries: &mut [Summary]) {
    summaries.sort_by_key(|summary| summary.operation);
}
