//! Language of the table. Each line defines the health of one or more kinds.
//!
//! ```text
//! group/Kind,Kind[+group/Kind] [gen|once] | Status test test "words" | Status test | Status
//! ```
//!
//! The first clause with only matching tests determines the status. With `None`, operations don't
//! wait for the object's health.
//!
//! | test | matches if |
//! |---|---|
//! | `Ready=True`, `Ready=False,Unknown` | the condition of that type has one of these statuses |
//! | `Ready=False:Expired,Denied` | the condition also has one of these reasons |
//! | `Ready=True@` | the condition also refers to the newest spec, or doesn't contain a generation |
//! | `*=False` | at least one condition is False |
//! | `?Ready` | a condition of that type exists |
//! | `~Ready,Synced` | one of these conditions refers to an older generation |
//! | `.phase=Bound,Lost` | that field of `status` has one of these values |
//! | `spec.paused=true` | that field of the object has this value |
//! | `.phase` | the field is set: neither empty, nor `false`, nor 0 |
//! | `.ready>=spec.replicas`, `.ready<3` | the comparison of numbers is true; an absent number counts as 0 |
//! | `.a=.b`, `.a=spec.b` | both fields have the same value |
//! | `.a+.b>=.c`, `.a<spec.sets[].count` | sums are compared: `+` adds fields, `[]` adds a field of all list entries; a list counts its entries |
//! | `.ready=N/N` | the string consists of two equal numbers separated by a slash |
//! | `.parents[]:Accepted=False` | the test matches at least one list entry or map value; `.` refers to the entry |
//! | `.podStatus{}:Ready=True` | the test matches the map at that path |
//! | `unanswered-parent` | an entry of `spec.parentRefs` lacks an up-to-date entry in `status.parents` (Gateway API) |
//! | `unanswered-listener` | an entry of `spec.listeners` lacks an up-to-date entry in `status.listeners` (Gateway API) |
//! | `!TEST_NAME` | the test does not match |
//!
//! In values, `~` is a space and `*` matches any text. The text after `metadata.annotations.`,
//! `metadata.labels.` or `spec.sparkConf.` is a single key. `status.` always starts at the object, even in a
//! list, while `.` starts at the list entry.
//!
//! The status `Late` means Progressing during a grace period and Degraded after it (`grace_period.rs`).
//!
//! A word after the kinds names the evidence that the status is about the newest spec. With `gen`, it is the
//! generation, which the controller always writes. With `once`, no evidence is needed, because the object has
//! only a single task. Without a word, it is the generation, if the status or the condition has it.

use tidegate_model::HealthStatus;

/// Rule from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthRow {
    /// `group/Kind`, where `*` matches any text.
    pub kinds: Vec<String>,
    pub evidence: EvidenceKind,
    pub clauses: Vec<HealthClause>,
    /// URL of the project's documentation about the status.
    pub source: String,
}

/// Evidence that a status is about the newest spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EvidenceKind {
    /// The generation, if present.
    #[default]
    IfPresent,
    /// The generation, which is always present.
    Generation,
    /// No generation is needed, because the status is about the object rather than a version of its spec.
    Once,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthClause {
    /// Health status, or `None` without one to wait for.
    pub status: Option<HealthStatus>,
    /// True if the status turns Degraded only after the grace period.
    pub has_grace_period: bool,
    pub tests: Vec<ClauseTest>,
    /// Default message.
    pub default_message: String,
}

impl HealthClause {
    /// Returns true for a default clause without a message.
    pub fn is_plain_default(&self) -> bool {
        self.status == Some(HealthStatus::Progressing)
            && self.tests.is_empty()
            && self.default_message.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClauseTest {
    Condition { kind: String, statuses: Vec<String>, reasons: Vec<String>, is_newest: bool },
    HasCondition(String),
    OutdatedCondition(Vec<String>),
    Field { path: Path, values: Vec<String> },
    Equal { left: Path, right: Path },
    IsSet(Path),
    Compare { left: Vec<Path>, operator: Comparison, right: Operand },
    AnyEntry { list: Path, test: Box<ClauseTest> },
    Within { path: Path, test: Box<ClauseTest> },
    UnansweredParent,
    UnansweredListener,
    Not(Box<ClauseTest>),
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

/// Path of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// True if the path starts at the status (or at a list entry) rather than at the object.
    pub is_in_status: bool,
    pub steps: Vec<String>,
}

impl std::fmt::Display for Path {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}{}", if self.is_in_status { "status." } else { "" }, self.steps.join("."))
    }
}

/// Reason why a row is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct RowError {
    line: usize,
    reason: String,
}

/// Parses all rows in a text. A line that starts with `https://` cites the documentation for the rows below
/// it. `#` starts a comment.
pub(crate) fn parse_rows(text: &str) -> Result<Vec<HealthRow>, RowError> {
    let mut rows = Vec::new();
    let mut source = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("https://") {
            line.clone_into(&mut source);
        } else if !line.is_empty() && !line.starts_with('#') {
            let row = parse_row(line, &source).map_err(|reason| RowError { line: index + 1, reason })?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn parse_row(line: &str, source: &str) -> Result<HealthRow, String> {
    if source.is_empty() {
        return Err("no documentation is cited; add its URL on a preceding line".to_owned());
    }
    let mut columns = line.split(" | ");
    let mut head = columns.next().unwrap_or_default().split_whitespace();
    let target = head.next().unwrap_or_default();
    let groups = target
        .split('+')
        .map(|target| target.rsplit_once('/').ok_or_else(|| format!("{target:?} is not <group>/<Kind>")));
    let groups = groups.collect::<Result<Vec<_>, _>>()?;
    let proof = match head.next() {
        None => EvidenceKind::IfPresent,
        Some("gen") => EvidenceKind::Generation,
        Some("once") => EvidenceKind::Once,
        Some(other) => return Err(format!("expected gen or once, found {other:?}")),
    };
    let clauses = columns.map(parse_clause).collect::<Result<Vec<_>, _>>()?;
    if clauses.is_empty() {
        return Err("there is no clause".to_owned());
    }
    let kinds = groups
        .into_iter()
        .flat_map(|(group, kinds)| kinds.split(',').map(move |kind| format!("{group}/{kind}")))
        .collect();
    Ok(HealthRow { kinds, evidence: proof, clauses, source: source.to_owned() })
}

fn parse_clause(text: &str) -> Result<HealthClause, String> {
    let (tests, words) = match text.split_once('"') {
        Some((tests, words)) => {
            (tests, words.trim_end().strip_suffix('"').ok_or("the text is unterminated")?.to_owned())
        }
        None => (text, String::new()),
    };
    let mut tests = tests.split_whitespace().peekable();
    let late = tests.peek() == Some(&"Late");
    let status = match tests.next() {
        Some("None") => None,
        Some("Healthy") => Some(HealthStatus::Healthy),
        Some("Suspended") => Some(HealthStatus::Suspended),
        Some("Progressing") => Some(HealthStatus::Progressing),
        Some("Degraded" | "Late") => Some(HealthStatus::Degraded),
        Some("Unknown") => Some(HealthStatus::Unknown),
        other => return Err(format!("{:?} is not a status", other.unwrap_or_default())),
    };
    let tests = tests.map(parse_test).collect::<Result<_, _>>()?;
    Ok(HealthClause { status, has_grace_period: late, tests, default_message: words })
}

fn parse_test(text: &str) -> Result<ClauseTest, String> {
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(ClauseTest::Not(Box::new(parse_test(rest)?)));
    }
    if text == "unanswered-parent" {
        return Ok(ClauseTest::UnansweredParent);
    }
    if text == "unanswered-listener" {
        return Ok(ClauseTest::UnansweredListener);
    }
    if let Some(kind) = text.strip_prefix('?') {
        return Ok(ClauseTest::HasCondition(kind.to_owned()));
    }
    if let Some(kinds) = text.strip_prefix('~') {
        return Ok(ClauseTest::OutdatedCondition(kinds.split(',').map(str::to_owned).collect()));
    }
    if let Some((list, rest)) = text.split_once("[]:") {
        return Ok(ClauseTest::AnyEntry { list: parse_path(list)?, test: Box::new(parse_test(rest)?) });
    }
    if let Some((place, rest)) = text.split_once("{}:") {
        return Ok(ClauseTest::Within { path: parse_path(place)?, test: Box::new(parse_test(rest)?) });
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
                Err(_) => Operand::Field(parse_path(right)?),
            };
            let left = left.split('+').map(parse_path).collect::<Result<_, _>>()?;
            return Ok(ClauseTest::Compare { left, operator: by, right });
        }
    }
    let list = |text: &str| text.split(',').map(|value| value.replace('~', " ")).collect::<Vec<_>>();
    match text.split_once('=') {
        None => Ok(ClauseTest::IsSet(parse_path(text)?)),
        Some((left, right)) if is_field(left) && is_field(right) => {
            Ok(ClauseTest::Equal { left: parse_path(left)?, right: parse_path(right)? })
        }
        Some((left, values)) if is_field(left) => {
            Ok(ClauseTest::Field { path: parse_path(left)?, values: list(values) })
        }
        Some((kind, values)) => {
            let (values, newest) = match values.strip_suffix('@') {
                Some(values) => (values, true),
                None => (values, false),
            };
            let (statuses, reasons) = match values.split_once(':') {
                Some((statuses, reasons)) => (statuses, list(reasons)),
                None => (values, Vec::new()),
            };
            let statuses = list(statuses);
            match statuses.iter().find(|one| {
                !matches!(one.as_str(), "True" | "False" | "Unknown" | "Degraded" | "Progressing")
            }) {
                Some(other) => Err(format!("{other:?} is not a valid condition status")),
                None => {
                    Ok(ClauseTest::Condition { kind: kind.to_owned(), statuses, reasons, is_newest: newest })
                }
            }
        }
    }
}

/// Returns true if the text is a field rather than a condition type, which may contain dots too.
fn is_field(text: &str) -> bool {
    ["", "spec", "metadata", "status"]
        .iter()
        .any(|section| text.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
}

/// Maps with keys that may contain dots.
const DOTTED_KEY_MAPS: [&str; 3] = ["metadata.annotations.", "metadata.labels.", "spec.sparkConf."];

fn parse_path(text: &str) -> Result<Path, String> {
    if text == "." {
        return Ok(Path { is_in_status: true, steps: Vec::new() });
    }
    if let Some((map, key)) = DOTTED_KEY_MAPS.iter().find_map(|map| Some((map, text.strip_prefix(map)?))) {
        let steps = map.split('.').filter(|step| !step.is_empty()).chain([key]);
        return Ok(Path { is_in_status: false, steps: steps.map(str::to_owned).collect() });
    }
    let (in_status, steps) = match text.strip_prefix('.') {
        Some(steps) => (true, steps),
        None => (false, text),
    };
    if !is_field(text) || steps.split('.').any(str::is_empty) {
        return Err(format!("{text:?} is not a field; use spec.field, or .field for status.field"));
    }
    Ok(Path { is_in_status: in_status, steps: steps.split('.').map(str::to_owned).collect() })
}
