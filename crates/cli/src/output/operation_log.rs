//! An operation's recorded events, for `ops log`.

use tidegate_lifecycle::operation::OperationEvent;
use tidegate_views::log_entries::LogEntryDocument;
pub use tidegate_views::log_entries::documents;

use super::table::table;
use super::text::Text;

/// Formats the events as a table.
pub fn text(first: u64, events: &[OperationEvent], width: Option<u16>) -> Text {
    let rows = documents(first, events).into_iter().map(|LogEntryDocument { sequence, at, text, .. }| {
        let at = at.map(|at| at.to_string()).unwrap_or_default();
        [sequence.to_string(), at, text]
    });
    table(["NUMBER", "TIME", "EVENT"], rows, width)
}
