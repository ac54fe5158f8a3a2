//! Events of an operation, for `ops events`.

use tidegate_lifecycle::operation::Event;
use tidegate_views::events::EventDocument;
pub use tidegate_views::events::documents;

use super::text::{Style, Text, one_line};

/// Formats the events as lines, so that more can follow later.
pub fn text(events: &[Event]) -> Text {
    let mut text = Text::new();
    for EventDocument { sequence, at, text: words, .. } in documents(events) {
        let at = at.map(|at| at.to_string()).unwrap_or_default();
        text.add(Style::Dim, format!("{sequence:>6}  {at:24}  "));
        text.add(Style::Plain, one_line(&words));
        text.end_line();
    }
    text
}
