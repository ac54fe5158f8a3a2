//! Evaluation of a row for an object. Content of the wrong type counts as absent, because rows read the
//! statuses of third-party controllers. An unrecognized status is Progressing.

use serde_json::Value;
use tidegate_model::{Health, HealthStatus, Object};

use super::gateway_api::{find_unanswered_listener, find_unanswered_parent};
use super::generation::{is_outdated, newest_generation, observed_generation};
use super::row::{ClauseTest, Comparison, EvidenceKind, HealthClause, HealthRow, Operand, Path};
use crate::generation;
use crate::script::matches_pattern;
use crate::verdict::first_non_blank;

/// Health of an object, and the generation of the conditions behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowAssessment {
    /// The health, or `None` without a health status to wait for.
    pub health: Option<Health>,
    pub generation: Option<i64>,
    /// True if the object turns Degraded only after the grace period, which starts at the condition's last
    /// transition.
    pub has_grace_period: bool,
}

const NOT_REPORTED: &str = "Waiting for the status to be reported";
/// Clause for objects that match none of the row's clauses.
static WAITING_CLAUSE: HealthClause = HealthClause {
    status: Some(HealthStatus::Progressing),
    has_grace_period: false,
    tests: Vec::new(),
    default_message: String::new(),
};

/// Evaluates a row for an object.
pub(crate) fn assess_row(row: &HealthRow, object: &Object) -> RowAssessment {
    let spec = object.generation();
    let behind = |seen: &i64| row.evidence != EvidenceKind::Once && *seen < spec;
    let waiting = |generation| RowAssessment {
        health: Some(Health::new(HealthStatus::Progressing, generation::outdated_status_message(spec))),
        generation,
        has_grace_period: false,
    };
    let observed = generation::observed_generation(object);
    if observed.as_ref().is_some_and(behind) {
        return waiting(observed);
    }
    let place = EvaluationContext {
        object: object.as_value(),
        status: object.pointer("/status").unwrap_or(&Value::Null),
    };
    let found = row.clauses.iter().find_map(|clause| Some((clause, place.match_all(&clause.tests)?)));
    let (clause, mut grounds) = found.unwrap_or_else(|| (&WAITING_CLAUSE, ClauseEvidence::default()));
    if clause.is_plain_default() {
        grounds = place.find_unmet_condition(row).unwrap_or(grounds);
    }
    // A generation for the whole status takes precedence over those of single conditions.
    if observed.is_none() && grounds.generation.as_ref().is_some_and(behind) {
        return waiting(grounds.generation);
    }
    let health = clause.status.map(|status| Health::new(status, clause_message(clause, &grounds, place)));
    RowAssessment { health, generation: grounds.generation, has_grace_period: clause.has_grace_period }
}

/// Evidence that a clause matches.
#[derive(Clone, Debug, Default)]
struct ClauseEvidence<'a> {
    /// Message from the object's status.
    message: &'a str,
    /// Description of the matching content.
    description: String,
    generation: Option<i64>,
}

fn clause_message(
    clause: &HealthClause,
    grounds: &ClauseEvidence<'_>,
    place: EvaluationContext<'_>,
) -> String {
    let of_status = || {
        let words =
            ["message", "error", "errorMessage", "failureMessage", "phaseReason", "description", "reason"];
        let text = |field| place.status.get(field).and_then(Value::as_str).unwrap_or_default();
        words.into_iter().map(text).find(|text| !text.trim().is_empty()).unwrap_or_default()
    };
    let all = [grounds.message, of_status(), &clause.default_message, &grounds.description, NOT_REPORTED];
    // A healthy object needs no messages about unmet conditions.
    let well = [grounds.message, &clause.default_message, &grounds.description, "Healthy"];
    let chosen = if clause.status == Some(HealthStatus::Healthy) {
        first_non_blank(&well)
    } else {
        first_non_blank(&all)
    };
    chosen.to_owned()
}

/// Context of a test: the object, and either its status or a list entry.
#[derive(Clone, Copy)]
struct EvaluationContext<'a> {
    object: &'a Value,
    status: &'a Value,
}

impl<'a> EvaluationContext<'a> {
    fn match_all(self, tests: &[ClauseTest]) -> Option<ClauseEvidence<'a>> {
        let mut all = ClauseEvidence::default();
        for test in tests {
            let grounds = self.match_test(test)?;
            if all.message.trim().is_empty() {
                all.message = grounds.message;
            }
            if all.description.is_empty() {
                all.description = grounds.description;
            }
            all.generation = all.generation.into_iter().chain(grounds.generation).min();
        }
        Some(all)
    }

    fn match_test(self, test: &ClauseTest) -> Option<ClauseEvidence<'a>> {
        match test {
            ClauseTest::Condition { kind, statuses, reasons, is_newest: newest } => {
                let means = |condition: &&'a Value| {
                    (kind == "*" || condition_field(condition, "type") == kind)
                        && statuses.iter().any(|status| condition_field(condition, "status") == status)
                        && (reasons.is_empty()
                            || reasons.iter().any(|reason| condition_field(condition, "reason") == reason))
                        && !(*newest && self.is_outdated(condition))
                };
                self.conditions().find(means).map(evidence_of)
            }
            ClauseTest::HasCondition(kind) => self.find_condition(kind),
            ClauseTest::OutdatedCondition(kinds) => {
                let means = |condition: &&'a Value| {
                    kinds.iter().any(|kind| condition_field(condition, "type") == kind)
                        && self.is_outdated(condition)
                };
                self.conditions().find(means).map(evidence_of)
            }
            ClauseTest::Field { path, values } => {
                let found = scalar_text(self.find(path)?)?;
                let means = |value: &String| match value.as_str() {
                    "N/N" => found.split_once('/').is_some_and(|(ready, all)| ready == all),
                    value => matches_pattern(value.as_bytes(), found.as_bytes()),
                };
                values.iter().any(means).then(|| field_evidence(path, &found))
            }
            ClauseTest::Equal { left, right } => {
                let found = self.find(left).filter(|found| self.find(right) == Some(*found))?;
                Some(
                    scalar_text(found)
                        .map_or_else(ClauseEvidence::default, |found| field_evidence(left, &found)),
                )
            }
            ClauseTest::IsSet(path) => {
                let value = self.find(path).filter(|value| is_set(value))?;
                Some(
                    scalar_text(value)
                        .map_or_else(ClauseEvidence::default, |found| field_evidence(path, &found)),
                )
            }
            ClauseTest::Compare { left, operator: by, right } => {
                let sum = |sum: i64, path| Some(sum.saturating_add(self.count_at(path)?));
                let (left_is, right_is) = (left.iter().try_fold(0, sum)?, self.operand_value(right)?);
                let left = left.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
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
                holds.then(|| ClauseEvidence { description: found, ..ClauseEvidence::default() })
            }
            ClauseTest::AnyEntry { list, test } => {
                entries(self.find(list)?).find_map(|entry| Self { status: entry, ..self }.match_test(test))
            }
            ClauseTest::Within { path, test } => Self { status: self.find(path)?, ..self }.match_test(test),
            ClauseTest::UnansweredParent => find_unanswered_parent(self.object)
                .map(|description| ClauseEvidence { description, ..ClauseEvidence::default() }),
            ClauseTest::UnansweredListener => find_unanswered_listener(self.object)
                .map(|description| ClauseEvidence { description, ..ClauseEvidence::default() }),
            ClauseTest::Not(test) => match self.match_test(test) {
                Some(_) => None,
                None => Some(ClauseEvidence::default()),
            },
        }
    }

    /// Returns the evidence for an unmet condition, one that the row requires for Healthy.
    fn find_unmet_condition(self, row: &HealthRow) -> Option<ClauseEvidence<'a>> {
        let well = row.clauses.iter().filter(|clause| clause.status == Some(HealthStatus::Healthy));
        let mut lacking =
            well.flat_map(|clause| &clause.tests).filter(|test| self.match_test(test).is_none());
        lacking.find_map(|test| match test {
            ClauseTest::Condition { kind, .. } if kind != "*" => self.find_condition(kind),
            _ => None,
        })
    }

    fn find_condition(self, kind: &str) -> Option<ClauseEvidence<'a>> {
        self.conditions().find(|condition| condition_field(condition, "type") == kind).map(evidence_of)
    }

    /// Returns true if a condition is about an older generation of the object.
    fn is_outdated(self, condition: &Value) -> bool {
        is_outdated(condition, newest_generation(self.object))
    }

    /// Returns all conditions. Cluster API keeps its newer conditions apart from the v1beta1 ones.
    fn conditions(self) -> impl Iterator<Item = &'a Value> {
        let newer = self.status.pointer("/v1beta2/conditions");
        self.status.get("conditions").into_iter().chain(newer).filter_map(Value::as_array).flatten()
    }

    fn value_at(self, path: &Path) -> &'a Value {
        if path.is_in_status { self.status } else { self.object }
    }

    fn find(self, path: &Path) -> Option<&'a Value> {
        let step = |value: &'a Value, step: &String| match value {
            Value::Array(all) => all.get(step.parse::<usize>().ok()?),
            value => value.get(step),
        };
        path.steps.iter().try_fold(self.value_at(path), step).filter(|value| !value.is_null())
    }

    /// Returns a number: 0 for an absent field, the size of a list or map, and `None`, which never matches,
    /// for anything else.
    fn count_at(self, path: &Path) -> Option<i64> {
        count_of(self.value_at(path), &path.steps)
    }

    fn operand_value(self, operand: &Operand) -> Option<i64> {
        match operand {
            Operand::Number(number) => Some(*number),
            Operand::Field(path) => self.count_at(path),
        }
    }
}

fn count_of(value: &Value, steps: &[String]) -> Option<i64> {
    let Some((step, rest)) = steps.split_first() else {
        return match value {
            Value::Null => Some(0),
            Value::String(text) => text.parse().ok(),
            Value::Array(_) | Value::Object(_) => i64::try_from(entries(value).count()).ok(),
            value => value.as_i64(),
        };
    };
    match step.strip_suffix("[]") {
        Some(step) => entries(value.get(step).unwrap_or(&Value::Null))
            .try_fold(0_i64, |sum, entry| Some(sum.saturating_add(count_of(entry, rest)?))),
        None => count_of(value.get(step).unwrap_or(&Value::Null), rest),
    }
}

/// Returns the entries in a list, or the values of a map.
fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    let (list, map) = (value.as_array(), value.as_object());
    list.into_iter().flatten().chain(map.into_iter().flat_map(|map| map.values()))
}

/// Returns a string field of a condition. Some controllers write the condition's status as a boolean.
fn condition_field<'a>(condition: &'a Value, field: &str) -> &'a str {
    match condition.get(field) {
        Some(Value::String(text)) => text,
        Some(Value::Bool(true)) => "True",
        Some(Value::Bool(false)) => "False",
        _ => "",
    }
}

fn evidence_of(condition: &Value) -> ClauseEvidence<'_> {
    let (kind, status, reason) = (
        condition_field(condition, "type"),
        condition_field(condition, "status"),
        condition_field(condition, "reason"),
    );
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    ClauseEvidence {
        message: condition_field(condition, "message"),
        description: format!("{kind} is {status}{because}"),
        generation: observed_generation(condition),
    }
}

fn field_evidence<'a>(path: &Path, found: &str) -> ClauseEvidence<'a> {
    let name = path.steps.last().map(String::as_str).unwrap_or_default();
    ClauseEvidence { description: format!("{name} is {found}"), ..ClauseEvidence::default() }
}

/// Returns a scalar in the notation of rows.
fn scalar_text(value: &Value) -> Option<String> {
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
