//! YAML as kubectl reads it. Its parser is a port of libyaml, which is laxer than YAML 1.2 (a text in quotes may go on
//! at any column) and gives texts without quotes the values of YAML 1.1.
//!
//! ```text
//! text ─ Cursor ─▶ characters ─ Scanner ─▶ tokens ─ Composer ─▶ nodes with lines
//! ```

mod compose;
mod cursor;
mod maps;
mod names;
mod resolve;
mod scalars;
mod scanner;
mod token;

use super::Limits;
use super::error::ManifestCause;
use super::node::Node;

pub(super) use maps::unique;
pub(super) use resolve::json_number;

/// What is wrong with a document, and on which of its lines, from 1.
#[derive(Debug)]
pub(super) struct Problem {
    pub line: u64,
    /// In a box, because reading recurses, and every step on the way hands it on.
    pub cause: Box<ManifestCause>,
}

impl Problem {
    pub fn new(line: u64, cause: ManifestCause) -> Self {
        Self { line, cause: Box::new(cause) }
    }

    fn syntax(line: u64, message: impl Into<String>) -> Self {
        Self::new(line, ManifestCause::Syntax { message: message.into() })
    }
}

/// A document, with the keys that it gives twice: of those, the first counts.
#[derive(Debug)]
pub(super) struct Document {
    pub node: Node,
    pub duplicates: Vec<Problem>,
}

/// Reads the text of one document of a file.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<Document, Problem> {
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
        for row in include_str!("../../../tests/data/libyaml.jsonl").lines() {
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
