//! YAML and JSON, parsed like kubectl and Argo CD do. The parser is a port of libyaml, which is less strict
//! than YAML 1.2: a quoted scalar, for example, can continue at any column. Plain scalars are resolved
//! according to YAML 1.1. saphyr and `serde_yaml` resolve them according to YAML 1.2, so `on` stays a string
//! (<https://github.com/saphyr-rs/saphyr/issues/21>), and `serde_yaml` doesn't report lines.
//!
//! ```text
//! text ─ Cursor ─▶ characters ─ Scanner ─▶ tokens ─ Composer ─▶ nodes with lines
//! ```

mod anchors_and_tags;
mod compose;
mod cursor;
pub mod json;
mod maps;
mod node;
mod resolve;
mod scalars;
mod scanner;
mod token;

use serde_json::Value;

pub use node::{Content, Node};

/// Size limits for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of values: maps, lists, keys and scalars.
    pub nodes: usize,
    /// Maximum nesting of maps and lists. Parsing is recursive, so this also limits the stack usage.
    pub depth: usize,
    /// Maximum number of values that aliases (`*name`) may add.
    pub alias_expansion: usize,
}

impl Default for Limits {
    /// Returns limits far beyond the largest installation manifests in use (2 MB, 100,000 values).
    fn default() -> Self {
        Self { nodes: 5_000_000, depth: 128, alias_expansion: 100_000 }
    }
}

/// Cause of a parsing problem. Each message explains how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemCause {
    /// The text isn't YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// Parser message, without the position.
        message: String,
    },
    /// The text isn't JSON.
    #[error("not valid JSON: {message}")]
    Json {
        /// Parser message, without the position.
        message: String,
    },
    /// A map contains the same key twice.
    #[error("duplicate key {key:?} in the same map, on lines {first} and {second}; remove one of them")]
    DuplicateKey {
        /// The key, as written.
        key: String,
        /// Line of the first occurrence, starting at 1.
        first: u64,
        /// Line of the second occurrence, starting at 1.
        second: u64,
    },
    /// Maps and lists are nested beyond the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// Maximum number of levels.
        limit: usize,
    },
    /// Aliases expand to far more values than the text contains.
    #[error("the aliases (`*name`) expand to {what}; replace the aliases with their values")]
    AliasBomb {
        /// The exceeded limit.
        what: String,
    },
    /// Another limit was exceeded, such as the number of nodes.
    #[error("too large: {what}; split the file")]
    TooMuch {
        /// The exceeded limit.
        what: String,
    },
}

/// A problem in a document, along with its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct Problem {
    /// Line number, starting at 1.
    pub line: u64,
    /// Cause of the problem, boxed because every level of the recursive parser returns this type.
    pub cause: Box<ProblemCause>,
}

impl Problem {
    fn new(line: u64, cause: ProblemCause) -> Self {
        Self { line, cause: Box::new(cause) }
    }

    fn syntax(line: u64, message: impl Into<String>) -> Self {
        Self::new(line, ProblemCause::Syntax { message: message.into() })
    }
}

/// A document and its duplicate keys. For each duplicate key, the node contains the first value.
#[derive(Debug)]
pub struct Document {
    /// Root node.
    pub node: Node,
    /// Duplicate keys, one problem per repetition.
    pub duplicates: Vec<Problem>,
}

/// Parses text with at most one document; empty text is null. Text that looks like JSON is parsed as JSON or,
/// failing that, as YAML.
pub fn parse_value(text: &str, limits: &Limits) -> Result<Value, Problem> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let mut values = if is_json { json::parse_values(text, limits).unwrap_or_default() } else { Vec::new() };
    let document = match values.pop().filter(|_| values.is_empty()) {
        Some(Ok(document)) => document,
        // In YAML, a number too large for JSON is a string.
        _ => parse_document(text.strip_prefix('\u{feff}').unwrap_or(text), limits)?,
    };
    match document.duplicates.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(document.node.into_value()),
    }
}

/// Parses text that contains at most one YAML document.
pub fn parse_document(text: &str, limits: &Limits) -> Result<Document, Problem> {
    check_characters(text)?;
    compose::Composer::new(text, limits).compose_document()
}

/// Rejects control characters, which YAML doesn't allow even in comments.
fn check_characters(text: &str) -> Result<(), Problem> {
    let refused = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => c.is_control(),
    };
    // Fast path: nearly all manifests are ASCII.
    if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        return Ok(());
    }
    let Some((at, found)) = text.char_indices().find(|(_, c)| refused(*c)) else { return Ok(()) };
    let before = text.get(..at).unwrap_or_default();
    let line = u64::try_from(before.matches('\n').count()).unwrap_or(u64::MAX).saturating_add(1);
    let message =
        format!("control character {found:?} is not allowed; write it as an escape in double quotes");
    Err(Problem::syntax(line, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares randomly damaged documents with recorded results. Rejections come from PyYAML 6.0.3 on
    /// libyaml 0.2.5. Values come from Go's parser, which has the same grammar as libyaml.
    #[test]
    fn damaged_documents_are_read_as_libyaml_reads_them() {
        for row in include_str!("../tests/data/libyaml.jsonl").lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            let text = row["text"].as_str().unwrap();
            match parse_document(text, &Limits::default()) {
                Ok(document) if document.duplicates.is_empty() => {
                    assert_eq!(row.get("value"), Some(&document.node.into_value()), "{text:?}");
                }
                Ok(_) => assert_eq!(row["duplicate"], true, "{text:?}"),
                Err(problem) => assert_eq!(row["refused"], true, "{text:?}: {}", problem.cause),
            }
        }
    }
}
