//! The functions of templates: those of Go itself, and those of sprig.
//!
//! One table a subject. A parameter has the type it has in Go, because a value of another type is an error there.

mod core;
mod dates;
mod decimals;
mod encodings;
mod lists;
mod maps;
mod numbers;
mod patterns;
mod re2;
mod refused;
mod texts;
mod urls;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::HostFunction;
use crate::value::Val;

/// What a function may know besides its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Seconds since 1970, where the caller said what time it is.
    pub(crate) now: Option<i64>,
    /// Bytes a text may have at the most.
    pub(crate) room: usize,
}

/// What a function gives, or what is wrong in words.
pub(crate) type Given = Result<Val, String>;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Any,
    /// As the built-in functions take it: anything, and nothing too.
    Raw,
    Bool,
    Str,
    Int,
    Float,
    Map,
    Time,
}

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Raw => "reflect.Value",
            Self::Bool => "bool",
            Self::Str => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Map => "map[string]interface {}",
            Self::Time => "time.Time",
        }
    }

    /// Whether Go can say nil in this type.
    pub(crate) fn takes_nil(self) -> bool {
        matches!(self, Self::Any | Self::Raw | Self::Map)
    }
}

type Run = fn(&Call, &[Val]) -> Given;

/// A function of this crate.
pub(crate) struct Builtin {
    name: &'static str,
    parameters: &'static [Ty],
    /// The last parameter stands for any number of arguments.
    variadic: bool,
    run: Run,
}

const fn f(name: &'static str, parameters: &'static [Ty], run: Run) -> Builtin {
    Builtin { name, parameters, variadic: false, run }
}

const fn v(name: &'static str, parameters: &'static [Ty], run: Run) -> Builtin {
    Builtin { name, parameters, variadic: true, run }
}

/// A function that a template can call.
#[derive(Clone)]
pub(crate) enum Function {
    Builtin(&'static Builtin),
    Host(Arc<HostFunction>),
}

static GO: LazyLock<HashMap<&'static str, &'static Builtin>> = LazyLock::new(|| by_name(&[core::GO]));

static SPRIG: LazyLock<HashMap<&'static str, &'static Builtin>> = LazyLock::new(|| {
    by_name(&[
        core::SPRIG,
        dates::SPRIG,
        encodings::SPRIG,
        lists::SPRIG,
        maps::SPRIG,
        numbers::SPRIG,
        patterns::SPRIG,
        refused::SPRIG,
        texts::SPRIG,
        urls::SPRIG,
        words::SPRIG,
    ])
});

fn by_name(tables: &[&'static [Builtin]]) -> HashMap<&'static str, &'static Builtin> {
    tables.iter().flat_map(|table| table.iter()).map(|function| (function.name, function)).collect()
}

/// Those of sprig go before those of Go.
pub(crate) fn find(name: &str, sprig: bool) -> Option<Function> {
    let of_sprig = sprig.then(|| SPRIG.get(name)).flatten();
    of_sprig.or_else(|| GO.get(name)).map(|function| Function::Builtin(function))
}

impl Function {
    pub(crate) fn of_host(function: Arc<HostFunction>) -> Self {
        Self::Host(function)
    }

    /// What Go says of a number of arguments, if it is not right.
    pub(crate) fn wrong_count(&self, name: &str, count: usize, written: usize) -> Option<String> {
        let Self::Builtin(function) = self else { return None };
        let wanted = function.parameters.len();
        if function.variadic {
            let least = wanted.saturating_sub(1);
            return (count < least)
                .then(|| format!("wrong number of args for {name}: want at least {least} got {written}"));
        }
        (count != wanted).then(|| format!("wrong number of args for {name}: want {wanted} got {count}"))
    }

    /// The type of an argument.
    pub(crate) fn parameter(&self, index: usize) -> Ty {
        let Self::Builtin(function) = self else { return Ty::Any };
        function.parameters.get(index).or(function.parameters.last()).copied().unwrap_or(Ty::Any)
    }

    pub(crate) fn run(&self, call: &Call, arguments: &[Val]) -> Given {
        match self {
            Self::Builtin(function) => (function.run)(call, arguments),
            Self::Host(function) => {
                let arguments: Option<Vec<_>> = arguments.iter().map(Val::to_json).collect();
                let arguments = arguments.ok_or("an argument is no JSON value")?;
                function(&arguments).map(|value| Val::from_json(&value))
            }
        }
    }

    /// Whether Go would hold what it gives as `interface {}`.
    pub(crate) fn gives_interface(&self, value: &Val) -> bool {
        matches!(value, Val::Nil)
    }
}

// ---- arguments, whose types were checked before ---------------------------------------------------------------------

fn at(values: &[Val], index: usize) -> &Val {
    values.get(index).unwrap_or(&Val::Absent)
}

fn str_at(values: &[Val], index: usize) -> &str {
    match at(values, index) {
        Val::Str(text) => text,
        _ => "",
    }
}

fn int_at(values: &[Val], index: usize) -> i64 {
    match at(values, index) {
        Val::Int(value) | Val::Int64(value) => *value,
        _ => 0,
    }
}

fn from(values: &[Val], index: usize) -> &[Val] {
    values.get(index..).unwrap_or_default()
}

/// What Go says when something is done with nothing.
const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// A value as a text: texts as they are, all else as `%v` prints it.
fn text_of(value: &Val) -> String {
    match value {
        Val::Str(text) => text.to_string(),
        other => crate::format::plain(other),
    }
}

/// The elements of a list as texts, without nulls; anything else is a list of one.
fn texts_of(value: &Val) -> Vec<String> {
    match value {
        Val::List(list) => list.items.iter().filter(|item| !item.is_null()).map(text_of).collect(),
        Val::Absent | Val::Nil => Vec::new(),
        other => vec![text_of(other)],
    }
}

/// Refuses a text that would become too long before it is made.
fn check_room(call: &Call, bytes: usize) -> Result<(), String> {
    if bytes > call.room {
        return Err(format!("a text of more than {} bytes", call.room));
    }
    Ok(())
}
