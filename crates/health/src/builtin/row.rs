//! The language of the table: one line says how a kind is judged.
//!
//! ```text
//! group/Kind,Kind [gen|once] | Status test test "words" | Status test | Status
//! ```
//!
//! The first clause whose tests all hold gives the status. `None` in its place: there is nothing to wait for.
//!
//! | test | holds when |
//! |---|---|
//! | `Ready=True`, `Ready=False,Unknown` | the condition of that type has one of these statuses |
//! | `Ready=False:Expired,Denied` | it has one of these reasons besides |
//! | `*=False` | some condition is False |
//! | `?Ready` | there is such a condition |
//! | `.phase=Bound,Lost` | that field of `status` has one of these values |
//! | `spec.paused=true` | that field of the object has |
//! | `.phase` | the field is set: neither empty, nor `false`, nor 0 |
//! | `.ready>=spec.replicas`, `.ready<3` | numbers compare so; one that is not there is 0 |
//! | `.parents[]:Accepted=False` | the test holds for some entry of the list |
//! | `!TEST` | the test does not hold |
//!
//! Words after the kinds say what proves that the status speaks about the newest spec: `gen`: the generation that the
//! controller always writes; `once`: nothing more, because the object does one thing once; no word: the generation where
//! the status or the condition has one.

use tidegate_model::HealthStatus;

/// A rule of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// `group/Kind`, where `*` is any text.
    pub kinds: Vec<String>,
    pub proof: Proof,
    pub clauses: Vec<Clause>,
    /// Where the project says what its status means.
    pub source: String,
}

/// What proves that a status speaks about the newest spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The generation, where there is one.
    #[default]
    Found,
    /// The generation, which is always there.
    Generation,
    /// The status is about the object and not about a version of its spec.
    Once,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// Nothing: there is no health to wait for.
    pub status: Option<HealthStatus>,
    pub tests: Vec<Test>,
    /// What is said where the object says nothing.
    pub words: String,
}

impl Clause {
    /// Whether it is what holds when nothing else does, and tells no reason.
    pub fn says_nothing(&self) -> bool {
        self.status == Some(HealthStatus::Progressing) && self.tests.is_empty() && self.words.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Condition { kind: String, statuses: Vec<String>, reasons: Vec<String> },
    HasCondition(String),
    Field { path: Path, values: Vec<String> },
    IsSet(Path),
    Compare { left: Path, by: Comparison, right: Operand },
    Some { list: Path, test: Box<Test> },
    Not(Box<Test>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Number(i64),
    Field(Path),
}

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// From the status (or the entry of a list), else from the object.
    pub in_status: bool,
    pub steps: Vec<String>,
}

impl std::fmt::Display for Path {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}{}", if self.in_status { "status." } else { "" }, self.steps.join("."))
    }
}

/// Why a row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct RowError {
    line: usize,
    reason: String,
}

/// All rows of a text. A line that begins with `https://` cites the documentation for the rows after it; `#` begins a
/// comment.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>, RowError> {
    let mut rows = Vec::new();
    let mut source = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("https://") {
            line.clone_into(&mut source);
        } else if !line.is_empty() && !line.starts_with('#') {
            let row = row(line, &source).map_err(|reason| RowError { line: index + 1, reason })?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn row(line: &str, source: &str) -> Result<Row, String> {
    if source.is_empty() {
        return Err("no documentation is cited; put its address on a line before".to_owned());
    }
    let mut columns = line.split(" | ");
    let mut head = columns.next().unwrap_or_default().split_whitespace();
    let target = head.next().unwrap_or_default();
    let (group, kinds) =
        target.rsplit_once('/').ok_or_else(|| format!("{target:?} is not <group>/<Kind>"))?;
    let proof = match head.next() {
        None => Proof::Found,
        Some("gen") => Proof::Generation,
        Some("once") => Proof::Once,
        Some(other) => return Err(format!("{other:?} is neither gen nor once")),
    };
    let clauses = columns.map(clause).collect::<Result<Vec<_>, _>>()?;
    if clauses.is_empty() {
        return Err("there is no clause".to_owned());
    }
    let kinds = kinds.split(',').map(|kind| format!("{group}/{kind}")).collect();
    Ok(Row { kinds, proof, clauses, source: source.to_owned() })
}

fn clause(text: &str) -> Result<Clause, String> {
    let (tests, words) = match text.split_once('"') {
        Some((tests, words)) => {
            (tests, words.trim_end().strip_suffix('"').ok_or("the words have no end")?.to_owned())
        }
        None => (text, String::new()),
    };
    let mut tests = tests.split_whitespace();
    let status = match tests.next() {
        Some("None") => None,
        Some("Healthy") => Some(HealthStatus::Healthy),
        Some("Suspended") => Some(HealthStatus::Suspended),
        Some("Progressing") => Some(HealthStatus::Progressing),
        Some("Degraded") => Some(HealthStatus::Degraded),
        Some("Unknown") => Some(HealthStatus::Unknown),
        other => return Err(format!("{:?} is no status", other.unwrap_or_default())),
    };
    let tests = tests.map(test).collect::<Result<_, _>>()?;
    Ok(Clause { status, tests, words })
}

fn test(text: &str) -> Result<Test, String> {
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(Test::Not(Box::new(test(rest)?)));
    }
    if let Some(kind) = text.strip_prefix('?') {
        return Ok(Test::HasCondition(kind.to_owned()));
    }
    if let Some((list, rest)) = text.split_once("[]:") {
        return Ok(Test::Some { list: path(list)?, test: Box::new(test(rest)?) });
    }
    for (sign, by) in [
        (">=", Comparison::GreaterOrEqual),
        ("<=", Comparison::LessOrEqual),
        (">", Comparison::Greater),
        ("<", Comparison::Less),
    ] {
        if let Some((left, right)) = text.split_once(sign) {
            let right = match right.parse() {
                Ok(number) => Operand::Number(number),
                Err(_) => Operand::Field(path(right)?),
            };
            return Ok(Test::Compare { left: path(left)?, by, right });
        }
    }
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    match text.split_once('=') {
        None => Ok(Test::IsSet(path(text)?)),
        Some((left, values)) if is_field(left) => Ok(Test::Field { path: path(left)?, values: list(values) }),
        Some((kind, values)) => {
            let (statuses, reasons) = match values.split_once(':') {
                Some((statuses, reasons)) => (statuses, list(reasons)),
                None => (values, Vec::new()),
            };
            let statuses = list(statuses);
            match statuses
                .iter()
                .find(|one| !matches!(one.as_str(), "True" | "False" | "Unknown" | "Degraded"))
            {
                Some(other) => Err(format!("{other:?} is no status of a condition")),
                None => Ok(Test::Condition { kind: kind.to_owned(), statuses, reasons }),
            }
        }
    }
}

/// Types of conditions may have dots as well.
fn is_field(text: &str) -> bool {
    ["", "spec", "metadata"]
        .iter()
        .any(|section| text.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
}

fn path(text: &str) -> Result<Path, String> {
    let (in_status, steps) = match text.strip_prefix('.') {
        Some(steps) => (true, steps),
        None => (false, text),
    };
    if !is_field(text) || steps.split('.').any(str::is_empty) {
        return Err(format!("{text:?} is no field; write .field for status.field, or spec.field"));
    }
    Ok(Path { in_status, steps: steps.split('.').map(str::to_owned).collect() })
}
