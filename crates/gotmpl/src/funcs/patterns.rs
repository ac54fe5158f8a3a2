//! Regular expressions. Go's dialect and that of the crate `regex` are both RE2's.

use regex::{NoExpand, Regex, RegexBuilder};

use super::{Builtin, Call, Given, Ty, f, int_at, str_at};
use crate::quote::quoted;
use crate::value::Val;

const STR2: &[Ty] = &[Ty::Str, Ty::Str];
const STR3: &[Ty] = &[Ty::Str, Ty::Str, Ty::Str];
const STR_STR_INT: &[Ty] = &[Ty::Str, Ty::Str, Ty::Int];

/// Memory a compiled expression may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(super) const SPRIG: &[Builtin] = &[
    f("regexMatch", STR2, |_, values| {
        Ok(Val::Bool(compile(str_at(values, 0)).is_ok_and(|regex| regex.is_match(str_at(values, 1)))))
    }),
    f("mustRegexMatch", STR2, |_, values| {
        Ok(Val::Bool(compile(str_at(values, 0))?.is_match(str_at(values, 1))))
    }),
    f("regexFind", STR2, find),
    f("mustRegexFind", STR2, find),
    f("regexFindAll", STR_STR_INT, find_all),
    f("mustRegexFindAll", STR_STR_INT, find_all),
    f("regexReplaceAll", STR3, |call, values| {
        let (regex, template) = (compile(str_at(values, 0))?, str_at(values, 2));
        limited(call, regex.replace_all(str_at(values, 1), template).into_owned())
    }),
    f("mustRegexReplaceAll", STR3, |call, values| {
        let (regex, template) = (compile(str_at(values, 0))?, str_at(values, 2));
        limited(call, regex.replace_all(str_at(values, 1), template).into_owned())
    }),
    f("regexReplaceAllLiteral", STR3, literal),
    f("mustRegexReplaceAllLiteral", STR3, literal),
    f("regexSplit", STR_STR_INT, split),
    f("mustRegexSplit", STR_STR_INT, split),
    f("regexQuoteMeta", &[Ty::Str], |_, values| Ok(Val::str(quote_meta(str_at(values, 0))))),
];

fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build().map_err(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("error parsing regexp {}: {last}", quoted(pattern))
    })
}

fn limited(call: &Call, text: String) -> Given {
    super::check_room(call, text.len())?;
    Ok(Val::str(text))
}

fn find(_: &Call, values: &[Val]) -> Given {
    let regex = compile(str_at(values, 0))?;
    Ok(Val::str(regex.find(str_at(values, 1)).map_or("", |found| found.as_str())))
}

/// How many are wanted; negative for all.
fn count(values: &[Val]) -> usize {
    usize::try_from(int_at(values, 2)).unwrap_or(usize::MAX)
}

fn find_all(_: &Call, values: &[Val]) -> Given {
    let regex = compile(str_at(values, 0))?;
    Ok(Val::strings(regex.find_iter(str_at(values, 1)).take(count(values)).map(|found| found.as_str())))
}

fn literal(call: &Call, values: &[Val]) -> Given {
    let regex = compile(str_at(values, 0))?;
    limited(call, regex.replace_all(str_at(values, 1), NoExpand(str_at(values, 2))).into_owned())
}

fn split(_: &Call, values: &[Val]) -> Given {
    let (regex, text, most) = (compile(str_at(values, 0))?, str_at(values, 1), count(values));
    if most == 0 {
        return Ok(Val::strings(Vec::<String>::new()));
    }
    if text.is_empty() && !str_at(values, 0).is_empty() {
        return Ok(Val::strings([""]));
    }
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in regex.find_iter(text) {
        if parts.len() + 1 >= most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(text.get(begin..end).unwrap_or_default());
        }
        begin = found.end();
    }
    if end != text.len() {
        parts.push(text.get(begin..).unwrap_or_default());
    }
    Ok(Val::strings(parts))
}

fn quote_meta(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
