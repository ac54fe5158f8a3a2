//! Running an expression on an object, with every step counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::functions;
use super::syntax::{Expression, Operator};
use super::value::Value;

/// Steps of one run. An expression that looks at a hundred conditions takes some thousands.
pub(crate) const STEPS_MAX: usize = 200_000;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A field that is not there, yet perhaps.
    Missing(String),
    /// Something else.
    Wrong(String),
    /// Too many steps.
    Exhausted,
}

pub(super) type Outcome = Result<Value, Fault>;

pub(super) fn wrong(what: impl Into<String>) -> Fault {
    Fault::Wrong(what.into())
}

/// Runs an expression whose names are the object's top fields, and `self` for all of it.
pub(super) fn run(expression: &Expression, object: &Json) -> Outcome {
    let mut run = Run { object, names: Vec::new(), left: STEPS_MAX };
    run.value(expression)
}

/// Runs an expression in which a value has one name.
pub(super) fn run_on(expression: &Expression, name: &str, value: &Json) -> Outcome {
    let mut run = Run { object: &Json::Null, names: Vec::new(), left: STEPS_MAX };
    run.charge(size(value))?;
    run.names.push((name, Value::of(value)));
    run.value(expression)
}

pub(super) struct Run<'a> {
    object: &'a Json,
    /// Names of macros, the innermost last.
    names: Vec<(&'a str, Value)>,
    left: usize,
}

impl<'a> Run<'a> {
    pub(super) fn charge(&mut self, steps: usize) -> Result<(), Fault> {
        self.left = self.left.checked_sub(steps).ok_or(Fault::Exhausted)?;
        Ok(())
    }

    pub(super) fn value(&mut self, expression: &'a Expression) -> Outcome {
        self.charge(1)?;
        match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Name(name) => self.name(name),
            Expression::List(entries) => {
                let entries = entries.iter().map(|entry| self.value(entry)).collect::<Result<_, _>>()?;
                Ok(Value::List(Arc::new(entries)))
            }
            Expression::Map(entries) => self.map(entries),
            Expression::Not(inner) => Ok(Value::Boolean(!self.boolean(inner)?)),
            Expression::Negate(inner) => match self.value(inner)? {
                Value::Integer(number) => number.checked_neg().map(Value::Integer).ok_or_else(overflow),
                Value::Double(number) => Ok(Value::Double(-number)),
                other => Err(wrong(format!("- needs a number, found {}", other.described()))),
            },
            Expression::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
                self.logic(*operator, left, right)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.charge(left.weight().saturating_add(right.weight()))?;
                functions::binary(*operator, &left, &right)
            }
            Expression::Choice(condition, yes, no) => {
                let chosen = if self.boolean(condition)? { yes } else { no };
                self.value(chosen)
            }
            Expression::Field { of, name, optional } => {
                let of = self.value(of)?;
                field(of, name, *optional)
            }
            Expression::Index { of, at, optional } => {
                let (of, at) = (self.value(of)?, self.value(at)?);
                index(of, &at, *optional)
            }
            Expression::Call { of, name, arguments } => self.call(of.as_deref(), name, arguments),
        }
    }

    fn name(&mut self, name: &str) -> Outcome {
        if let Some((_, value)) = self.names.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        let found = if name == "self" { Some(self.object) } else { self.object.get(name) };
        let found = found.ok_or_else(|| Fault::Missing(name.to_owned()))?;
        self.charge(size(found))?;
        Ok(Value::of(found))
    }

    fn boolean(&mut self, expression: &'a Expression) -> Result<bool, Fault> {
        match self.value(expression)? {
            Value::Boolean(value) => Ok(value),
            other => Err(wrong(format!("a boolean is expected, found {}", other.described()))),
        }
    }

    /// One side may decide whatever the other is, even a fault.
    fn logic(&mut self, operator: Operator, left: &'a Expression, right: &'a Expression) -> Outcome {
        let decides = operator == Operator::Or;
        let left = self.boolean(left);
        if left == Ok(decides) {
            return Ok(Value::Boolean(decides));
        }
        match (left, self.boolean(right)) {
            (Err(Fault::Exhausted), _) | (_, Err(Fault::Exhausted)) => Err(Fault::Exhausted),
            (_, Ok(right)) if right == decides => Ok(Value::Boolean(decides)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => Ok(Value::Boolean(!decides)),
        }
    }

    fn map(&mut self, entries: &'a [(Expression, Expression)]) -> Outcome {
        let mut fields = BTreeMap::new();
        for (key, entry) in entries {
            let Value::Text(key) = self.value(key)? else { return Err(wrong("keys of maps are texts here")) };
            fields.insert(key, self.value(entry)?);
        }
        Ok(Value::Map(Arc::new(fields)))
    }

    fn call(&mut self, of: Option<&'a Expression>, name: &str, arguments: &'a [Expression]) -> Outcome {
        match (of, name, arguments) {
            (None, "has", [Expression::Field { of, name, .. }]) => {
                let of = self.value(of)?;
                match field(of, name, false) {
                    Ok(_) => Ok(Value::Boolean(true)),
                    Err(Fault::Missing(_)) => Ok(Value::Boolean(false)),
                    Err(other) => Err(other),
                }
            }
            (
                Some(of),
                "all" | "exists" | "exists_one" | "filter" | "map",
                [Expression::Name(each), rest @ ..],
            ) if matches!(rest.len(), 1 | 2) => {
                let of = self.value(of)?;
                self.over(of, name, each, rest)
            }
            (Some(Expression::Name(optional)), "of", [value]) if optional == "optional" => {
                Ok(Value::Optional(Some(Arc::new(self.value(value)?))))
            }
            (Some(Expression::Name(optional)), "none", []) if optional == "optional" => {
                Ok(Value::Optional(None))
            }
            _ => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for argument in of.into_iter().chain(arguments) {
                    let value = self.value(argument)?;
                    self.charge(value.weight())?;
                    values.push(value);
                }
                functions::call(self, name, &values)
            }
        }
    }

    /// The macros that go through a list, or through the keys of a map.
    fn over(&mut self, of: Value, name: &str, each: &'a str, rest: &'a [Expression]) -> Outcome {
        let entries: Vec<Value> = match of {
            Value::List(entries) => entries.to_vec(),
            Value::Map(fields) => fields.keys().cloned().map(Value::Text).collect(),
            other => return Err(wrong(format!("{name} needs a list or a map, found {}", other.described()))),
        };
        self.charge(entries.len())?;
        let (mut kept, mut count, mut fault) = (Vec::new(), 0_usize, None);
        let total = entries.len();
        for entry in entries {
            self.names.push((each, entry.clone()));
            let found = match (name, rest) {
                ("map", [to]) => self.value(to).map(Some),
                ("map", [when, to]) => match self.boolean(when) {
                    Ok(true) => self.value(to).map(Some),
                    Ok(false) => Ok(None),
                    Err(fault) => Err(fault),
                },
                (_, [when]) => self.boolean(when).map(|holds| holds.then_some(entry)),
                _ => Err(wrong(format!("{name} needs a name and an expression"))),
            };
            self.names.pop();
            match (name, found) {
                (_, Err(Fault::Exhausted)) => return Err(Fault::Exhausted),
                ("exists", Ok(Some(_))) => return Ok(Value::Boolean(true)),
                ("all", Ok(None)) => return Ok(Value::Boolean(false)),
                // Another entry may still decide.
                ("exists" | "all", Err(found)) => fault = fault.or(Some(found)),
                (_, Err(fault)) => return Err(fault),
                (_, Ok(Some(value))) => {
                    count += 1;
                    kept.push(value);
                }
                (_, Ok(None)) => {}
            }
        }
        match (name, fault) {
            (_, Some(fault)) => Err(fault),
            ("exists", None) => Ok(Value::Boolean(false)),
            ("all", None) => Ok(Value::Boolean(count == total)),
            ("exists_one", None) => Ok(Value::Boolean(count == 1)),
            _ => Ok(Value::List(Arc::new(kept))),
        }
    }
}

pub(super) fn overflow() -> Fault {
    wrong("a number is too large")
}

fn field(of: Value, name: &str, optional: bool) -> Outcome {
    match of {
        Value::Map(fields) => match (fields.get(name).cloned(), optional) {
            (found, true) => Ok(Value::Optional(found.map(Arc::new))),
            (Some(found), false) => Ok(found),
            (None, false) => Err(Fault::Missing(name.to_owned())),
        },
        // A chain that began with an optional field goes on as one.
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => field((*inner).clone(), name, true),
        Value::Null => Err(Fault::Missing(name.to_owned())),
        other => Err(wrong(format!("{name} is a field of {}", other.described()))),
    }
}

fn index(of: Value, at: &Value, optional: bool) -> Outcome {
    let missing = |optional, found: Option<Value>| match (found, optional) {
        (found, true) => Ok(Value::Optional(found.map(Arc::new))),
        (Some(found), false) => Ok(found),
        (None, false) => Err(Fault::Missing(match at {
            Value::Text(key) => key.to_string(),
            _ => "an entry of the list".to_owned(),
        })),
    };
    match (&of, at) {
        (Value::Map(fields), Value::Text(key)) => missing(optional, fields.get(key).cloned()),
        (Value::List(entries), Value::Integer(place)) => {
            missing(optional, usize::try_from(*place).ok().and_then(|place| entries.get(place)).cloned())
        }
        (Value::Optional(None), _) => Ok(of),
        (Value::Optional(Some(inner)), _) => index((**inner).clone(), at, true),
        _ => Err(wrong(format!("{} has no entry by {}", of.described(), at.described()))),
    }
}

/// Values in it: what reading it costs.
fn size(json: &Json) -> usize {
    let (mut count, mut open) = (0, vec![json]);
    while let Some(value) = open.pop() {
        count += 1;
        match value {
            Json::Array(entries) => open.extend(entries),
            Json::Object(fields) => open.extend(fields.values()),
            Json::String(text) => count += text.len() / 64,
            _ => {}
        }
    }
    count / 8
}
