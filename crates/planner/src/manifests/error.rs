use std::fmt;

use tidegate_model::InvalidObject;
use tidegate_yaml::Cause;

use crate::text::escape;

/// What is wrong with a manifest file, and where.
///
/// Prints as `shop/api.yaml:12: Deployment shop/api: metadata.name is missing; …`. Whatever comes from the file is
/// escaped, so the text may go to a terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line of the cause, from 1.
    pub line: u64,
    /// Which document of the file, from 1; empty documents are not counted. 0 for the whole file.
    pub document: usize,
    /// The object, where it is known: `Deployment shop/api`; in quotes a name that cannot be one: `Deployment "shop/api"`.
    pub object: Option<String>,
    /// What is wrong, without where.
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

impl From<Cause> for ManifestCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Syntax { message } => Self::Syntax { message },
            Cause::Json { message } => Self::Json { message },
            Cause::DuplicateKey { key, first, second } => Self::DuplicateKey { key, first, second },
            Cause::TooDeep { limit } => Self::TooDeep { limit },
            Cause::AliasBomb { what } => Self::AliasBomb { what },
            Cause::TooMuch { what } => Self::TooMuch { what },
        }
    }
}

impl ManifestCause {
    /// The same in a file where so many lines come before the document.
    pub(super) fn after(self, lines_before: u64) -> Self {
        match self {
            Self::DuplicateKey { key, first, second } => {
                Self::DuplicateKey { key, first: first + lines_before, second: second + lines_before }
            }
            other => other,
        }
    }
}

/// The ways in which a manifest can be wrong. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestCause {
    /// The file has more bytes than allowed.
    #[error(
        "the file has {bytes} bytes, more than the {limit} allowed; split it, or leave out what is not a manifest"
    )]
    TooLarge {
        /// Size of the file.
        bytes: u64,
        /// How many bytes it may have.
        limit: u64,
    },
    /// The file is text in another encoding.
    #[error("the file is {encoding}; save it as UTF-8")]
    Encoding {
        /// Which encoding it seems to be.
        encoding: &'static str,
    },
    /// Bytes that are not UTF-8.
    #[error(
        "the file is not UTF-8 text (first wrong byte at offset {offset}); save it as UTF-8, or leave it out"
    )]
    NotUtf8 {
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// The text is not YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// What the parser says, without the place.
        message: String,
    },
    /// The text of a `.json` file is not JSON.
    #[error("not valid JSON: {message}")]
    Json {
        /// What the parser says, without the place.
        message: String,
    },
    /// The same key twice in one map.
    #[error("the key {key:?} is given twice in one map, on lines {first} and {second}; remove one of them")]
    DuplicateKey {
        /// The key, as it was written.
        key: String,
        /// Line of the first, from 1.
        first: u64,
        /// Line of the other.
        second: u64,
    },
    /// Maps and lists inside each other beyond the limit.
    #[error("nested deeper than {limit} levels; a Kubernetes object never needs that")]
    TooDeep {
        /// How many levels there may be.
        limit: usize,
    },
    /// Aliases that expand to far more than the file holds.
    #[error("its aliases (`*name`) expand to too much ({what}); write the values out")]
    AliasBomb {
        /// Which limit was reached.
        what: String,
    },
    /// A limit of another sort, such as that of nodes.
    #[error("too big to read safely: {what}; split the file")]
    TooMuch {
        /// Which limit was reached.
        what: String,
    },
    /// Not a Kubernetes object.
    #[error("{0}")]
    Object(#[from] InvalidObject),
    /// `items` of a List is not a list.
    #[error("field items of a {kind} must be a list, found {found}")]
    ItemsNotAList {
        /// Kind of the list.
        kind: String,
        /// What was found: `a map`, `a string` …
        found: &'static str,
    },
    /// Neither a name nor a prefix for one.
    #[error(
        "metadata.name is missing; name the object ({})",
        if *generated { "only hooks may have metadata.generateName instead" }
        else { "hooks may have metadata.generateName instead" }
    )]
    MissingName {
        /// There is a prefix, but the object is no hook.
        generated: bool,
    },
    /// A field the cluster would refuse.
    #[error("{field} {value:?} is not valid: {rule}")]
    InvalidField {
        /// Path of the field.
        field: &'static str,
        /// The value, as it was written.
        value: String,
        /// The rule of Kubernetes that it breaks, for people.
        rule: &'static str,
    },
    /// A wave that does not fit into 64 bits.
    #[error(
        "the wave {value:?} of annotation {annotation} is beyond 64 bits; use a number between -9223372036854775808 and 9223372036854775807"
    )]
    WaveOverflow {
        /// Name of the annotation: `argocd.argoproj.io/sync-wave` or `helm.sh/hook-weight`.
        annotation: &'static str,
        /// The value, as it was written.
        value: String,
    },
}
