//! Parsing of manifest files: objects with their lines, and errors.
//!
//! ```text
//! bytes ─ decode ─▶ text ─ split ─▶ documents ─ yaml ─▶ nodes with lines ─ unroll Lists ─▶ objects ─ check ─▶ targets
//! ```
//!
//! Documents, and the items of a `List`, are parsed independently, so all errors in a file are reported at
//! once, each with its line.

mod error;
mod name_validation;
mod objects;
mod split;

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::Object;

pub use error::{ManifestCause, ManifestError};
pub use name_validation::is_label;

use tidegate_yaml::{Document, Problem, ProblemCause, json};

use crate::text::escape;

/// Limits for manifest files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a file in bytes.
    pub bytes: u64,
    /// Maximum number of documents in a file.
    pub documents: usize,
    /// Maximum number of values in a file: maps, lists, keys and scalars.
    pub nodes: usize,
    /// Maximum nesting depth of maps and lists. This also bounds the stack of the parser, which is recursive.
    pub depth: usize,
    /// Maximum number of values that aliases (`*name`) may add to a document.
    pub alias_expansion: usize,
}

impl Default for Limits {
    /// Returns limits several times the size of the largest installation manifests in use (2 MB, 100,000
    /// values).
    fn default() -> Self {
        Self { bytes: 64 << 20, documents: 100_000, nodes: 5_000_000, depth: 128, alias_expansion: 100_000 }
    }
}

impl From<&Limits> for tidegate_yaml::Limits {
    fn from(limits: &Limits) -> Self {
        Self { nodes: limits.nodes, depth: limits.depth, alias_expansion: limits.alias_expansion }
    }
}

/// Location of an object in its manifest file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// File name as the caller specified it.
    pub file: String,
    /// First line of the object, starting at 1.
    pub line: u64,
    /// Number of the document in the file, counting from 1 and skipping empty documents.
    pub document: usize,
}

/// Formats the location like a compiler message: `shop/api.yaml:12`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", escape(&self.file), self.line)
    }
}

/// An object to deploy, and where its manifest is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The object as written in its manifest.
    pub object: Object,
    /// Location of the manifest.
    pub origin: Origin,
}

/// Parses objects that are not deployed, such as fixtures and templates. They don't need a name.
pub fn parse_without_names(
    file: &str,
    content: &[u8],
    limits: &Limits,
) -> Result<Vec<Target>, Vec<ManifestError>> {
    read_file(file, content, limits, false)
}

/// Parses the objects of a YAML or JSON file.
///
/// `file` is used only in messages. Empty documents are skipped, and `List`s are expanded. Errors are
/// returned in line order; if there are any, no targets are.
pub fn parse(file: &str, content: &[u8], limits: &Limits) -> Result<Vec<Target>, Vec<ManifestError>> {
    read_file(file, content, limits, true)
}

/// Works like [`parse`], but an error affects only its own document. Returns the objects of all other
/// documents along with the errors.
pub fn parse_each(file: &str, content: &[u8], limits: &Limits) -> (Vec<Target>, Vec<ManifestError>) {
    read_each(file, content, limits, true)
}

fn read_file(
    file: &str,
    content: &[u8],
    limits: &Limits,
    named: bool,
) -> Result<Vec<Target>, Vec<ManifestError>> {
    let (targets, errors) = read_each(file, content, limits, named);
    if errors.is_empty() { Ok(targets) } else { Err(errors) }
}

fn read_each(file: &str, content: &[u8], limits: &Limits, named: bool) -> (Vec<Target>, Vec<ManifestError>) {
    let mut reader = Reader {
        file,
        limits,
        requires_names: named,
        document: 0,
        targets: Vec::new(),
        errors: Vec::new(),
        nodes: 0,
    };
    match decode(content, limits) {
        Ok(text) => reader.read_file(text),
        Err((line, cause)) => reader.add_error(line, None, cause),
    }
    (reader.targets, reader.errors)
}

fn decode<'t>(content: &'t [u8], limits: &Limits) -> Result<&'t str, (u64, ManifestCause)> {
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if bytes > limits.bytes {
        return Err((1, ManifestCause::TooLarge { bytes, limit: limits.bytes }));
    }
    if let Some(encoding) = other_encoding(content) {
        return Err((1, ManifestCause::Encoding { encoding }));
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    std::str::from_utf8(content).map_err(|error| {
        let good = content.get(..error.valid_up_to()).unwrap_or_default();
        let lines = good.iter().filter(|byte| **byte == b'\n').count();
        let line = u64::try_from(lines).unwrap_or(u64::MAX).saturating_add(1);
        (line, ManifestCause::NotUtf8 { offset: error.valid_up_to() })
    })
}

/// Detects UTF-16 and UTF-32 by the byte order mark, or by zero bytes around the first character.
fn other_encoding(content: &[u8]) -> Option<&'static str> {
    match content {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [first, 0, _, 0, ..] | [0, first, 0, _, ..] if *first != 0 => Some("UTF-16"),
        _ => None,
    }
}

/// Parser of one file.
struct Reader<'f> {
    file: &'f str,
    limits: &'f Limits,
    /// True if objects must have a name.
    requires_names: bool,
    /// Number of the current document.
    document: usize,
    targets: Vec<Target>,
    errors: Vec<ManifestError>,
    /// Number of values parsed so far.
    nodes: usize,
}

impl Reader<'_> {
    fn add_error(&mut self, line: u64, object: Option<String>, cause: impl Into<ManifestCause>) {
        let cause = cause.into();
        let (file, document) = (self.file.to_owned(), self.document);
        self.errors.push(ManifestError { file, line, document, object, cause });
    }

    fn read_file(&mut self, text: &str) {
        let mut number = 0;
        for document in split::split_documents(text) {
            if split::is_empty(document.text) {
                continue;
            }
            number += 1;
            if number > self.limits.documents {
                let what = format!("more than {} documents", self.limits.documents);
                return self.add_error(document.lines_before + 1, None, ProblemCause::TooMuch { what });
            }
            self.document = number;
            self.read_document(document.text, document.lines_before, number);
            if self.nodes > self.limits.nodes {
                let what = format!("more than {} values", self.limits.nodes);
                return self.add_error(document.lines_before + 1, None, ProblemCause::TooMuch { what });
            }
        }
    }

    fn read_document(&mut self, text: &str, lines_before: u64, number: usize) {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let json = is_json.then(|| json::parse_values(text, &self.limits.into()));
        let not_json = match json {
            Some(Ok(values)) => {
                for value in values {
                    self.add_document(value, lines_before, number);
                }
                return;
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        // A document in braces that isn't JSON can still be YAML: `{a: b}`.
        match (tidegate_yaml::parse_document(text, &self.limits.into()), not_json) {
            (Err(problem), Some(error))
                if matches!(*problem.cause, ProblemCause::Syntax { .. }) && self.file.ends_with(".json") =>
            {
                let cause = ProblemCause::Json { message: error.message };
                self.add_error(lines_before + error.line, None, cause);
            }
            (read, _) => self.add_document(read, lines_before, number),
        }
    }

    fn add_document(&mut self, read: Result<Document, Problem>, lines_before: u64, number: usize) {
        match read {
            Ok(Document { node, duplicates }) if duplicates.is_empty() => {
                self.nodes = self.nodes.saturating_add(node.count());
                objects::unroll_lists(self, node, lines_before, number, None);
            }
            Ok(Document { node, mut duplicates }) => {
                duplicates.sort_by_key(|problem| problem.line);
                for Problem { line, cause } in duplicates {
                    let object = objects::object_at_line(&node, line);
                    self.add_error(
                        lines_before + line,
                        object,
                        ManifestCause::from(*cause).shift_lines(lines_before),
                    );
                }
            }
            Err(Problem { line, cause }) => self.add_error(lines_before + line, None, *cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_other_than_utf8_are_named() {
        let utf16: Vec<u8> = "a: 1".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf16_be: Vec<u8> = "a: 1".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(other_encoding(&utf16), Some("UTF-16"));
        assert_eq!(other_encoding(&utf16_be), Some("UTF-16"));
        assert_eq!(other_encoding(&[0xff, 0xfe, b'a', 0]), Some("UTF-16"));
        assert_eq!(other_encoding(b"a: 1"), None);
        assert_eq!(other_encoding(b""), None);
    }
}
