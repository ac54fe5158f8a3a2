//! Functions for strings: cutting, joining, searching and padding. Lengths are in bytes, as in Go.

use super::maps::numbered_map;
use super::{Builtin, Call, CallResult, Ty, check_room, fixed, int_at, str_at, text_of, variadic};
use crate::quote::quote_string;
use crate::value::Val;

const STR: &[Ty] = &[Ty::Str];
const STR2: &[Ty] = &[Ty::Str, Ty::Str];
const INT_STR: &[Ty] = &[Ty::Int, Ty::Str];

fn text(text: impl AsRef<str>) -> CallResult {
    Ok(Val::str(text.as_ref()))
}

pub(super) const SPRIG: &[Builtin] = &[
    fixed("trim", STR, |_, values| text(str_at(values, 0).trim())),
    fixed("trimAll", STR2, trim_all),
    fixed("trimall", STR2, trim_all),
    fixed("trimSuffix", STR2, |_, values| {
        let whole = str_at(values, 1);
        text(whole.strip_suffix(str_at(values, 0)).unwrap_or(whole))
    }),
    fixed("trimPrefix", STR2, |_, values| {
        let whole = str_at(values, 1);
        text(whole.strip_prefix(str_at(values, 0)).unwrap_or(whole))
    }),
    fixed("upper", STR, |_, values| {
        text(str_at(values, 0).chars().flat_map(super::letter_case::to_upper).collect::<String>())
    }),
    fixed("lower", STR, |_, values| text(to_lower(str_at(values, 0)))),
    fixed("contains", STR2, |_, values| Ok(Val::Bool(str_at(values, 1).contains(str_at(values, 0))))),
    fixed("hasPrefix", STR2, |_, values| Ok(Val::Bool(str_at(values, 1).starts_with(str_at(values, 0))))),
    fixed("hasSuffix", STR2, |_, values| Ok(Val::Bool(str_at(values, 1).ends_with(str_at(values, 0))))),
    fixed("repeat", INT_STR, |call, values| {
        let count = usize::try_from(int_at(values, 0)).map_err(|_| "strings: negative Repeat count")?;
        check_room(call, count.saturating_mul(str_at(values, 1).len()))?;
        text(str_at(values, 1).repeat(count))
    }),
    fixed("substr", &[Ty::Int, Ty::Int, Ty::Str], |_, values| {
        substr(int_at(values, 0), int_at(values, 1), str_at(values, 2))
    }),
    fixed("trunc", INT_STR, |_, values| trunc(int_at(values, 0), str_at(values, 1))),
    fixed("abbrev", INT_STR, |_, values| {
        let (width, whole) = (int_at(values, 0), str_at(values, 1));
        if width < 4 { text(whole) } else { text(abbreviate(whole, 0, width)) }
    }),
    fixed("abbrevboth", &[Ty::Int, Ty::Int, Ty::Str], |_, values| {
        let (left, right, whole) = (int_at(values, 0), int_at(values, 1), str_at(values, 2));
        if right < 4 || (left > 0 && right < 7) { text(whole) } else { text(abbreviate(whole, left, right)) }
    }),
    variadic("quote", &[Ty::Any], |_, values| {
        let words = values.iter().filter(|value| !value.is_null()).map(|value| quote_string(&text_of(value)));
        text(words.collect::<Vec<_>>().join(" "))
    }),
    variadic("squote", &[Ty::Any], |_, values| {
        let words = values
            .iter()
            .filter(|value| !value.is_null())
            .map(|value| format!("'{}'", crate::format::format_plain(value)));
        text(words.collect::<Vec<_>>().join(" "))
    }),
    variadic("cat", &[Ty::Any], |_, values| {
        let words = values.iter().filter(|value| !value.is_null()).map(crate::format::format_plain);
        text(words.collect::<Vec<_>>().join(" "))
    }),
    fixed("indent", INT_STR, |call, values| indent(call, "", int_at(values, 0), str_at(values, 1))),
    fixed("nindent", INT_STR, |call, values| indent(call, "\n", int_at(values, 0), str_at(values, 1))),
    fixed("replace", &[Ty::Str, Ty::Str, Ty::Str], |call, values| {
        let (old, new, whole) = (str_at(values, 0), str_at(values, 1), str_at(values, 2));
        let times = if old.is_empty() { whole.len() + 1 } else { whole.matches(old).count() };
        check_room(call, whole.len().saturating_add(times.saturating_mul(new.len())))?;
        text(whole.replace(old, new))
    }),
    fixed("plural", &[Ty::Str, Ty::Str, Ty::Int], |_, values| {
        text(str_at(values, if int_at(values, 2) == 1 { 0 } else { 1 }))
    }),
    fixed("split", STR2, |_, values| Ok(numbered_map(split(str_at(values, 0), str_at(values, 1), None)))),
    fixed("splitn", &[Ty::Str, Ty::Int, Ty::Str], |_, values| {
        let most = int_at(values, 1);
        let most = if most < 0 { None } else { Some(usize::try_from(most).unwrap_or(usize::MAX)) };
        Ok(numbered_map(split(str_at(values, 0), str_at(values, 2), most)))
    }),
    fixed("splitList", STR2, |_, values| Ok(Val::strings(split(str_at(values, 0), str_at(values, 1), None)))),
    fixed("wrap", INT_STR, |_, values| text(wrap_lines(str_at(values, 1), int_at(values, 0), "\n", false))),
    fixed("wrapWith", &[Ty::Int, Ty::Str, Ty::Str], |_, values| {
        text(wrap_lines(str_at(values, 2), int_at(values, 0), str_at(values, 1), true))
    }),
];

fn trim_all(_: &Call, values: &[Val]) -> CallResult {
    let cut = str_at(values, 0);
    text(str_at(values, 1).trim_matches(|character| cut.contains(character)))
}

/// Converts a string to lower case character by character. Go doesn't treat a final sigma specially, whereas
/// `str::to_lowercase` does.
fn to_lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the bytes between two offsets as a string. A partial character becomes a replacement character.
fn bytes(whole: &str, start: usize, end: usize) -> String {
    String::from_utf8_lossy(whole.as_bytes().get(start..end).unwrap_or_default()).into_owned()
}

fn substr(start: i64, end: i64, whole: &str) -> CallResult {
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let (from, to) = match (start, end) {
        (start, end) if start < 0 => (0, end),
        (start, end) if end < 0 || end > length => (start, length),
        both => both,
    };
    if to < 0 {
        return Err(format!("runtime error: slice bounds out of range [:{to}]"));
    }
    if to > length {
        return Err(format!("runtime error: slice bounds out of range [:{to}] with length {length}"));
    }
    if from > to {
        return Err(format!("runtime error: slice bounds out of range [{from}:{to}]"));
    }
    let place = |at: i64| usize::try_from(at).unwrap_or_default();
    text(bytes(whole, place(from), place(to)))
}

fn trunc(count: i64, whole: &str) -> CallResult {
    let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if kept >= whole.len() {
        return text(whole);
    }
    if count < 0 { text(bytes(whole, whole.len() - kept, whole.len())) } else { text(bytes(whole, 0, kept)) }
}

/// Shortens a string to a width, and replaces the omitted parts with dots.
fn abbreviate(whole: &str, offset: i64, width: i64) -> String {
    let width = usize::try_from(width).unwrap_or_default();
    let mut offset = usize::try_from(offset).unwrap_or_default().min(whole.len());
    if whole.is_empty() || width < 4 {
        return String::new();
    }
    if whole.len() <= width {
        return whole.to_owned();
    }
    if whole.len() - offset < width - 3 {
        offset = whole.len() - (width - 3);
    }
    if offset <= 4 {
        return format!("{}...", bytes(whole, 0, width - 3));
    }
    if width < 7 {
        return String::new();
    }
    if offset + width - 3 < whole.len() {
        let rest = bytes(whole, offset, whole.len());
        return format!("...{}", abbreviate(&rest, 0, i64::try_from(width - 3).unwrap_or_default()));
    }
    format!("...{}", bytes(whole, whole.len() - (width - 3), whole.len()))
}

fn indent(call: &Call, before: &str, spaces: i64, whole: &str) -> CallResult {
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count")?;
    let lines = whole.matches('\n').count() + 1;
    check_room(call, whole.len().saturating_add(spaces.saturating_mul(lines)))?;
    let pad = " ".repeat(spaces);
    text(format!("{before}{pad}{}", whole.replace('\n', &format!("\n{pad}"))))
}

/// Splits a string like `strings.SplitN`. An empty separator splits after every character.
fn split(separator: &str, whole: &str, most: Option<usize>) -> Vec<String> {
    let most = most.unwrap_or(usize::MAX);
    if most == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return whole.splitn(most, separator).map(ToOwned::to_owned).collect();
    }
    let mut parts = Vec::new();
    let mut rest = whole.chars();
    while parts.len() + 1 < most {
        let Some(character) = rest.next() else { return parts };
        parts.push(character.to_string());
    }
    if !rest.as_str().is_empty() {
        parts.push(rest.as_str().to_owned());
    }
    parts
}

/// Wraps lines at spaces so that they have at most `width` bytes. With `cut_words`, also breaks words that
/// are longer than a line.
fn wrap_lines(whole: &str, width: i64, end: &str, cut_words: bool) -> String {
    let width = usize::try_from(width).unwrap_or_default().max(1);
    let end = if end.is_empty() { "\n" } else { end };
    let mut text = String::new();
    let mut offset = 0;
    while whole.len() - offset > width {
        let rest = whole.as_bytes().get(offset..).unwrap_or_default();
        if rest.first() == Some(&b' ') {
            offset += 1;
            continue;
        }
        let before = rest.get(..=width).unwrap_or_default().iter().rposition(|byte| *byte == b' ');
        match before {
            Some(space) => {
                text.push_str(&bytes(whole, offset, offset + space));
                text.push_str(end);
                offset += space + 1;
            }
            None if cut_words => {
                text.push_str(&bytes(whole, offset, offset + width));
                text.push_str(end);
                offset += width;
            }
            None => match rest.iter().skip(width).position(|byte| *byte == b' ') {
                Some(space) => {
                    text.push_str(&bytes(whole, offset, offset + width + space));
                    text.push_str(end);
                    offset += width + space + 1;
                }
                None => {
                    text.push_str(&bytes(whole, offset, whole.len()));
                    offset = whole.len();
                }
            },
        }
    }
    text.push_str(&bytes(whole, offset, whole.len()));
    text
}
