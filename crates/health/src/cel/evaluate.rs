//! Evaluation of an expression for an object, with a step limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::budget::Budget;
use super::error::{EvaluationError, EvaluationResult, invalid, overflow};
use super::functions;
use super::parse::{Expression, Operator};
use super::value::Value;

/// Evaluates an expression. The object's top-level fields are available by name, and the whole object as
/// `self`.
pub(super) fn evaluate(expression: &Expression, object: &Json) -> EvaluationResult {
    let mut run = Evaluator { object, names: Vec::new(), budget: Budget::new() };
    run.evaluate(expression)
}

/// Evaluates an expression with a single named value.
pub(super) fn evaluate_on(expression: &Expression, name: &str, value: &Json) -> EvaluationResult {
    let mut run = Evaluator { object: &Json::Null, names: Vec::new(), budget: Budget::new() };
    run.budget.take_steps(json_size(value))?;
    run.names.push((name, Value::from_json(value)));
    run.evaluate(expression)
}

struct Evaluator<'a> {
    object: &'a Json,
    /// Variables of macros. The innermost variable is last.
    names: Vec<(&'a str, Value)>,
    budget: Budget,
}

impl<'a> Evaluator<'a> {
    fn evaluate(&mut self, expression: &'a Expression) -> EvaluationResult {
        self.budget.take_steps(1)?;
        match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Name(name) => self.resolve_name(name),
            Expression::List(entries) => {
                let entries = entries.iter().map(|entry| self.evaluate(entry)).collect::<Result<_, _>>()?;
                Ok(Value::List(Arc::new(entries)))
            }
            Expression::Map(entries) => self.evaluate_map(entries),
            Expression::Not(inner) => Ok(Value::Boolean(!self.evaluate_boolean(inner)?)),
            Expression::Negate(inner) => match self.evaluate(inner)? {
                Value::Integer(number) => number.checked_neg().map(Value::Integer).ok_or_else(overflow),
                Value::Double(number) => Ok(Value::Double(-number)),
                other => Err(invalid(format!("`-` needs a number, found {}", other.type_name()))),
            },
            Expression::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
                self.evaluate_logic(*operator, left, right)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                self.budget.take_steps(left.cost().saturating_add(right.cost()))?;
                functions::evaluate_binary(*operator, &left, &right)
            }
            Expression::Choice(condition, yes, no) => {
                let chosen = if self.evaluate_boolean(condition)? { yes } else { no };
                self.evaluate(chosen)
            }
            Expression::Field { object: of, name, is_optional: optional } => {
                let of = self.evaluate(of)?;
                select_field(of, name, *optional)
            }
            Expression::Index { object: of, index: at, is_optional: optional } => {
                let (of, at) = (self.evaluate(of)?, self.evaluate(at)?);
                select_index(of, &at, *optional)
            }
            Expression::Call { object: of, name, arguments } => {
                self.evaluate_call(of.as_deref(), name, arguments)
            }
        }
    }

    fn resolve_name(&mut self, name: &str) -> EvaluationResult {
        if let Some((_, value)) = self.names.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        let found = if name == "self" { Some(self.object) } else { self.object.get(name) };
        let found = found.ok_or_else(|| EvaluationError::MissingField(name.to_owned()))?;
        self.budget.take_steps(json_size(found))?;
        Ok(Value::from_json(found))
    }

    fn evaluate_boolean(&mut self, expression: &'a Expression) -> Result<bool, EvaluationError> {
        match self.evaluate(expression)? {
            Value::Boolean(value) => Ok(value),
            other => Err(invalid(format!("expected a boolean, found {}", other.type_name()))),
        }
    }

    /// Evaluates a logical operator. Either operand may decide the result even if evaluating the other fails.
    fn evaluate_logic(
        &mut self,
        operator: Operator,
        left: &'a Expression,
        right: &'a Expression,
    ) -> EvaluationResult {
        let decides = operator == Operator::Or;
        let left = self.evaluate_boolean(left);
        if left == Ok(decides) {
            return Ok(Value::Boolean(decides));
        }
        match (left, self.evaluate_boolean(right)) {
            (Err(EvaluationError::Exhausted), _) | (_, Err(EvaluationError::Exhausted)) => {
                Err(EvaluationError::Exhausted)
            }
            (_, Ok(right)) if right == decides => Ok(Value::Boolean(decides)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => Ok(Value::Boolean(!decides)),
        }
    }

    fn evaluate_map(&mut self, entries: &'a [(Expression, Expression)]) -> EvaluationResult {
        let mut fields = BTreeMap::new();
        for (key, entry) in entries {
            let Value::Text(key) = self.evaluate(key)? else {
                return Err(invalid("keys of maps must be strings"));
            };
            fields.insert(key, self.evaluate(entry)?);
        }
        Ok(Value::Map(Arc::new(fields)))
    }

    fn evaluate_call(
        &mut self,
        of: Option<&'a Expression>,
        name: &str,
        arguments: &'a [Expression],
    ) -> EvaluationResult {
        match (of, name, arguments) {
            (None, "has", [Expression::Field { object: of, name, .. }]) => {
                let of = self.evaluate(of)?;
                match select_field(of, name, false) {
                    Ok(_) => Ok(Value::Boolean(true)),
                    Err(EvaluationError::MissingField(_)) => Ok(Value::Boolean(false)),
                    Err(other) => Err(other),
                }
            }
            (
                Some(of),
                "all" | "exists" | "exists_one" | "filter" | "map",
                [Expression::Name(each), rest @ ..],
            ) if matches!(rest.len(), 1 | 2) => {
                let of = self.evaluate(of)?;
                self.evaluate_macro(of, name, each, rest)
            }
            (Some(Expression::Name(optional)), "of", [value]) if optional == "optional" => {
                Ok(Value::Optional(Some(Arc::new(self.evaluate(value)?))))
            }
            (Some(Expression::Name(optional)), "none", []) if optional == "optional" => {
                Ok(Value::Optional(None))
            }
            _ => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for argument in of.into_iter().chain(arguments) {
                    let value = self.evaluate(argument)?;
                    self.budget.take_steps(value.cost())?;
                    values.push(value);
                }
                functions::call_function(&mut self.budget, name, &values)
            }
        }
    }

    /// Evaluates macros over a list or the keys of a map.
    fn evaluate_macro(
        &mut self,
        of: Value,
        name: &str,
        each: &'a str,
        rest: &'a [Expression],
    ) -> EvaluationResult {
        let entries: Vec<Value> = match of {
            Value::List(entries) => entries.to_vec(),
            Value::Map(fields) => fields.keys().cloned().map(Value::Text).collect(),
            other => {
                return Err(invalid(format!("`{name}` needs a list or a map, found {}", other.type_name())));
            }
        };
        self.budget.take_steps(entries.len())?;
        let (mut kept, mut count, mut fault) = (Vec::new(), 0_usize, None);
        let total = entries.len();
        for entry in entries {
            self.names.push((each, entry.clone()));
            let found = match (name, rest) {
                ("map", [to]) => self.evaluate(to).map(Some),
                ("map", [when, to]) => match self.evaluate_boolean(when) {
                    Ok(true) => self.evaluate(to).map(Some),
                    Ok(false) => Ok(None),
                    Err(fault) => Err(fault),
                },
                (_, [when]) => self.evaluate_boolean(when).map(|holds| holds.then_some(entry)),
                _ => Err(invalid(format!("`{name}` needs a name and an expression"))),
            };
            self.names.pop();
            match (name, found) {
                (_, Err(EvaluationError::Exhausted)) => return Err(EvaluationError::Exhausted),
                ("exists", Ok(Some(_))) => return Ok(Value::Boolean(true)),
                ("all", Ok(None)) => return Ok(Value::Boolean(false)),
                // Another entry may still determine the result.
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

fn select_field(of: Value, name: &str, optional: bool) -> EvaluationResult {
    match of {
        Value::Map(fields) => match (fields.get(name).cloned(), optional) {
            (found, true) => Ok(Value::Optional(found.map(Arc::new))),
            (Some(found), false) => Ok(found),
            (None, false) => Err(EvaluationError::MissingField(name.to_owned())),
        },
        // A chain that starts with an optional field stays optional.
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => select_field((*inner).clone(), name, true),
        Value::Null => Err(EvaluationError::MissingField(name.to_owned())),
        other => Err(invalid(format!("cannot read field {name} of {}", other.type_name()))),
    }
}

fn select_index(of: Value, at: &Value, optional: bool) -> EvaluationResult {
    let missing = |optional, found: Option<Value>| match (found, optional) {
        (found, true) => Ok(Value::Optional(found.map(Arc::new))),
        (Some(found), false) => Ok(found),
        (None, false) => Err(EvaluationError::MissingField(match at {
            Value::Text(key) => key.to_string(),
            _ => "the list entry".to_owned(),
        })),
    };
    match (&of, at) {
        (Value::Map(fields), Value::Text(key)) => missing(optional, fields.get(key).cloned()),
        (Value::List(entries), Value::Integer(place)) => {
            missing(optional, usize::try_from(*place).ok().and_then(|place| entries.get(place)).cloned())
        }
        (Value::Optional(None), _) => Ok(of),
        (Value::Optional(Some(inner)), _) => select_index((**inner).clone(), at, true),
        _ => Err(invalid(format!("cannot index {} with {}", of.type_name(), at.type_name()))),
    }
}

/// Returns the number of values in a JSON value, which is the cost of reading it.
fn json_size(json: &Json) -> usize {
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
