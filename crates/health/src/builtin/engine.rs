//! Judging an object by a row. Content of the wrong type is content that is not there: a row reads what other people's
//! controllers write, and waits for what it knows.

use serde_json::Value;
use tidegate_model::{Health, HealthStatus, Object};

use super::row::{Clause, Comparison, Operand, Path, Proof, Row, Test};
use crate::generation;
use crate::verdict::first_of;

/// A verdict, and the generation it is about, as far as the conditions tell that it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Nothing: there is no health to wait for.
    pub health: Option<Health>,
    pub generation: Option<i64>,
}

const NOT_REPORTED: &str = "Waiting for the status to be reported";
/// What holds where no clause does.
static WAITS: Clause =
    Clause { status: Some(HealthStatus::Progressing), tests: Vec::new(), words: String::new() };

/// What a row says of an object.
pub(crate) fn judge(row: &Row, object: &Object) -> Judged {
    let spec = object.generation();
    let behind = |seen: &i64| row.proof != Proof::Once && *seen < spec;
    let waiting = |generation| Judged {
        health: Some(Health::new(HealthStatus::Progressing, generation::waiting(spec))),
        generation,
    };
    let observed = generation::observed(object);
    if observed.as_ref().is_some_and(behind) {
        return waiting(observed);
    }
    let place =
        Place { object: object.as_value(), status: object.pointer("/status").unwrap_or(&Value::Null) };
    let found = row.clauses.iter().find_map(|clause| Some((clause, place.holds_all(&clause.tests)?)));
    let (clause, mut grounds) = found.unwrap_or_else(|| (&WAITS, Grounds::default()));
    if clause.says_nothing() {
        grounds = place.lacking(row).unwrap_or(grounds);
    }
    // What speaks about the whole status goes before what speaks about one condition.
    if observed.is_none() && grounds.generation.as_ref().is_some_and(behind) {
        return waiting(grounds.generation);
    }
    let health = clause.status.map(|status| Health::new(status, message(clause, &grounds, place)));
    Judged { health, generation: grounds.generation }
}

/// What a clause rests on.
#[derive(Clone, Debug, Default)]
struct Grounds<'a> {
    /// The object's own words.
    message: &'a str,
    /// Words of ours for what was found.
    found: String,
    generation: Option<i64>,
}

fn message(clause: &Clause, grounds: &Grounds<'_>, place: Place<'_>) -> String {
    let of_status = || {
        let words = ["message", "error", "errorMessage", "failureMessage", "reason"];
        let text = |field| place.status.get(field).and_then(Value::as_str).unwrap_or_default();
        words.into_iter().map(text).find(|text| !text.trim().is_empty()).unwrap_or_default()
    };
    let all = [grounds.message, of_status(), &clause.words, &grounds.found, NOT_REPORTED];
    // Where all is well, what the controller said of something else is of no use.
    let well = [grounds.message, &clause.words, &grounds.found, "Healthy"];
    let chosen = if clause.status == Some(HealthStatus::Healthy) { first_of(&well) } else { first_of(&all) };
    chosen.to_owned()
}

/// Where a test looks: the object, and its status or an entry of a list.
#[derive(Clone, Copy)]
struct Place<'a> {
    object: &'a Value,
    status: &'a Value,
}

impl<'a> Place<'a> {
    fn holds_all(self, tests: &[Test]) -> Option<Grounds<'a>> {
        let mut all = Grounds::default();
        for test in tests {
            let grounds = self.holds(test)?;
            if all.message.trim().is_empty() {
                all.message = grounds.message;
            }
            if all.found.is_empty() {
                all.found = grounds.found;
            }
            all.generation = all.generation.into_iter().chain(grounds.generation).min();
        }
        Some(all)
    }

    fn holds(self, test: &Test) -> Option<Grounds<'a>> {
        match test {
            Test::Condition { kind, statuses, reasons } => {
                let means = |condition: &&'a Value| {
                    (kind == "*" || text(condition, "type") == kind)
                        && statuses.iter().any(|status| text(condition, "status") == status)
                        && (reasons.is_empty()
                            || reasons.iter().any(|reason| text(condition, "reason") == reason))
                };
                self.conditions().find(means).map(grounds_of)
            }
            Test::HasCondition(kind) => self.condition(kind),
            Test::Field { path, values } => {
                let found = shown(self.find(path)?)?;
                values.contains(&found).then(|| said(path, &found))
            }
            Test::IsSet(path) => {
                let value = self.find(path).filter(|value| is_set(value))?;
                Some(shown(value).map_or_else(Grounds::default, |found| said(path, &found)))
            }
            Test::Compare { left, by, right } => {
                let (left_is, right_is) = (self.number(left)?, self.operand(right)?);
                let holds = match by {
                    Comparison::Less => left_is < right_is,
                    Comparison::LessOrEqual => left_is <= right_is,
                    Comparison::Greater => left_is > right_is,
                    Comparison::GreaterOrEqual => left_is >= right_is,
                };
                let found = match right {
                    Operand::Field(_) => format!("{left} is {left_is} of {right_is}"),
                    Operand::Number(_) => format!("{left} is {left_is}"),
                };
                holds.then(|| Grounds { found, ..Grounds::default() })
            }
            Test::Some { list, test } => {
                let entries = self.find(list)?.as_array()?;
                entries.iter().find_map(|entry| Self { status: entry, ..self }.holds(test))
            }
            Test::Not(test) => match self.holds(test) {
                Some(_) => None,
                None => Some(Grounds::default()),
            },
        }
    }

    /// What is said of a condition by which the row would tell that all is well, and which is not as it should be.
    fn lacking(self, row: &Row) -> Option<Grounds<'a>> {
        let well = row.clauses.iter().filter(|clause| clause.status == Some(HealthStatus::Healthy));
        let mut lacking = well.flat_map(|clause| &clause.tests).filter(|test| self.holds(test).is_none());
        lacking.find_map(|test| match test {
            Test::Condition { kind, .. } if kind != "*" => self.condition(kind),
            _ => None,
        })
    }

    fn condition(self, kind: &str) -> Option<Grounds<'a>> {
        self.conditions().find(|condition| text(condition, "type") == kind).map(grounds_of)
    }

    fn conditions(self) -> impl Iterator<Item = &'a Value> {
        self.status.get("conditions").and_then(Value::as_array).into_iter().flatten()
    }

    fn find(self, path: &Path) -> Option<&'a Value> {
        let from = if path.in_status { self.status } else { self.object };
        path.steps.iter().try_fold(from, |value, step| value.get(step)).filter(|value| !value.is_null())
    }

    /// Not there is 0; what is no number compares with nothing.
    fn number(self, path: &Path) -> Option<i64> {
        match self.find(path) {
            None => Some(0),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_i64(),
        }
    }

    fn operand(self, operand: &Operand) -> Option<i64> {
        match operand {
            Operand::Number(number) => Some(*number),
            Operand::Field(path) => self.number(path),
        }
    }
}

fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn grounds_of(condition: &Value) -> Grounds<'_> {
    let (kind, status, reason) =
        (text(condition, "type"), text(condition, "status"), text(condition, "reason"));
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Grounds {
        message: text(condition, "message"),
        found: format!("{kind} is {status}{because}"),
        generation: condition.get("observedGeneration").and_then(Value::as_i64),
    }
}

fn said<'a>(path: &Path, found: &str) -> Grounds<'a> {
    let name = path.steps.last().map(String::as_str).unwrap_or_default();
    Grounds { found: format!("{name} is {found}"), ..Grounds::default() }
}

/// A value that a row can name.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}
