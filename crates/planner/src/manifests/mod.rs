//! From the text of a file to objects: what is read, from which line, and what is wrong with it.
//!
//! ```text
//! bytes ─ decode ─▶ text ─ split ─▶ documents ─ yaml ─▶ nodes with lines ─ unroll Lists ─▶ objects ─ check ─▶ targets
//! ```
//!
//! Everything that is wrong with a file is reported at once, each with its line: documents are read independently, and
//! so are the items of a `List`.

mod error;
mod names;
mod objects;
mod split;

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::Object;

pub use error::{ManifestCause, ManifestError};

use crate::text::escape;
use tidegate_yaml::{Cause, Document, Problem, json};

/// How much of a file is read before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub bytes: u64,
    /// Documents of one file.
    pub documents: usize,
    /// Values of one file: maps, lists, keys and scalars.
    pub nodes: usize,
    /// Maps and lists inside each other. Reading recurses, so this also keeps the stack small.
    pub depth: usize,
    /// Values that aliases (`*name`) may add to one document.
    pub alias_expansion: usize,
}

impl Default for Limits {
    /// Room for the largest installation manifests in use (2 MB, 100,000 values) many times over.
    fn default() -> Self {
        Self { bytes: 64 << 20, documents: 100_000, nodes: 5_000_000, depth: 128, alias_expansion: 100_000 }
    }
}

impl From<&Limits> for tidegate_yaml::Limits {
    fn from(limits: &Limits) -> Self {
        Self { nodes: limits.nodes, depth: limits.depth, alias_expansion: limits.alias_expansion }
    }
}

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The file, as the caller named it.
    pub file: String,
    /// First line of the object, from 1.
    pub line: u64,
    /// Which document of the file, from 1; empty documents are not counted.
    pub document: usize,
}

/// As in compiler messages: `shop/api.yaml:12`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", escape(&self.file), self.line)
    }
}

/// An object the user wants in the cluster, and where it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The object, as its manifest has it.
    pub object: Object,
    /// Where it was read.
    pub origin: Origin,
}

/// Reads the objects of one file that are only looked at: fixtures and templates need no name.
pub fn parse_unnamed(file: &str, content: &[u8], limits: &Limits) -> Result<Vec<Target>, Vec<ManifestError>> {
    read(file, content, limits, false)
}

/// Reads the objects of one file of YAML or JSON.
///
/// `file` is only used in messages. Documents without content are skipped, `List`s are unrolled. Errors are in the
/// order of their lines; a file with any error gives no targets.
pub fn parse(file: &str, content: &[u8], limits: &Limits) -> Result<Vec<Target>, Vec<ManifestError>> {
    read(file, content, limits, true)
}

/// As [`parse`], where a mistake in one document costs that document only: the objects of the others, and what is wrong.
pub fn parse_each(file: &str, content: &[u8], limits: &Limits) -> (Vec<Target>, Vec<ManifestError>) {
    read_each(file, content, limits, true)
}

fn read(file: &str, content: &[u8], limits: &Limits, named: bool) -> Result<Vec<Target>, Vec<ManifestError>> {
    let (targets, errors) = read_each(file, content, limits, named);
    if errors.is_empty() { Ok(targets) } else { Err(errors) }
}

fn read_each(file: &str, content: &[u8], limits: &Limits, named: bool) -> (Vec<Target>, Vec<ManifestError>) {
    let mut reader =
        Reader { file, limits, named, document: 0, targets: Vec::new(), errors: Vec::new(), nodes: 0 };
    match decode(content, limits) {
        Ok(text) => reader.read(text),
        Err((line, cause)) => reader.fail(line, None, cause),
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

/// UTF-16 and UTF-32 by their byte order mark, or by the zero bytes around the first character.
fn other_encoding(content: &[u8]) -> Option<&'static str> {
    match content {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [first, 0, _, 0, ..] | [0, first, 0, _, ..] if *first != 0 => Some("UTF-16"),
        _ => None,
    }
}

/// The reading of one file.
struct Reader<'f> {
    file: &'f str,
    limits: &'f Limits,
    /// Whether an object needs a name.
    named: bool,
    /// The document that is read.
    document: usize,
    targets: Vec<Target>,
    errors: Vec<ManifestError>,
    /// Values read so far.
    nodes: usize,
}

impl Reader<'_> {
    fn fail(&mut self, line: u64, object: Option<String>, cause: ManifestCause) {
        let (file, document) = (self.file.to_owned(), self.document);
        self.errors.push(ManifestError { file, line, document, object, cause });
    }

    fn read(&mut self, text: &str) {
        let mut number = 0;
        for document in split::documents(text) {
            if split::is_empty(document.text) {
                continue;
            }
            number += 1;
            if number > self.limits.documents {
                let what = format!("more than {} documents", self.limits.documents);
                return self.fail(document.lines_before + 1, None, ManifestCause::TooMuch { what });
            }
            self.document = number;
            self.read_document(document.text, document.lines_before, number);
            if self.nodes > self.limits.nodes {
                let what = format!("more than {} values", self.limits.nodes);
                return self.fail(document.lines_before + 1, None, ManifestCause::TooMuch { what });
            }
        }
    }

    fn read_document(&mut self, text: &str, lines_before: u64, number: usize) {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let json = is_json.then(|| json::values(text, &self.limits.into()));
        let not_json = match json {
            Some(Ok(values)) => {
                for value in values {
                    self.take_read(value, lines_before, number);
                }
                return;
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        // What is in brackets and is no JSON may be YAML: `{a: b}`.
        match (tidegate_yaml::parse(text, &self.limits.into()), not_json) {
            (Err(problem), Some(error))
                if matches!(*problem.cause, Cause::Syntax { .. }) && self.file.ends_with(".json") =>
            {
                let cause = ManifestCause::Json { message: error.message };
                self.fail(lines_before + error.line, None, cause);
            }
            (read, _) => self.take_read(read, lines_before, number),
        }
    }

    fn take_read(&mut self, read: Result<Document, Problem>, lines_before: u64, number: usize) {
        match read {
            Ok(Document { node, duplicates }) if duplicates.is_empty() => {
                self.nodes = self.nodes.saturating_add(node.count());
                objects::unroll(self, node, lines_before, number, None);
            }
            Ok(Document { node, mut duplicates }) => {
                duplicates.sort_by_key(|problem| problem.line);
                for Problem { line, cause } in duplicates {
                    let object = objects::label_at(&node, line);
                    self.fail(lines_before + line, object, ManifestCause::from(*cause).after(lines_before));
                }
            }
            Err(Problem { line, cause }) => self.fail(lines_before + line, None, (*cause).into()),
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
