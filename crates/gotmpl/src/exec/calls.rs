//! Functions as they are called: their arguments, and what they may use.

use super::{Got, Ran, Run};
use crate::funcs::{Call, Ty};
use crate::node::{Number, Operand, What};
use crate::quote::quoted;
use crate::value::{Elem, Val, Weight};

/// How many bytes, or elements, a function may give for one step.
const GIVEN_PER_STEP: usize = 256;

/// How many values within a value are looked at for one step.
const PARTS_PER_STEP: usize = 16;

/// Functions that look at no more of a value than itself and what is directly in it.
const SHALLOW: [&str; 42] = [
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

/// Functions that know what to do with a value that is in itself.
const AWARE: [&str; 8] = [
    "mustToJson",
    "mustToPrettyJson",
    "mustToRawJson",
    "print",
    "println",
    "toJson",
    "toPrettyJson",
    "toRawJson",
];

impl Run<'_, '_> {
    /// Refuses what a function that looks at all of a value would not come to the end of.
    pub(super) fn weigh(&mut self, value: &Val, is_aware: bool) -> Ran<()> {
        if !value.has_parts() {
            return Ok(());
        }
        let parts_max = self.steps.saturating_mul(PARTS_PER_STEP);
        match value.weight(parts_max) {
            Weight::Parts(parts) => self.take(parts / PARTS_PER_STEP),
            Weight::TooDeep if is_aware => Ok(()),
            Weight::TooDeep => self.fail("values are nested too deep in it, or it is in itself"),
            Weight::TooMany => self.take(self.steps.saturating_add(1)),
        }
    }

    /// Calls a function; `place` and `written` are what an error of it quotes.
    #[expect(clippy::too_many_arguments, reason = "a call, and the place of it")]
    pub(super) fn call(
        &mut self,
        dot: &Got,
        name: &str,
        node: &Operand,
        place: usize,
        written: &impl std::fmt::Display,
        arguments: &[Operand],
        last: Option<Got>,
    ) -> Ran<Got> {
        self.at(node.at, node);
        let Some(function) = (self.setting.function)(name) else {
            return self.fail(format!("{} is not a defined function", quoted(name)));
        };
        let count = arguments.len() + usize::from(last.is_some());
        if let Some(message) = function.wrong_count(name, count, arguments.len()) {
            return self.fail(message);
        }
        if matches!(name, "and" | "or") {
            return self.choose(dot, name == "or", arguments, last);
        }
        let mut values = Vec::with_capacity(count);
        for (index, argument) in arguments.iter().enumerate() {
            values.push(self.argument(dot, function.parameter(index), argument)?);
        }
        if let Some(last) = last {
            values.push(self.checked(last, function.parameter(arguments.len()))?);
        }
        if name == "call" {
            // No value of a template is a function.
            if let Some(value) = values.first().filter(|value| !value.is_null()) {
                let called = match (arguments.first(), value) {
                    (Some(first), _) => first.to_string(),
                    (None, Val::Str(text)) => text.to_string(),
                    (None, other) => format!("<{} Value>", other.type_name()),
                };
                self.at(place, written);
                let ty = value.type_name();
                return self.fail(format!("error calling call: non-function {called} of type {ty}"));
            }
        }
        if !SHALLOW.contains(&name) {
            let is_aware = AWARE.contains(&name);
            for value in &values {
                self.weigh(value, is_aware)?;
            }
        }
        let call = Call { now: self.setting.now, room: self.setting.limits.output_bytes };
        match function.run(&call, &values) {
            Ok(value) => {
                let given = match &value {
                    Val::Str(text) => text.len(),
                    Val::List(list) => list.items.len(),
                    Val::Map(map) => map.len(),
                    _ => 0,
                };
                self.take(given / GIVEN_PER_STEP)?;
                Ok(Got { is_interface: function.gives_interface(&value), value })
            }
            Err(message) => {
                self.at(place, written);
                self.fail(format!("error calling {name}: {message}"))
            }
        }
    }

    /// `and` and `or` look at no more arguments than they need.
    fn choose(&mut self, dot: &Got, until: bool, arguments: &[Operand], last: Option<Got>) -> Ran<Got> {
        let mut got = Got::plain(Val::Absent);
        for argument in arguments {
            got = Got::plain(self.argument(dot, Ty::Raw, argument)?);
            if got.value.is_true() == until {
                return Ok(got);
            }
        }
        Ok(last.unwrap_or(got))
    }

    fn argument(&mut self, dot: &Got, ty: Ty, argument: &Operand) -> Ran<Val> {
        self.at(argument.at, argument);
        let expected = |run: &Self, word: &str| run.fail(format!("expected {word}; found {argument}"));
        match &argument.what {
            What::Nil if ty == Ty::Raw => Ok(Val::Absent),
            What::Nil if ty.takes_nil() => Ok(Val::Nil),
            What::Nil => self.fail(format!("cannot assign nil to {}", ty.name())),
            What::Bool(_) | What::Number(_) | What::Text(..) => match (ty, &argument.what) {
                (Ty::Any | Ty::Raw, _) => Ok(self.operand(dot, argument, false)?.value),
                (Ty::Bool, What::Bool(value)) => Ok(Val::Bool(*value)),
                (Ty::Bool, _) => expected(self, "bool"),
                (Ty::Str, What::Text(text, _)) => Ok(Val::Str(text.clone())),
                (Ty::Str, _) => expected(self, "string"),
                (Ty::Int, What::Number(Number { int: Some(int), .. })) => Ok(Val::Int(*int)),
                (Ty::Int, _) => expected(self, "integer"),
                (Ty::Float, What::Number(Number { float: Some(float), .. })) => Ok(Val::Float(*float)),
                (Ty::Float, _) => expected(self, "float"),
                _ => self.fail(format!("can't handle {argument} for arg of type {}", ty.name())),
            },
            _ => {
                let got = self.operand(dot, argument, false)?;
                self.checked(got, ty)
            }
        }
    }

    /// Whether a value can be an argument of a type.
    fn checked(&mut self, got: Got, ty: Ty) -> Ran<Val> {
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
