//! What hooks write while they run, as documents. They are a stable interface, described in `docs/cli.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_executor::{Output, OutputSource};
use tidegate_model::{ObjectKey, Timestamp};

/// Something that is told of the output of hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputDocument {
    /// What it is.
    pub kind: OutputKind,
    /// The hook; nothing where it is about all of them.
    pub hook: Option<ObjectKey>,
    /// Its pod; of a note nothing.
    pub pod: Option<String>,
    /// The container of the pod; of a note nothing.
    pub container: Option<String>,
    /// When a line was written.
    pub at: Option<Timestamp>,
    /// How many lines are left out.
    pub lines: Option<u64>,
    /// The line as it was written, or what is to be said. Values of the operation's Secrets are masked.
    pub text: String,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// A line that a container has written.
    Line,
    /// Lines are left out, because they were not read fast enough.
    LeftOut,
    /// Something is not told, and why.
    Note,
}

impl OutputKind {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::LeftOut => "left-out",
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
            Output::LeftOut { source, lines } => {
                let words = if lines == 1 { "line" } else { "lines" };
                let text = format!("… {lines} {words} left out");
                Self { lines: Some(lines), ..of(OutputKind::LeftOut, source, text) }
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
