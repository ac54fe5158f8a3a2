//! The reference program: Go's own `text/template` with sprig, in a process that renders cases on request.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::RenderResult;

pub struct Reference {
    child: Child,
    requests: Option<ChildStdin>,
    responses: BufReader<ChildStdout>,
}

impl Reference {
    pub fn start(program: &str) -> Result<Self, String> {
        // This crate formats times in UTC, so the reference program must also use UTC.
        let mut child = Command::new(program)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!("{program}: {error}; build the program with scripts/template-table/program --fetch")
            })?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, requests: questions, responses: answers })
    }

    /// Renders the cases with Go and returns the results.
    pub fn render(&mut self, cases: &[Value]) -> Vec<RenderResult> {
        let (questions, answers) = (self.requests.as_mut().unwrap(), &mut self.responses);
        let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
        std::thread::scope(|scope| {
            // Write in a separate thread: Go responds while it is still receiving cases, and would block if
            // nothing read its responses.
            scope.spawn(move || {
                questions
                    .write_all(lines.as_bytes())
                    .unwrap_or_else(|error| panic!("cannot write to the reference program: {error}"));
            });
            cases.iter().map(|case| read_response(answers, case)).collect()
        })
    }
}

fn read_response(answers: &mut impl BufRead, case: &Value) -> RenderResult {
    let mut line = String::new();
    let length = answers.read_line(&mut line).unwrap();
    assert!(length > 0, "the reference program exited at {case}");
    let answer: Value = serde_json::from_str(&line).unwrap();
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    text("error").map_or_else(|| Ok(text("output").unwrap()), Err)
}

impl Drop for Reference {
    fn drop(&mut self) {
        drop(self.requests.take());
        drop(self.child.wait());
    }
}
