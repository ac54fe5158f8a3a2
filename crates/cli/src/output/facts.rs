//! The recorded facts of an operation, for `ops log`.

use tidegate_lifecycle::operation::Fact;
use tidegate_service::documents::facts::FactDocument;
pub use tidegate_service::documents::facts::documents;

use super::table::table;
use super::text::Text;

/// The facts as a table.
pub fn text(first: u64, facts: &[Fact], width: Option<u16>) -> Text {
    let rows = documents(first, facts).into_iter().map(|FactDocument { sequence, at, text, .. }| {
        let at = at.map(|at| at.to_string()).unwrap_or_default();
        [sequence.to_string(), at, text]
    });
    table(["NUMBER", "AT", "WHAT"], rows, width)
}
