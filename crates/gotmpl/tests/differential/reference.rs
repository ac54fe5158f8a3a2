//! Go's own `text/template` with sprig: a process that answers each case as it is asked.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Rendered;

pub struct Reference {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Reference {
    pub fn start(program: &str) -> Result<Self, String> {
        // Times are in UTC here, and so they must be there.
        let mut child = Command::new(program)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!("{program}: {error}; scripts/template-table/program --fetch makes one")
            })?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, questions, answers })
    }

    /// What Go makes of some cases.
    pub fn render(&mut self, cases: &[Value]) -> Vec<Rendered> {
        let (questions, answers) = (self.questions.as_mut().unwrap(), &mut self.answers);
        let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
        std::thread::scope(|scope| {
            // Go answers while it is asked, and would wait for somebody who reads that.
            scope.spawn(move || {
                questions
                    .write_all(lines.as_bytes())
                    .unwrap_or_else(|error| panic!("Go does not listen: {error}"));
            });
            cases.iter().map(|case| answer(answers, case)).collect()
        })
    }
}

fn answer(answers: &mut impl BufRead, case: &Value) -> Rendered {
    let mut line = String::new();
    let length = answers.read_line(&mut line).unwrap();
    assert!(length > 0, "Go ended at {case}");
    let answer: Value = serde_json::from_str(&line).unwrap();
    let words = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    words("error").map_or_else(|| Ok(words("output").unwrap()), Err)
}

impl Drop for Reference {
    fn drop(&mut self) {
        drop(self.questions.take());
        drop(self.child.wait());
    }
}
