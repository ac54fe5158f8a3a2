//! JSON parsing with line numbers. JSON has a separate parser, because the YAML parser rejects tabs, long
//! keys and surrogate pairs (`\ud83d\ude00`), which are all valid in JSON.

use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use super::Limits;
use super::ProblemCause;
use super::maps::remove_duplicates;
use super::node::{Content, Node};
use super::resolve::json_number;
use super::{Document, Problem};

/// A JSON syntax error.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Line number, starting at 1.
    pub line: u64,
    /// Error message without the position.
    pub message: String,
}

/// Parses a sequence of JSON values. Returns an error if the text isn't JSON.
pub fn parse_values(text: &str, limits: &Limits) -> Result<Vec<Result<Document, Problem>>, JsonError> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut ends = Vec::new();
    while let Some(value) = stream.next() {
        value.map_err(|error| to_json_error(&error))?;
        ends.push(stream.byte_offset());
    }
    let mut values = Vec::new();
    let (mut start, mut line) = (0, 1);
    for end in ends {
        let mut reader = JsonReader::new(text.get(start..end).unwrap_or_default(), line, limits);
        let node = reader.read_value();
        values.push(node.map(|node| Document { node, duplicates: std::mem::take(&mut reader.duplicates) }));
        line = line.saturating_add(count_lines(text.get(start..end).unwrap_or_default()));
        start = end;
    }
    Ok(values)
}

fn count_lines(text: &str) -> u64 {
    u64::try_from(text.matches('\n').count()).unwrap_or(u64::MAX)
}

fn to_json_error(error: &serde_json::Error) -> JsonError {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
    JsonError { line: u64::try_from(error.line()).unwrap_or(u64::MAX).max(1), message }
}

/// Builds nodes from valid JSON.
struct JsonReader<'t, 'l> {
    rest: &'t str,
    line: u64,
    limits: &'l Limits,
    nodes: usize,
    depth: usize,
    duplicates: Vec<Problem>,
}

impl<'t, 'l> JsonReader<'t, 'l> {
    fn new(rest: &'t str, line: u64, limits: &'l Limits) -> Self {
        Self { rest, line, limits, nodes: 0, depth: 0, duplicates: Vec::new() }
    }

    fn problem(&self, cause: ProblemCause) -> Problem {
        Problem::new(self.line, cause)
    }

    fn invalid(&self, message: &str) -> Problem {
        self.problem(ProblemCause::Json { message: message.to_owned() })
    }

    fn count_node(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let what = format!("more than {} values", self.limits.nodes);
        Err(self.problem(ProblemCause::TooMuch { what }))
    }

    /// Skips whitespace and returns the next byte.
    fn next_byte(&mut self) -> Option<u8> {
        let token = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let passed = self.rest.len() - token.len();
        self.line = self.line.saturating_add(count_lines(self.rest.get(..passed).unwrap_or_default()));
        self.rest = token;
        self.rest.bytes().next()
    }

    /// Skips the given number of bytes and returns them.
    fn skip_bytes(&mut self, bytes: usize) -> &'t str {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        passed
    }

    /// Skips a `,` or `:`, if present.
    fn skip_separator(&mut self) {
        if let Some(b',' | b':') = self.next_byte() {
            self.skip_bytes(1);
        }
    }

    fn read_value(&mut self) -> Result<Node, Problem> {
        self.count_node()?;
        let first = self.next_byte();
        let line = self.line;
        let content = match first {
            Some(b'{') => self.read_nested(Self::read_map)?,
            Some(b'[') => self.read_nested(Self::read_list)?,
            Some(b'"') => Content::Scalar(self.read_text()?.into()),
            _ => {
                let length =
                    self.rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(self.rest.len());
                Content::Scalar(match self.skip_bytes(length) {
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

    fn read_nested(&mut self, inside: fn(&mut Self) -> Result<Content, Problem>) -> Result<Content, Problem> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(self.problem(ProblemCause::TooDeep { limit: self.limits.depth }));
        }
        self.skip_bytes(1);
        let content = inside(self)?;
        self.skip_bytes(1);
        self.depth -= 1;
        Ok(content)
    }

    fn read_map(&mut self) -> Result<Content, Problem> {
        let mut entries = Vec::new();
        while let Some(b'"') = self.next_byte() {
            self.count_node()?;
            let line = self.line;
            let key = self.read_text()?;
            self.skip_separator();
            entries.push((key, line, self.read_value()?));
            self.skip_separator();
        }
        Ok(Content::Map(remove_duplicates(entries, &mut self.duplicates)))
    }

    fn read_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.next_byte().is_some_and(|byte| byte != b']') {
            items.push(self.read_value()?);
            self.skip_separator();
        }
        Ok(Content::List(items))
    }

    fn read_text(&mut self) -> Result<String, Problem> {
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let quoted = self.skip_bytes(end.map_or(self.rest.len(), |end| end + 2));
        serde_json::from_str(quoted).map_err(|error| self.invalid(&to_json_error(&error).message))
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
            parse_values(text, &Limits::default()).unwrap().into_iter().map(Result::unwrap).collect();
        let lines: Vec<u64> = read.iter().map(|document| document.node.line).collect();
        assert_eq!(lines, [1, 3]);
        assert_eq!(read[1].node.line_of("b"), 3);
        let expected =
            [serde_json::json!({"a\t\"": "😀\n"}), serde_json::json!({"b": [1, -2, true, null, 1000, {}]})];
        let found: Vec<Value> = read.into_iter().map(|document| document.node.into_value()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_have_a_line_and_no_column_in_their_message() {
        let error = parse_values("{\n \"a\": x}", &Limits::default()).unwrap_err();
        assert_eq!(error, JsonError { line: 2, message: "expected value".to_owned() });
        let lone =
            parse_values("{\n \"a\": \"\\ud83d\"}", &Limits::default()).unwrap().remove(0).unwrap_err();
        assert_eq!(lone.line, 2);
    }
}
