//! Go's built-in template functions, and sprig's functions for values of any type.

use super::{Builtin, Call, CallResult, Ty, at, fixed, from, str_at, text_of, variadic};
use crate::compare;
use crate::format;
use crate::quote::quote_string;
use crate::value::{List, Val};
use std::rc::Rc;

const ANY: &[Ty] = &[Ty::Any];
const RAW: &[Ty] = &[Ty::Raw];
const RAW2: &[Ty] = &[Ty::Raw, Ty::Raw];

pub(super) const GO: &[Builtin] = &[
    // Only the parameters of these two functions are used. The executor evaluates their arguments lazily and
    // never calls them.
    variadic("and", RAW2, |_, values| Ok(at(values, 0).clone())),
    variadic("or", RAW2, |_, values| Ok(at(values, 0).clone())),
    fixed("not", RAW, |_, values| Ok(Val::Bool(!at(values, 0).is_true()))),
    fixed("len", RAW, |_, values| len(at(values, 0))),
    variadic("index", RAW2, index),
    variadic("slice", RAW2, slice),
    variadic("print", ANY, |_, values| Ok(Val::str(format::print(values)))),
    variadic("println", ANY, |_, values| Ok(Val::str(format::println(values)))),
    variadic("printf", &[Ty::Str, Ty::Any], |call, values| {
        crate::printf::printf(str_at(values, 0), from(values, 1), call.text_bytes_max).map(Val::str)
    }),
    variadic("html", ANY, |_, values| Ok(Val::str(escape_html(&join_values(values))))),
    variadic("js", ANY, |_, values| Ok(Val::str(escape_js(&join_values(values))))),
    variadic("urlquery", ANY, |_, values| Ok(Val::str(super::urls::escape_query(&join_values(values))))),
    // The executor rejects values other than nil before calling this function, because template values are
    // never functions.
    variadic("call", RAW2, |_, _| Err("call of nil".to_owned())),
    variadic("eq", RAW2, |_, values| compare::eq(values).map(Val::Bool)),
    fixed("ne", RAW2, |_, values| compare::eq(values).map(|equal| Val::Bool(!equal))),
    fixed("lt", RAW2, |_, values| compare::lt(values).map(Val::Bool)),
    fixed("le", RAW2, |_, values| compare::le(values).map(Val::Bool)),
    fixed("gt", RAW2, |_, values| compare::gt(values).map(Val::Bool)),
    fixed("ge", RAW2, |_, values| compare::ge(values).map(Val::Bool)),
];

pub(super) const SPRIG: &[Builtin] = &[
    fixed("hello", &[], |_, _| Ok(Val::str("Hello!"))),
    variadic("default", &[Ty::Any, Ty::Any], |_, values| {
        let given = at(values, 1);
        Ok(if is_empty(given) { at(values, 0).clone() } else { given.clone() })
    }),
    fixed("empty", ANY, |_, values| Ok(Val::Bool(is_empty(at(values, 0))))),
    variadic("coalesce", ANY, |_, values| {
        Ok(values.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Val::Nil))
    }),
    variadic("all", ANY, |_, values| Ok(Val::Bool(!values.iter().any(is_empty)))),
    variadic("any", ANY, |_, values| Ok(Val::Bool(!values.iter().all(is_empty)))),
    fixed("ternary", &[Ty::Any, Ty::Any, Ty::Bool], |_, values| {
        let index = if at(values, 2).is_true() { 0 } else { 1 };
        Ok(at(values, index).clone())
    }),
    fixed("deepCopy", ANY, deep_copy),
    fixed("mustDeepCopy", ANY, deep_copy),
    fixed("typeOf", ANY, |_, values| Ok(Val::str(at(values, 0).type_name()))),
    fixed("typeIs", &[Ty::Str, Ty::Any], |_, values| {
        Ok(Val::Bool(str_at(values, 0) == at(values, 1).type_name()))
    }),
    fixed("typeIsLike", &[Ty::Str, Ty::Any], |_, values| {
        let (wanted, found) = (str_at(values, 0), at(values, 1).type_name());
        Ok(Val::Bool(wanted == found || found.strip_prefix('*') == Some(wanted)))
    }),
    fixed("kindOf", ANY, |_, values| Ok(Val::str(at(values, 0).kind_name()))),
    fixed("kindIs", &[Ty::Str, Ty::Any], |_, values| {
        Ok(Val::Bool(str_at(values, 0) == at(values, 1).kind_name()))
    }),
    fixed("deepEqual", &[Ty::Any, Ty::Any], |_, values| Ok(Val::Bool(at(values, 0).is_same(at(values, 1))))),
    fixed("fail", &[Ty::Str], |_, values| Err(str_at(values, 0).to_owned())),
    fixed("toString", ANY, |_, values| Ok(Val::str(text_of(at(values, 0))))),
    fixed("toStrings", ANY, |_, values| Ok(Val::strings(super::texts_of(at(values, 0))))),
    fixed("semver", &[Ty::Str], |_, values| {
        crate::semver::Version::parse(str_at(values, 0)).map(|version| Val::Version(Rc::new(version)))
    }),
    fixed("semverCompare", &[Ty::Str, Ty::Str], |_, values| {
        crate::semver::satisfies(str_at(values, 0), str_at(values, 1)).map(Val::Bool)
    }),
];

/// Returns true if `default` treats the value as empty.
pub(super) fn is_empty(value: &Val) -> bool {
    match value {
        Val::Time(_) | Val::Version(_) => false,
        other => !other.is_true(),
    }
}

const NO_TYPE: &str = "reflect: call of reflect.Value.Type on zero Value";

fn deep_copy(_: &Call, values: &[Val]) -> CallResult {
    match at(values, 0) {
        Val::Absent | Val::Nil => Err(NO_TYPE.to_owned()),
        value => Ok(value.deep_copy()),
    }
}

fn len(value: &Val) -> CallResult {
    match value {
        Val::Str(text) => Ok(Val::count(text.len())),
        Val::List(list) => Ok(Val::count(list.items.len())),
        Val::Map(map) => Ok(Val::count(map.len())),
        Val::Absent => Err(NO_TYPE.to_owned()),
        Val::Nil => Err("len of nil pointer".to_owned()),
        other => Err(format!("len of type {}", other.type_name())),
    }
}

/// Converts an index. Fails if it exceeds `length`.
fn check_index(value: &Val, length: usize) -> Result<usize, String> {
    let index = match value {
        Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => value.integer().unwrap_or_default(),
        Val::Absent | Val::Nil => return Err("cannot index slice/array with nil".to_owned()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    usize::try_from(index)
        .ok()
        .filter(|index| *index <= length)
        .ok_or_else(|| format!("index out of range: {index}"))
}

fn index(_: &Call, values: &[Val]) -> CallResult {
    let mut item = at(values, 0).clone();
    if item.is_null() {
        return Err("index of untyped nil".to_owned());
    }
    for key in from(values, 1) {
        item = match &item {
            Val::List(list) => {
                let index = check_index(key, list.items.len())?;
                list.items.get(index).cloned().ok_or("reflect: slice index out of range")?
            }
            Val::Str(text) => {
                let index = check_index(key, text.len())?;
                let byte = text.as_bytes().get(index).ok_or("reflect: string index out of range")?;
                Val::Uint8(*byte)
            }
            Val::Map(map) => match key {
                Val::Str(key) => map.get(key).unwrap_or(match map.elem {
                    crate::value::Elem::Str => Val::str(""),
                    _ => Val::Nil,
                }),
                Val::Absent | Val::Nil => return Err("value is nil; should be of type string".to_owned()),
                other => return Err(format!("value has type {}; should be string", other.type_name())),
            },
            Val::Nil | Val::Absent => return Err("index of nil pointer".to_owned()),
            other => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

fn slice(_: &Call, values: &[Val]) -> CallResult {
    let item = at(values, 0);
    let indexes = from(values, 1);
    if item.is_null() {
        return Err("slice of untyped nil".to_owned());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let length = match item {
        Val::Str(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Val::Str(text) => text.len(),
        Val::List(list) => list.items.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = check_index(index, length)?;
    }
    let [start, end, most] = bounds;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    if end > most {
        return Err(format!("invalid slice index: {end} > {most}"));
    }
    Ok(match item {
        Val::List(list) => Val::List(List {
            elem: list.elem,
            items: Rc::new(list.items.get(start..end).unwrap_or_default().to_vec()),
        }),
        other => {
            let text = text_of(other);
            let bytes = text.as_bytes().get(start..end).unwrap_or_default();
            Val::str(String::from_utf8_lossy(bytes).as_ref())
        }
    })
}

fn join_values(values: &[Val]) -> String {
    match values {
        [Val::Str(text)] => text.to_string(),
        _ => {
            let shown = |value: &Val| if value.is_null() { Val::str("<no value>") } else { value.clone() };
            format::print(&values.iter().map(shown).collect::<Vec<_>>())
        }
    }
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\0' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

fn escape_js(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\'' => escaped.push_str("\\'"),
            '"' => escaped.push_str("\\\""),
            '<' | '>' | '&' | '=' => escaped.push_str(&format!("\\u{:04X}", u32::from(character))),
            other if other < ' ' => escaped.push_str(&format!("\\u{:04X}", u32::from(other))),
            other => {
                let shown = quote_string(&other.to_string());
                let is_printable = shown.chars().count() == 3;
                if is_printable {
                    escaped.push(other);
                } else {
                    escaped.push_str(&format!("\\u{:04X}", u32::from(other)));
                }
            }
        }
    }
    escaped
}
