//! Template functions from Go and sprig.
//!
//! Each module contains the functions for one subject, as a table. Each parameter has a Go type, because Go
//! rejects arguments of other types.

mod core;
mod dates;
mod decimals;
mod encodings;
mod forbidden;
mod letter_case;
mod lists;
mod maps;
mod numbers;
mod re2;
mod regexes;
mod strings;
mod urls;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::CustomFunction;
use crate::value::Val;

/// Inputs of a function call besides its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Current time in seconds since 1970, or `None` if the caller of the crate didn't set it.
    pub(crate) now: Option<i64>,
    /// Maximum size of a string in bytes.
    pub(crate) text_bytes_max: usize,
}

/// Result of a function call, or an error message.
pub(crate) type CallResult = Result<Val, String>;

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Any,
    /// Any value, including a missing value, as in Go's built-in functions.
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

    /// Returns true if nil is a valid argument for a parameter of this type.
    pub(crate) fn takes_nil(self) -> bool {
        matches!(self, Self::Any | Self::Raw | Self::Map)
    }
}

type Run = fn(&Call, &[Val]) -> CallResult;

/// A function that this crate implements.
pub(crate) struct Builtin {
    name: &'static str,
    parameters: &'static [Ty],
    /// True if the last parameter accepts any number of arguments.
    is_variadic: bool,
    run: Run,
}

const fn fixed(name: &'static str, parameters: &'static [Ty], run: Run) -> Builtin {
    Builtin { name, parameters, is_variadic: false, run }
}

const fn variadic(name: &'static str, parameters: &'static [Ty], run: Run) -> Builtin {
    Builtin { name, parameters, is_variadic: true, run }
}

/// A function that templates can call.
#[derive(Clone)]
pub(crate) enum Function {
    Builtin(&'static Builtin),
    Custom(Arc<CustomFunction>),
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
        regexes::SPRIG,
        forbidden::SPRIG,
        strings::SPRIG,
        urls::SPRIG,
        letter_case::SPRIG,
    ])
});

fn by_name(tables: &[&'static [Builtin]]) -> HashMap<&'static str, &'static Builtin> {
    tables.iter().flat_map(|table| table.iter()).map(|function| (function.name, function)).collect()
}

/// Finds a function by name. If both libraries define it, sprig's takes precedence over Go's.
pub(crate) fn find(name: &str, sprig: bool) -> Option<Function> {
    let of_sprig = sprig.then(|| SPRIG.get(name)).flatten();
    of_sprig.or_else(|| GO.get(name)).map(|function| Function::Builtin(function))
}

impl Function {
    pub(crate) fn from_custom(function: Arc<CustomFunction>) -> Self {
        Self::Custom(function)
    }

    /// Returns Go's error message if the number of arguments is wrong.
    pub(crate) fn wrong_count(&self, name: &str, count: usize, written: usize) -> Option<String> {
        let Self::Builtin(function) = self else { return None };
        let wanted = function.parameters.len();
        if function.is_variadic {
            let least = wanted.saturating_sub(1);
            return (count < least)
                .then(|| format!("wrong number of args for {name}: want at least {least} got {written}"));
        }
        (count != wanted).then(|| format!("wrong number of args for {name}: want {wanted} got {count}"))
    }

    /// Returns the type of the parameter for the argument at `index`.
    pub(crate) fn parameter(&self, index: usize) -> Ty {
        let Self::Builtin(function) = self else { return Ty::Any };
        function.parameters.get(index).or(function.parameters.last()).copied().unwrap_or(Ty::Any)
    }

    pub(crate) fn run(&self, call: &Call, arguments: &[Val]) -> CallResult {
        match self {
            Self::Builtin(function) => (function.run)(call, arguments),
            Self::Custom(function) => {
                let arguments: Option<Vec<_>> = arguments.iter().map(Val::to_json).collect();
                let arguments = arguments.ok_or("an argument cannot be represented as JSON")?;
                function(&arguments).map(|value| Val::from_json(&value))
            }
        }
    }

    /// Returns true if Go returns the result with the type `interface {}`.
    pub(crate) fn returns_interface(&self, value: &Val) -> bool {
        matches!(value, Val::Nil)
    }
}

// ---- access to arguments, whose types have already been checked ----

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

/// Go's error message for an operation on a nil value.
const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// Converts a value to text. Strings are left unchanged, and other values are formatted like `%v`.
fn text_of(value: &Val) -> String {
    match value {
        Val::Str(text) => text.to_string(),
        other => crate::format::format_plain(other),
    }
}

/// Returns the elements of a list as strings, without nulls. Any other value is treated as a list with one
/// element.
fn texts_of(value: &Val) -> Vec<String> {
    match value {
        Val::List(list) => list.items.iter().filter(|item| !item.is_null()).map(text_of).collect(),
        Val::Absent | Val::Nil => Vec::new(),
        other => vec![text_of(other)],
    }
}

/// Fails if a string of `bytes` bytes would exceed the size limit. Called before the string is built.
fn check_room(call: &Call, bytes: usize) -> Result<(), String> {
    if bytes > call.text_bytes_max {
        return Err(format!("the result would be longer than {} bytes", call.text_bytes_max));
    }
    Ok(())
}
