//! Rules of the user as expressions (CEL), as Flux has them: which tell that an object is current, in progress or failed.
//!
//! The part of CEL that such expressions use, with a budget: fields, operators, macros, texts, optional fields. It has no
//! clock, and no types of its own but those of JSON.

mod condition;
mod functions;
mod names;
mod quotes;
mod run;
mod syntax;
mod value;

use serde_json::Value as Json;
use tidegate_model::annotations::{HEALTH_CURRENT, HEALTH_FAILED, HEALTH_IN_PROGRESS};
use tidegate_model::{Health, HealthStatus, Object};

use crate::script::{target_of_key, target_of_path};
use crate::verdict::Verdict;
use crate::{HealthError, generation};
use run::Fault;
use syntax::Expression;
use value::Value;

pub use condition::Condition;
pub(crate) use run::STEPS_MAX;

/// What a file of expressions is called in a folder.
pub const EXPRESSIONS_FILE: &str = "health.yaml";
/// What the keys of expressions in a ConfigMap begin with.
pub const EXPRESSIONS_KEY_PREFIX: &str = "tidegate.health.";

/// Fields that objects have outside their metadata, specification and status are few.
const USUAL_NAMES: [&str; 10] =
    ["self", "apiVersion", "kind", "metadata", "spec", "status", "data", "type", "rules", "parameters"];

/// A rule of expressions. One that cannot be read judges its kind all the same, as unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Expressions {
    target: String,
    name: String,
    source: Json,
    parsed: Result<Parsed, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Parsed {
    current: Expression,
    in_progress: Option<Expression>,
    failed: Option<Expression>,
}

impl Expressions {
    /// A rule for `group/Kind` as [`Script::load`](crate::Script::load) has it. `source` is a map with the texts
    /// `current`, and if wished `inProgress` and `failed`; other fields are passed over.
    pub fn load(target: impl Into<String>, name: impl Into<String>, source: Json) -> Self {
        let parsed = parse(&source);
        Self { target: target.into(), name: name.into(), source, parsed }
    }

    /// A rule from a folder: `<group>/<Kind>/health.yaml` or `<Kind>/health.yaml`, where `_` is any text. `None`: the
    /// place does not say which kind.
    pub fn from_path(path: &str, name: impl Into<String>, source: Json) -> Option<Self> {
        Some(Self::load(target_of_path(path, EXPRESSIONS_FILE)?, name, source))
    }

    /// A rule from a ConfigMap, by what follows [`EXPRESSIONS_KEY_PREFIX`] in its key: `<group>_<Kind>` or `<Kind>`.
    /// `None`: the key does not say which kind.
    pub fn from_key(key: &str, name: impl Into<String>, source: Json) -> Option<Self> {
        Some(Self::load(target_of_key(key)?, name, source))
    }

    /// Whether an object has a rule in its annotations.
    pub(crate) fn are_in(object: &Object) -> bool {
        [HEALTH_CURRENT, HEALTH_IN_PROGRESS, HEALTH_FAILED]
            .iter()
            .any(|name| object.annotation(name).is_some())
    }

    /// The rule in the annotations of an object.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        if !Self::are_in(object) {
            return None;
        }
        let fields =
            [("current", HEALTH_CURRENT), ("inProgress", HEALTH_IN_PROGRESS), ("failed", HEALTH_FAILED)];
        let said = |(field, name): (&str, &str)| Some((field.to_owned(), object.annotation(name)?.into()));
        let source: serde_json::Map<_, _> = fields.into_iter().filter_map(said).collect();
        Some(Self::load("", "annotation", Json::Object(source)))
    }

    /// What it is for.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Where it was read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The texts it was read from.
    pub fn source(&self) -> &Json {
        &self.source
    }

    /// What keeps it from being used, with where it was read.
    pub fn fault(&self) -> Option<String> {
        self.reason().map(|reason| format!("{}: {reason}; mend the expression", self.name))
    }

    /// What keeps it from being used.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.parsed.as_ref().err().map(String::as_str)
    }

    /// What in it probably never gives an answer: functions that are not known here, and names that objects rarely have.
    pub fn doubts(&self) -> Vec<String> {
        let Ok(Parsed { current, in_progress, failed }) = &self.parsed else { return Vec::new() };
        let named =
            [("current", Some(current)), ("inProgress", in_progress.as_ref()), ("failed", failed.as_ref())];
        let doubts = |(field, expression): (&'static str, Option<&Expression>)| {
            let unknown = expression.map(|one| names::unknown(one, |name| USUAL_NAMES.contains(&name)));
            unknown.unwrap_or_default().into_iter().map(move |doubt| format!("{field}: {doubt}"))
        };
        named.into_iter().flat_map(doubts).collect()
    }

    /// What the expressions say of an object. A status that is older than the spec says nothing; then the first counts
    /// that is true, of `inProgress`, `failed`, `current`. A field that is not there makes an expression not true.
    pub(crate) fn judge(&self, object: &Object) -> Verdict {
        let parsed = self
            .parsed
            .as_ref()
            .map_err(|_| HealthError::ExpressionFault { fault: self.fault().unwrap_or_default() })?;
        if generation::observed(object).is_some_and(|seen| seen < object.generation()) {
            return Ok(Health::new(HealthStatus::Progressing, generation::waiting(object.generation())));
        }
        let Parsed { current, in_progress, failed } = parsed;
        for (name, expression, status) in [
            ("inProgress", in_progress.as_ref(), HealthStatus::Progressing),
            ("failed", failed.as_ref(), HealthStatus::Degraded),
            ("current", Some(current), HealthStatus::Healthy),
        ] {
            let Some(expression) = expression else { continue };
            if self.holds(name, expression, object)? {
                return Ok(Health::new(status, message(object, name)));
            }
        }
        Ok(Health::new(HealthStatus::Progressing, "Waiting until the expression current is true"))
    }

    fn holds(&self, name: &str, expression: &Expression, object: &Object) -> Result<bool, HealthError> {
        let reason = match run::run(expression, object.as_value()) {
            Ok(Value::Boolean(value)) => return Ok(value),
            Err(Fault::Missing(_)) => return Ok(false),
            Ok(other) => format!("it gives {}, not a boolean", other.described()),
            Err(Fault::Wrong(reason)) => reason,
            Err(Fault::Exhausted) => format!("it was stopped after {STEPS_MAX} steps"),
        };
        Err(HealthError::Expression { expression: format!("{name} of {}", self.name), reason })
    }
}

fn parse(source: &Json) -> Result<Parsed, String> {
    let read = |field: &str| match source.get(field) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => {
            syntax::parse(text).map(Some).map_err(|reason| format!("{field}: {reason}"))
        }
        Some(_) => Err(format!("{field} is not a text")),
    };
    Ok(Parsed {
        current: read("current")?.ok_or("the expression current is missing")?,
        in_progress: read("inProgress")?,
        failed: read("failed")?,
    })
}

/// The controller's words if it has some.
fn message(object: &Object, name: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Json::as_array);
    let ready =
        conditions.into_iter().flatten().find(|condition| condition.get("type") == Some(&"Ready".into()));
    let said = ready.and_then(|condition| condition.get("message")?.as_str()).unwrap_or_default();
    if said.trim().is_empty() { format!("The expression {name} is true") } else { said.to_owned() }
}
