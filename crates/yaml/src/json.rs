//! JSON, read as JSON, with the lines of its values: YAML refuses tabs, long keys and escapes that write one character
//! as two (`\ud83d\ude00`), all of which are fine here.

use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use super::Cause;
use super::Limits;
use super::maps::unique;
use super::node::{Content, Node};
use super::resolve::json_number;
use super::{Document, Problem};

/// A JSON syntax error: its line, from 1, and its words.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The line.
    pub line: u64,
    /// The words.
    pub message: String,
}

/// Reads a text as a row of JSON values; `Err` if it is not JSON.
pub fn values(text: &str, limits: &Limits) -> Result<Vec<Result<Document, Problem>>, JsonError> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut ends = Vec::new();
    while let Some(value) = stream.next() {
        value.map_err(|error| explain(&error))?;
        ends.push(stream.byte_offset());
    }
    let mut values = Vec::new();
    let (mut start, mut line) = (0, 1);
    for end in ends {
        let mut reader = Reader::new(text.get(start..end).unwrap_or_default(), line, limits);
        let node = reader.value();
        values.push(node.map(|node| Document { node, duplicates: std::mem::take(&mut reader.duplicates) }));
        line = line.saturating_add(lines(text.get(start..end).unwrap_or_default()));
        start = end;
    }
    Ok(values)
}

fn lines(text: &str) -> u64 {
    u64::try_from(text.matches('\n').count()).unwrap_or(u64::MAX)
}

fn explain(error: &serde_json::Error) -> JsonError {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
    JsonError { line: u64::try_from(error.line()).unwrap_or(u64::MAX).max(1), message }
}

/// Builds nodes from a text that is known to be JSON.
struct Reader<'t, 'l> {
    rest: &'t str,
    line: u64,
    limits: &'l Limits,
    nodes: usize,
    depth: usize,
    duplicates: Vec<Problem>,
}

impl<'t, 'l> Reader<'t, 'l> {
    fn new(rest: &'t str, line: u64, limits: &'l Limits) -> Self {
        Self { rest, line, limits, nodes: 0, depth: 0, duplicates: Vec::new() }
    }

    fn problem(&self, cause: Cause) -> Problem {
        Problem::new(self.line, cause)
    }

    fn invalid(&self, message: &str) -> Problem {
        self.problem(Cause::Json { message: message.to_owned() })
    }

    fn count(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let what = format!("more than {} values", self.limits.nodes);
        Err(self.problem(Cause::TooMuch { what }))
    }

    /// Passes white space; the byte after it.
    fn next(&mut self) -> Option<u8> {
        let token = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let passed = self.rest.len() - token.len();
        self.line = self.line.saturating_add(lines(self.rest.get(..passed).unwrap_or_default()));
        self.rest = token;
        self.rest.bytes().next()
    }

    /// Passes so many bytes.
    fn pass(&mut self, bytes: usize) -> &'t str {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        passed
    }

    /// Passes a `,` or `:` if it is there.
    fn pass_separator(&mut self) {
        if let Some(b',' | b':') = self.next() {
            self.pass(1);
        }
    }

    fn value(&mut self) -> Result<Node, Problem> {
        self.count()?;
        let first = self.next();
        let line = self.line;
        let content = match first {
            Some(b'{') => self.nested(Self::map)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Content::Scalar(self.text()?.into()),
            _ => {
                let length =
                    self.rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(self.rest.len());
                Content::Scalar(match self.pass(length) {
                    "null" => Value::Null,
                    "true" => true.into(),
                    "false" => false.into(),
                    number => {
                        Value::Number(read_number(number).ok_or_else(|| self.invalid("number out of range"))?)
                    }
                })
            }
        };
        Ok(Node { line, content })
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Result<Content, Problem>) -> Result<Content, Problem> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(self.problem(Cause::TooDeep { limit: self.limits.depth }));
        }
        self.pass(1);
        let content = inside(self)?;
        self.pass(1);
        self.depth -= 1;
        Ok(content)
    }

    fn map(&mut self) -> Result<Content, Problem> {
        let mut entries = Vec::new();
        while let Some(b'"') = self.next() {
            self.count()?;
            let line = self.line;
            let key = self.text()?;
            self.pass_separator();
            entries.push((key, line, self.value()?));
            self.pass_separator();
        }
        Ok(Content::Map(unique(entries, &mut self.duplicates)))
    }

    fn list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.next().is_some_and(|byte| byte != b']') {
            items.push(self.value()?);
            self.pass_separator();
        }
        Ok(Content::List(items))
    }

    fn text(&mut self) -> Result<String, Problem> {
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let quoted = self.pass(end.map_or(self.rest.len(), |end| end + 2));
        serde_json::from_str(quoted).map_err(|error| self.invalid(&explain(&error).message))
    }
}

fn read_number(text: &str) -> Option<Number> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    text.parse().ok().and_then(json_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_lines() {
        let text = "{\n\t\"a\\t\\\"\":\t\"\\ud83d\\ude00\\n\"}\n{\"b\": [1.0, -2, true, null, 1e3,\n{}]}";
        let read: Vec<Document> =
            values(text, &Limits::default()).unwrap().into_iter().map(Result::unwrap).collect();
        let lines: Vec<u64> = read.iter().map(|document| document.node.line).collect();
        assert_eq!(lines, [1, 3]);
        assert_eq!(read[1].node.line_of("b"), 3);
        let expected =
            [serde_json::json!({"a\t\"": "😀\n"}), serde_json::json!({"b": [1, -2, true, null, 1000, {}]})];
        let found: Vec<Value> = read.into_iter().map(|document| document.node.into_value()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_have_a_line_and_no_position_in_their_words() {
        let error = values("{\n \"a\": x}", &Limits::default()).unwrap_err();
        assert_eq!(error, JsonError { line: 2, message: "expected value".to_owned() });
        let lone = values("{\n \"a\": \"\\ud83d\"}", &Limits::default()).unwrap().remove(0).unwrap_err();
        assert_eq!(lone.line, 2);
    }
}
