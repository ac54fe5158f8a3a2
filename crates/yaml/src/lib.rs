//! YAML, and JSON, as kubectl and Argo CD read them. Its parser is a port of libyaml, which is laxer than YAML 1.2 (a text in quotes may go on
//! at any column) and gives texts without quotes the values of YAML 1.1.
//!
//! ```text
//! text ─ Cursor ─▶ characters ─ Scanner ─▶ tokens ─ Composer ─▶ nodes with lines
//! ```

mod compose;
mod cursor;
pub mod json;
mod maps;
mod names;
mod node;
mod resolve;
mod scalars;
mod scanner;
mod token;

use serde_json::Value;

pub use node::{Content, Node};

/// How much of a document is read before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Values: maps, lists, keys and scalars.
    pub nodes: usize,
    /// Maps and lists inside each other. Reading recurses, so this also keeps the stack small.
    pub depth: usize,
    /// Values that aliases (`*name`) may add.
    pub alias_expansion: usize,
}

impl Default for Limits {
    /// Room for the largest installation manifests in use (2 MB, 100,000 values) many times over.
    fn default() -> Self {
        Self { nodes: 5_000_000, depth: 128, alias_expansion: 100_000 }
    }
}

/// What can be wrong with a document. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The text is not YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// What the parser says, without the place.
        message: String,
    },
    /// The text is not JSON.
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
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// How many levels there may be.
        limit: usize,
    },
    /// Aliases that expand to far more than the text holds.
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
}

/// What is wrong with a document, and on which of its lines, from 1.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct Problem {
    /// The line.
    pub line: u64,
    /// In a box, because reading recurses, and every step on the way hands it on.
    pub cause: Box<Cause>,
}

impl Problem {
    fn new(line: u64, cause: Cause) -> Self {
        Self { line, cause: Box::new(cause) }
    }

    fn syntax(line: u64, message: impl Into<String>) -> Self {
        Self::new(line, Cause::Syntax { message: message.into() })
    }
}

/// A document, with the keys that it gives twice: of those, the first counts.
#[derive(Debug)]
pub struct Document {
    /// What it holds.
    pub node: Node,
    /// One problem for each key that was given before.
    pub duplicates: Vec<Problem>,
}

/// Reads a text that holds one document, or nothing, which is null. Where it begins as JSON does, and is JSON, it is read as that.
pub fn value(text: &str, limits: &Limits) -> Result<Value, Problem> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let mut values = if is_json { json::values(text, limits).unwrap_or_default() } else { Vec::new() };
    let document = match values.pop().filter(|_| values.is_empty()) {
        Some(Ok(document)) => document,
        // A number that is too large for JSON is a text in YAML.
        _ => parse(text.strip_prefix('\u{feff}').unwrap_or(text), limits)?,
    };
    match document.duplicates.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(document.node.into_value()),
    }
}

/// Reads the text of one document of a file.
pub fn parse(text: &str, limits: &Limits) -> Result<Document, Problem> {
    check_characters(text)?;
    compose::Composer::new(text, limits).document()
}

/// YAML allows no control characters, not even in comments.
fn check_characters(text: &str) -> Result<(), Problem> {
    let refused = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => c.is_control(),
    };
    // Manifests are nearly always ASCII, which is faster to look through.
    if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        return Ok(());
    }
    let Some((at, found)) = text.char_indices().find(|(_, c)| refused(*c)) else { return Ok(()) };
    let before = text.get(..at).unwrap_or_default();
    let line = u64::try_from(before.matches('\n').count()).unwrap_or(u64::MAX).saturating_add(1);
    let message =
        format!("the control character {found:?} is not allowed; write it as an escape, in double quotes");
    Err(Problem::syntax(line, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents that were damaged at random, and what PyYAML 6.0.3 on libyaml 0.2.5 made of them. Values are those of
    /// Go's parser, which shares libyaml's grammar.
    #[test]
    fn damaged_documents_are_read_as_libyaml_reads_them() {
        for row in include_str!("../tests/data/libyaml.jsonl").lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            let text = row["text"].as_str().unwrap();
            match parse(text, &Limits::default()) {
                Ok(document) if document.duplicates.is_empty() => {
                    assert_eq!(row.get("value"), Some(&document.node.into_value()), "{text:?}");
                }
                Ok(_) => assert_eq!(row["duplicate"], true, "{text:?}"),
                Err(problem) => assert_eq!(row["refused"], true, "{text:?}: {}", problem.cause),
            }
        }
    }
}
