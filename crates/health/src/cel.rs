//! User rules written as CEL expressions, as in Flux. They define when an object is current, in progress or
//! failed.
//!
//! Tidegate supports the subset of CEL that such expressions typically use: fields, operators, macros,
//! strings and optional fields. The number of steps is limited. Expressions can't read a clock, and their
//! only types are those of JSON. The `cel` crate can't limit the steps of an evaluation
//! (<https://github.com/cel-rust/cel-rust/issues/56>).

mod budget;
mod condition;
mod error;
mod evaluate;
mod functions;
mod parse;
mod string_literals;
mod unknown_names;
mod value;

use serde_json::Value as Json;
use tidegate_model::annotations::{HEALTH_CURRENT, HEALTH_FAILED, HEALTH_IN_PROGRESS};
use tidegate_model::{Health, HealthStatus, Object};

use crate::script::{target_of_key, target_of_path};
use crate::verdict::Verdict;
use crate::{HealthError, generation};
use budget::STEPS_MAX;
use error::EvaluationError;
use parse::Expression;
use value::Value;

pub use condition::Condition;

/// Name of expression files in rule folders.
pub const EXPRESSIONS_FILE: &str = "health.yaml";
/// Prefix of expression keys in a ConfigMap.
pub const EXPRESSIONS_KEY_PREFIX: &str = "tidegate.health.";

/// Top-level fields that objects usually have.
const USUAL_NAMES: [&str; 10] =
    ["self", "apiVersion", "kind", "metadata", "spec", "status", "data", "type", "rules", "parameters"];

/// Rule made up of expressions. An invalid rule still applies to its kind, and its objects' health is
/// Unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Expressions {
    target: String,
    name: String,
    source: Json,
    parsed: Result<ParsedExpressions, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct ParsedExpressions {
    current: Expression,
    in_progress: Option<Expression>,
    failed: Option<Expression>,
}

impl Expressions {
    /// Creates a rule for `group/Kind`, like [`Script::load`](crate::Script::load). `source` is a map with
    /// the string `current` and, optionally, `inProgress` and `failed`. Other fields are ignored.
    pub fn load(target: impl Into<String>, name: impl Into<String>, source: Json) -> Self {
        let parsed = parse_expressions(&source);
        Self { target: target.into(), name: name.into(), source, parsed }
    }

    /// Creates a rule from a file in a folder: `<group>/<Kind>/health.yaml` or `<Kind>/health.yaml`, where
    /// `_` matches any text. Returns `None` if the path doesn't name a kind.
    pub fn from_path(path: &str, name: impl Into<String>, source: Json) -> Option<Self> {
        Some(Self::load(target_of_path(path, EXPRESSIONS_FILE)?, name, source))
    }

    /// Creates a rule from a ConfigMap entry, going by its key after [`EXPRESSIONS_KEY_PREFIX`]:
    /// `<group>_<Kind>` or `<Kind>`. Returns `None` if the key doesn't name a kind.
    pub fn from_key(key: &str, name: impl Into<String>, source: Json) -> Option<Self> {
        Some(Self::load(target_of_key(key)?, name, source))
    }

    /// Returns true if an object has a rule in its annotations.
    pub(crate) fn is_annotated(object: &Object) -> bool {
        [HEALTH_CURRENT, HEALTH_IN_PROGRESS, HEALTH_FAILED]
            .iter()
            .any(|name| object.annotation(name).is_some())
    }

    /// Returns the rule in an object's annotations.
    pub(crate) fn from_annotations(object: &Object) -> Option<Self> {
        if !Self::is_annotated(object) {
            return None;
        }
        let fields =
            [("current", HEALTH_CURRENT), ("inProgress", HEALTH_IN_PROGRESS), ("failed", HEALTH_FAILED)];
        let said = |(field, name): (&str, &str)| Some((field.to_owned(), object.annotation(name)?.into()));
        let source: serde_json::Map<_, _> = fields.into_iter().filter_map(said).collect();
        Some(Self::load("", "annotation", Json::Object(source)))
    }

    /// Returns the kind or pattern that the rule applies to.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the origin of the rule, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the source expressions of the rule.
    pub fn source(&self) -> &Json {
        &self.source
    }

    /// Returns the reason the rule is invalid, with the rule's origin.
    pub fn error(&self) -> Option<String> {
        self.error_reason().map(|reason| format!("{}: {reason}; fix the expression", self.name))
    }

    /// Returns the reason the rule is invalid, without its origin.
    pub(crate) fn error_reason(&self) -> Option<&str> {
        self.parsed.as_ref().err().map(String::as_str)
    }

    /// Returns the parts of the rule that will probably never yield a result, such as unknown functions and
    /// unusual names.
    pub fn suspicious_parts(&self) -> Vec<String> {
        let Ok(ParsedExpressions { current, in_progress, failed }) = &self.parsed else { return Vec::new() };
        let named =
            [("current", Some(current)), ("inProgress", in_progress.as_ref()), ("failed", failed.as_ref())];
        let doubts = |(field, expression): (&'static str, Option<&Expression>)| {
            let unknown = expression
                .map(|one| unknown_names::find_unknown_names(one, |name| USUAL_NAMES.contains(&name)));
            unknown.unwrap_or_default().into_iter().map(move |doubt| format!("{field}: {doubt}"))
        };
        named.into_iter().flat_map(doubts).collect()
    }

    /// Evaluates the expressions for an object. An object with an outdated status is Progressing. Otherwise,
    /// the first true expression wins, in the order `inProgress`, `failed`, `current`. An expression with an
    /// absent field is false.
    pub(crate) fn assess(&self, object: &Object) -> Verdict {
        let parsed = self
            .parsed
            .as_ref()
            .map_err(|_| HealthError::InvalidExpressions { fault: self.error().unwrap_or_default() })?;
        if generation::observed_generation(object).is_some_and(|seen| seen < object.generation()) {
            return Ok(Health::new(
                HealthStatus::Progressing,
                generation::outdated_status_message(object.generation()),
            ));
        }
        let ParsedExpressions { current, in_progress, failed } = parsed;
        for (name, expression, status) in [
            ("inProgress", in_progress.as_ref(), HealthStatus::Progressing),
            ("failed", failed.as_ref(), HealthStatus::Degraded),
            ("current", Some(current), HealthStatus::Healthy),
        ] {
            let Some(expression) = expression else { continue };
            if self.evaluate(name, expression, object)? {
                return Ok(Health::new(status, controller_message(object, name)));
            }
        }
        Ok(Health::new(HealthStatus::Progressing, "Waiting for the `current` expression to be true"))
    }

    fn evaluate(&self, name: &str, expression: &Expression, object: &Object) -> Result<bool, HealthError> {
        let reason = match evaluate::evaluate(expression, object.as_value()) {
            Ok(Value::Boolean(value)) => return Ok(value),
            Err(EvaluationError::MissingField(_)) => return Ok(false),
            Ok(other) => format!("the result is {}, not a boolean", other.type_name()),
            Err(EvaluationError::Invalid(reason)) => reason,
            Err(EvaluationError::Exhausted) => format!("evaluation stopped after {STEPS_MAX} steps"),
        };
        Err(HealthError::Expression { expression: format!("{name} of {}", self.name), reason })
    }
}

fn parse_expressions(source: &Json) -> Result<ParsedExpressions, String> {
    let read = |field: &str| match source.get(field) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => {
            parse::parse_expression(text).map(Some).map_err(|reason| format!("{field}: {reason}"))
        }
        Some(_) => Err(format!("{field} is not a string")),
    };
    Ok(ParsedExpressions {
        current: read("current")?.ok_or("the `current` expression is missing")?,
        in_progress: read("inProgress")?,
        failed: read("failed")?,
    })
}

/// Returns the controller's message, or a default text that names the true expression.
fn controller_message(object: &Object, name: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Json::as_array);
    let ready =
        conditions.into_iter().flatten().find(|condition| condition.get("type") == Some(&"Ready".into()));
    let said = ready.and_then(|condition| condition.get("message")?.as_str()).unwrap_or_default();
    if said.trim().is_empty() { format!("The `{name}` expression is true") } else { said.to_owned() }
}
