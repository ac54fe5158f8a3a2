//! Functions for regular expressions.

use regex::{NoExpand, Regex, RegexBuilder};

use super::{Builtin, Call, CallResult, Ty, fixed, int_at, re2, str_at};
use crate::quote::quote_string;
use crate::value::Val;

const STR2: &[Ty] = &[Ty::Str, Ty::Str];
const STR3: &[Ty] = &[Ty::Str, Ty::Str, Ty::Str];
const STR_STR_INT: &[Ty] = &[Ty::Str, Ty::Str, Ty::Int];

/// Maximum memory of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(super) const SPRIG: &[Builtin] = &[
    fixed("regexMatch", STR2, |_, values| {
        Ok(Val::Bool(try_compile(str_at(values, 0)).is_ok_and(|regex| regex.is_match(str_at(values, 1)))))
    }),
    fixed("mustRegexMatch", STR2, |_, values| {
        Ok(Val::Bool(try_compile(str_at(values, 0))?.is_match(str_at(values, 1))))
    }),
    fixed("regexFind", STR2, |_, values| Ok(find(&compile(str_at(values, 0))?, values))),
    fixed("mustRegexFind", STR2, |_, values| Ok(find(&try_compile(str_at(values, 0))?, values))),
    fixed("regexFindAll", STR_STR_INT, |_, values| Ok(find_all(&compile(str_at(values, 0))?, values))),
    fixed("mustRegexFindAll", STR_STR_INT, |_, values| {
        Ok(find_all(&try_compile(str_at(values, 0))?, values))
    }),
    fixed("regexReplaceAll", STR3, |call, values| replace_all(call, &compile(str_at(values, 0))?, values)),
    fixed("mustRegexReplaceAll", STR3, |call, values| {
        replace_all(call, &try_compile(str_at(values, 0))?, values)
    }),
    fixed("regexReplaceAllLiteral", STR3, |call, values| {
        replace_literal(call, &compile(str_at(values, 0))?, values)
    }),
    fixed("mustRegexReplaceAllLiteral", STR3, |call, values| {
        replace_literal(call, &try_compile(str_at(values, 0))?, values)
    }),
    fixed("regexSplit", STR_STR_INT, |_, values| Ok(split(&compile(str_at(values, 0))?, values))),
    fixed("mustRegexSplit", STR_STR_INT, |_, values| Ok(split(&try_compile(str_at(values, 0))?, values))),
    fixed("regexQuoteMeta", &[Ty::Str], |_, values| Ok(Val::str(quote_meta(str_at(values, 0))))),
];

/// Compiles an expression. Error messages match those of `regexp.Compile`.
fn try_compile(pattern: &str) -> Result<Regex, String> {
    let translated = re2::translated(pattern).map_err(|reason| format!("error parsing regexp: {reason}"))?;
    RegexBuilder::new(&translated).size_limit(MAX_COMPILED_BYTES).build().map_err(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("error parsing regexp: {last}: `{pattern}`")
    })
}

/// Compiles an expression. Error messages match those of `regexp.MustCompile`.
fn compile(pattern: &str) -> Result<Regex, String> {
    try_compile(pattern).map_err(|reason| {
        let written = if pattern.contains('`') { quote_string(pattern) } else { format!("`{pattern}`") };
        format!("regexp: Compile({written}): {reason}")
    })
}

fn check_limit(call: &Call, text: String) -> CallResult {
    super::check_room(call, text.len())?;
    Ok(Val::str(text))
}

fn find(regex: &Regex, values: &[Val]) -> Val {
    Val::str(regex.find(str_at(values, 1)).map_or("", |found| found.as_str()))
}

/// Returns the maximum number of matches. A negative argument means all matches.
fn count(values: &[Val]) -> usize {
    usize::try_from(int_at(values, 2)).unwrap_or(usize::MAX)
}

fn find_all(regex: &Regex, values: &[Val]) -> Val {
    Val::strings_or_nil(regex.find_iter(str_at(values, 1)).take(count(values)).map(|found| found.as_str()))
}

fn replace_all(call: &Call, regex: &Regex, values: &[Val]) -> CallResult {
    check_limit(call, regex.replace_all(str_at(values, 1), str_at(values, 2)).into_owned())
}

fn replace_literal(call: &Call, regex: &Regex, values: &[Val]) -> CallResult {
    check_limit(call, regex.replace_all(str_at(values, 1), NoExpand(str_at(values, 2))).into_owned())
}

fn split(regex: &Regex, values: &[Val]) -> Val {
    let (text, most) = (str_at(values, 1), count(values));
    if most == 0 {
        return Val::strings_or_nil(Vec::<String>::new());
    }
    if text.is_empty() && !str_at(values, 0).is_empty() {
        return Val::strings([""]);
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
    Val::strings(parts)
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
