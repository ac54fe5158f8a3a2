//! Command output as text, JSON or YAML, diagrams and pictures.

mod encoding;
mod printer;
mod table;

pub mod application;
pub mod application_set;
pub mod appset_plan;
pub mod diagram;
pub mod diff;
pub mod events;
pub mod hooks;
pub mod idle_status;
pub mod operation;
pub mod operation_log;
pub mod picture;
pub mod plan;
pub mod plans;
pub mod runs;
pub mod text;

use tidegate_lifecycle::NextAction;
use tidegate_state::state_dir::with_command_arguments;

pub use encoding::encode_document;
pub use printer::{MessageStream, Printer};
pub use table::table;
pub use text::{Style, Text, escape, one_line};

/// Warning about a deletion that also deletes the resource's file.
pub const FILE_REMOVAL_WARNING: &str =
    "the document will be removed from the apps folder; keep a copy if you need it again";

/// Formats the last line of an explanation. Its commands select this process's state directory or service.
pub fn format_next_action(action: &NextAction) -> Text {
    let mut text = Text::new();
    text.add(Style::Accent, "next");
    text.add(Style::Plain, format!(": {}", one_line(&with_command_arguments(&action.to_string()))));
    text.end_line();
    text
}

/// Formats a count, such as `1 retry` or `2 retries`.
pub fn format_count(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
