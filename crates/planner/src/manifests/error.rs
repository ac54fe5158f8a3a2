use std::fmt;

use tidegate_model::InvalidObject;
use tidegate_yaml::ProblemCause;

use crate::text::escape;

/// Error in a manifest file, with its location.
///
/// Displayed as `shop/api.yaml:12: Deployment shop/api: metadata.name is missing; …`. Content from the file
/// is escaped, so the text is safe to print on a terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// File name as specified by the caller.
    pub file: String,
    /// Line of the error, starting at 1.
    pub line: u64,
    /// Number of the document in the file, counting from 1 and skipping empty documents. 0 if the error
    /// concerns the whole file.
    pub document: usize,
    /// Affected object, if known, such as `Deployment shop/api`. Invalid names are quoted: `Deployment
    /// "shop/api"`.
    pub object: Option<String>,
    /// Error without its location.
    pub cause: ManifestCause,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", escape(&self.file), self.line)?;
        if let Some(object) = &self.object {
            write!(f, "{}: ", escape(object))?;
        }
        f.write_str(&escape(&self.cause.to_string()))
    }
}

impl ManifestCause {
    /// Shifts the error down by the lines that precede its document.
    pub(super) fn shift_lines(self, lines_before: u64) -> Self {
        match self {
            Self::Yaml(ProblemCause::DuplicateKey { key, first, second }) => {
                ProblemCause::DuplicateKey { key, first: first + lines_before, second: second + lines_before }
                    .into()
            }
            other => other,
        }
    }
}

fn describe_problem(problem: &ProblemCause) -> String {
    match problem {
        ProblemCause::TooDeep { .. } => format!("{problem}; flatten the manifest"),
        problem => problem.to_string(),
    }
}

/// Error in a manifest. The message says how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestCause {
    /// The file is too large.
    #[error(
        "the file is too large: {bytes} bytes (maximum: {limit}); split it, or remove content that is not a \
         manifest"
    )]
    TooLarge {
        /// Size of the file in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The file uses an unsupported text encoding.
    #[error("the file is {encoding}; save it as UTF-8")]
    Encoding {
        /// Encoding that was detected.
        encoding: &'static str,
    },
    /// The file is not valid UTF-8.
    #[error(
        "the file is not UTF-8 text (first invalid byte at offset {offset}); save it as UTF-8, or exclude it"
    )]
    NotUtf8 {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// The text is not valid YAML or JSON, or exceeds a limit.
    #[error("{}", describe_problem(.0))]
    Yaml(#[from] ProblemCause),
    /// The document is not a Kubernetes object.
    #[error("{0}")]
    Object(#[from] InvalidObject),
    /// The `items` field of a List is not a list.
    #[error("field `items` of a {kind} must be a list, found {found}")]
    ItemsNotAList {
        /// Kind of the list.
        kind: String,
        /// Actual type, such as `a map` or `a string`.
        found: &'static str,
    },
    /// The object has neither a name nor a name prefix, or may not use a prefix.
    #[error(
        "metadata.name is missing; set it ({})",
        if *generated { "only hooks may have metadata.generateName instead" }
        else { "hooks may have metadata.generateName instead" }
    )]
    MissingName {
        /// True if the object has a name prefix but isn't a hook.
        generated: bool,
    },
    /// The API server would reject the field's value.
    #[error("invalid {field} {value:?}: {rule}")]
    InvalidField {
        /// Path of the field.
        field: &'static str,
        /// The value as written in the file.
        value: String,
        /// The Kubernetes rule that the value violates.
        rule: &'static str,
    },
    /// The wave number doesn't fit into 64 bits.
    #[error(
        "wave {value:?} in the {annotation} annotation does not fit into 64 bits; use a number between \
         -9223372036854775808 and 9223372036854775807"
    )]
    WaveOverflow {
        /// Name of the annotation: `argocd.argoproj.io/sync-wave` or `helm.sh/hook-weight`.
        annotation: &'static str,
        /// The value as written in the file.
        value: String,
    },
}
