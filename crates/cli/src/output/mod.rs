//! What the command prints: text, documents, pictures.

mod machine;
mod printer;
mod table;

pub mod application;
pub mod diagram;
pub mod diff;
pub mod events;
pub mod facts;
pub mod hooks;
pub mod operation;
pub mod picture;
pub mod plan;
pub mod plans;
pub mod runs;
pub mod set;
pub mod set_plan;
pub mod standing;
pub mod text;

pub use machine::document;
pub use printer::{Printer, Talk};
pub use table::table;
pub use text::{Style, Text, escape, one_line};

/// Of what is written down in a file that its deletion removes.
pub const DOCUMENT_GOES: &str = "its document is removed from the folder that is served; whoever needs it again takes it from where it is kept";

/// `1 retry`, `2 retries`.
pub fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
