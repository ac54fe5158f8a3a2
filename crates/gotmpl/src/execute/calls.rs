//! Function calls: arguments and cost limits.

use super::{ExecResult, Executor, TypedValue};
use crate::funcs::{Call, Ty};
use crate::node::{Number, Operand, OperandKind};
use crate::quote::quote_string;
use crate::value::{Elem, Val, Weight};

/// Number of bytes or elements in a function's result per step.
const RESULT_SIZE_PER_STEP: usize = 256;

/// Number of nested argument values per step.
const PARTS_PER_STEP: usize = 16;

/// Functions that inspect only a value and its direct elements. Deeper values cost no steps.
const SHALLOW_FUNCTIONS: [&str; 42] = [
    "append",
    "chunk",
    "coalesce",
    "compact",
    "concat",
    "default",
    "dict",
    "dig",
    "empty",
    "first",
    "get",
    "hasKey",
    "index",
    "initial",
    "keys",
    "kindIs",
    "kindOf",
    "last",
    "len",
    "list",
    "mustAppend",
    "mustFirst",
    "mustInitial",
    "mustLast",
    "mustPrepend",
    "mustRest",
    "not",
    "omit",
    "pick",
    "pluck",
    "prepend",
    "push",
    "rest",
    "reverse",
    "set",
    "slice",
    "ternary",
    "tuple",
    "typeIs",
    "typeOf",
    "unset",
    "values",
];

/// Functions that can handle cyclic values.
const CYCLE_SAFE_FUNCTIONS: [&str; 8] = [
    "mustToJson",
    "mustToPrettyJson",
    "mustToRawJson",
    "print",
    "println",
    "toJson",
    "toPrettyJson",
    "toRawJson",
];

impl Executor<'_, '_> {
    /// Fails if the argument is cyclic or too large. `is_aware` is true for functions that can handle cyclic
    /// values.
    pub(super) fn check_argument_size(&mut self, value: &Val, is_aware: bool) -> ExecResult<()> {
        if !value.is_collection() {
            return Ok(());
        }
        let parts_max = self.steps.saturating_mul(PARTS_PER_STEP);
        match value.measure(parts_max) {
            Weight::Parts(parts) => self.take_steps(parts / PARTS_PER_STEP),
            Weight::TooDeep if is_aware => Ok(()),
            Weight::TooDeep => self.fail("the value is nested too deeply or contains itself"),
            Weight::TooMany => self.take_steps(self.steps.saturating_add(1)),
        }
    }

    /// Calls a function. `place` and `written` appear in error messages.
    #[expect(clippy::too_many_arguments, reason = "a call and its location")]
    pub(super) fn call_function(
        &mut self,
        dot: &TypedValue,
        name: &str,
        node: &Operand,
        place: usize,
        written: &impl std::fmt::Display,
        arguments: &[Operand],
        last: Option<TypedValue>,
    ) -> ExecResult<TypedValue> {
        self.set_position(node.offset, node);
        let Some(function) = (self.setting.find_function)(name) else {
            return self.fail(format!("{} is not a defined function", quote_string(name)));
        };
        let count = arguments.len() + usize::from(last.is_some());
        if let Some(message) = function.wrong_count(name, count, arguments.len()) {
            return self.fail(message);
        }
        if matches!(name, "and" | "or") {
            return self.evaluate_and_or(dot, name == "or", arguments, last);
        }
        let mut values = Vec::with_capacity(count);
        for (index, argument) in arguments.iter().enumerate() {
            values.push(self.evaluate_argument(dot, function.parameter(index), argument)?);
        }
        if let Some(last) = last {
            values.push(self.check_type(last, function.parameter(arguments.len()))?);
        }
        if name == "call" {
            // Template values are never functions, so anything but null is an error.
            if let Some(value) = values.first().filter(|value| !value.is_null()) {
                let called = match (arguments.first(), value) {
                    (Some(first), _) => first.to_string(),
                    (None, Val::Str(text)) => text.to_string(),
                    (None, other) => format!("<{} Value>", other.type_name()),
                };
                self.set_position(place, written);
                let ty = value.type_name();
                return self.fail(format!("error calling call: non-function {called} of type {ty}"));
            }
        }
        if !SHALLOW_FUNCTIONS.contains(&name) {
            let is_aware = CYCLE_SAFE_FUNCTIONS.contains(&name);
            for value in &values {
                self.check_argument_size(value, is_aware)?;
            }
        }
        let call = Call { now: self.setting.now, text_bytes_max: self.setting.limits.output_bytes };
        match function.run(&call, &values) {
            Ok(value) => {
                let given = match &value {
                    Val::Str(text) => text.len(),
                    Val::List(list) => list.items.len(),
                    Val::Map(map) => map.len(),
                    _ => 0,
                };
                self.take_steps(given / RESULT_SIZE_PER_STEP)?;
                Ok(TypedValue { is_interface: function.returns_interface(&value), value })
            }
            Err(message) => {
                self.set_position(place, written);
                self.fail(format!("error calling {name}: {message}"))
            }
        }
    }

    /// Evaluates `and` or `or` with short-circuit evaluation.
    fn evaluate_and_or(
        &mut self,
        dot: &TypedValue,
        until: bool,
        arguments: &[Operand],
        last: Option<TypedValue>,
    ) -> ExecResult<TypedValue> {
        let mut got = TypedValue::concrete(Val::Absent);
        for argument in arguments {
            got = TypedValue::concrete(self.evaluate_argument(dot, Ty::Raw, argument)?);
            if got.value.is_true() == until {
                return Ok(got);
            }
        }
        Ok(last.unwrap_or(got))
    }

    fn evaluate_argument(&mut self, dot: &TypedValue, ty: Ty, argument: &Operand) -> ExecResult<Val> {
        self.set_position(argument.offset, argument);
        let expected = |run: &Self, word: &str| run.fail(format!("expected {word}; found {argument}"));
        match &argument.kind {
            OperandKind::Nil if ty == Ty::Raw => Ok(Val::Absent),
            OperandKind::Nil if ty.takes_nil() => Ok(Val::Nil),
            OperandKind::Nil => self.fail(format!("cannot assign nil to {}", ty.name())),
            OperandKind::Bool(_) | OperandKind::Number(_) | OperandKind::Text(..) => {
                match (ty, &argument.kind) {
                    (Ty::Any | Ty::Raw, _) => Ok(self.evaluate_operand(dot, argument, false)?.value),
                    (Ty::Bool, OperandKind::Bool(value)) => Ok(Val::Bool(*value)),
                    (Ty::Bool, _) => expected(self, "bool"),
                    (Ty::Str, OperandKind::Text(text, _)) => Ok(Val::Str(text.clone())),
                    (Ty::Str, _) => expected(self, "string"),
                    (Ty::Int, OperandKind::Number(Number { int: Some(int), .. })) => Ok(Val::Int(*int)),
                    (Ty::Int, _) => expected(self, "integer"),
                    (Ty::Float, OperandKind::Number(Number { float: Some(float), .. })) => {
                        Ok(Val::Float(*float))
                    }
                    (Ty::Float, _) => expected(self, "float"),
                    _ => self.fail(format!("can't handle {argument} for arg of type {}", ty.name())),
                }
            }
            _ => {
                let got = self.evaluate_operand(dot, argument, false)?;
                self.check_type(got, ty)
            }
        }
    }

    /// Returns the value if a parameter of the given type accepts it. Otherwise, fails with Go's error
    /// message.
    fn check_type(&mut self, got: TypedValue, ty: Ty) -> ExecResult<Val> {
        let fits = match (&got.value, ty) {
            (_, Ty::Any | Ty::Raw)
            | (Val::Bool(_), Ty::Bool)
            | (Val::Str(_), Ty::Str)
            | (Val::Int(_), Ty::Int)
            | (Val::Float(_), Ty::Float)
            | (Val::Time(_), Ty::Time) => true,
            (Val::Map(map), Ty::Map) => map.elem == Elem::Any,
            _ => false,
        };
        match &got.value {
            _ if fits => Ok(got.value),
            Val::Absent if ty.takes_nil() => Ok(Val::Absent),
            Val::Absent => self.fail(format!("invalid value; expected {}", ty.name())),
            Val::Nil => {
                let found = if got.is_interface { "interface {}" } else { "<nil>" };
                self.fail(format!("wrong type for value; expected {}; got {found}", ty.name()))
            }
            value => {
                let found = value.type_name();
                self.fail(format!("wrong type for value; expected {}; got {found}", ty.name()))
            }
        }
    }
}
