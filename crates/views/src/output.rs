//! Documents that describe the output of running hooks. Their format is a stable interface, described in
//! `docs/reference/json-output.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_executor::{Output, OutputSource};
use tidegate_model::{ObjectKey, Timestamp};

/// A line of hook output, or a note about the output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputDocument {
    /// Kind of the item.
    pub kind: OutputKind,
    /// The hook; absent if the item applies to all hooks.
    pub hook: Option<ObjectKey>,
    /// The hook's pod; absent for a note.
    pub pod: Option<String>,
    /// Container in the pod; absent for a note.
    pub container: Option<String>,
    /// Time of the line.
    pub at: Option<Timestamp>,
    /// Number of omitted lines.
    pub lines: Option<u64>,
    /// The line as it was written, or the note. The operation's Secret values are masked.
    pub text: String,
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// A line that a container has written.
    Line,
    /// Lines were omitted because the receiver was too slow.
    Omitted,
    /// A note that explains why output is missing.
    Note,
}

impl OutputKind {
    /// Returns the kind in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Omitted => "omitted",
            Self::Note => "note",
        }
    }
}

impl From<Output> for OutputDocument {
    fn from(output: Output) -> Self {
        let of = |kind, OutputSource { hook, pod, container }: OutputSource, text| Self {
            kind,
            hook: Some(hook),
            pod: Some(pod),
            container: Some(container),
            at: None,
            lines: None,
            text,
        };
        match output {
            Output::Line { source, at, text } => Self { at: Some(at), ..of(OutputKind::Line, source, text) },
            Output::Dropped { source, lines } => {
                let words = if lines == 1 { "line" } else { "lines" };
                let text = format!("… {lines} {words} omitted");
                Self { lines: Some(lines), ..of(OutputKind::Omitted, source, text) }
            }
            Output::Note { hook, message } => Self {
                kind: OutputKind::Note,
                hook,
                pod: None,
                container: None,
                at: None,
                lines: None,
                text: message,
            },
        }
    }
}
