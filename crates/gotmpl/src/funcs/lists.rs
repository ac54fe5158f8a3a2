//! Functions for lists.

use std::rc::Rc;

use super::core::is_empty;
use super::numbers::to_integer;
use super::{
    Builtin, CallResult, NIL_POINTER, Ty, at, fixed, from, int_at, str_at, text_of, texts_of, variadic,
};
use crate::value::{Elem, List, Val};

const ANY: &[Ty] = &[Ty::Any];
const ANY2: &[Ty] = &[Ty::Any, Ty::Any];

pub(super) const SPRIG: &[Builtin] = &[
    variadic("list", ANY, |_, values| Ok(Val::list(values.to_vec()))),
    variadic("tuple", ANY, |_, values| Ok(Val::list(values.to_vec()))),
    fixed("append", ANY2, |_, values| push(values)),
    fixed("push", ANY2, |_, values| push(values)),
    fixed("mustAppend", ANY2, |_, values| push(values)),
    fixed("mustPush", ANY2, |_, values| push(values)),
    fixed("prepend", ANY2, |_, values| prepend(values)),
    fixed("mustPrepend", ANY2, |_, values| prepend(values)),
    fixed("first", ANY, |_, values| first(values)),
    fixed("mustFirst", ANY, |_, values| first(values)),
    fixed("last", ANY, |_, values| last(values)),
    fixed("mustLast", ANY, |_, values| last(values)),
    fixed("rest", ANY, |_, values| rest(values)),
    fixed("mustRest", ANY, |_, values| rest(values)),
    fixed("initial", ANY, |_, values| initial(values)),
    fixed("mustInitial", ANY, |_, values| initial(values)),
    fixed("reverse", ANY, |_, values| reverse(values)),
    fixed("mustReverse", ANY, |_, values| reverse(values)),
    fixed("compact", ANY, |_, values| compact(values)),
    fixed("mustCompact", ANY, |_, values| compact(values)),
    fixed("uniq", ANY, |_, values| uniq(values)),
    fixed("mustUniq", ANY, |_, values| uniq(values)),
    variadic("without", ANY2, |_, values| without(values)),
    variadic("mustWithout", ANY2, |_, values| without(values)),
    fixed("has", ANY2, |_, values| has(values)),
    fixed("mustHas", ANY2, |_, values| has(values)),
    variadic("slice", ANY2, |_, values| slice(values)),
    variadic("mustSlice", ANY2, |_, values| slice(values)),
    variadic("concat", ANY, |_, values| concat(values)),
    fixed("chunk", &[Ty::Int, Ty::Any], |_, values| chunk(values)),
    fixed("mustChunk", &[Ty::Int, Ty::Any], |_, values| chunk(values)),
    fixed("sortAlpha", ANY, |_, values| Ok(sort_alpha(at(values, 0)))),
    fixed("join", &[Ty::Str, Ty::Any], |_, values| {
        Ok(Val::str(texts_of(at(values, 1)).join(str_at(values, 0))))
    }),
];

/// Returns the elements of a list. For any other value, returns sprig's error message.
fn items<'v>(value: &'v Val, what: &str) -> Result<&'v List, String> {
    match value {
        Val::List(list) => Ok(list),
        Val::Absent | Val::Nil => Err(NIL_POINTER.to_owned()),
        other => Err(format!("Cannot {what} type {}", other.kind_name())),
    }
}

fn push(values: &[Val]) -> CallResult {
    let mut list = items(at(values, 0), "push on")?.items.to_vec();
    list.push(at(values, 1).clone());
    Ok(Val::list(list))
}

fn prepend(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "prepend on")?;
    Ok(Val::list(std::iter::once(at(values, 1)).chain(list.items.iter()).cloned().collect()))
}

fn first(values: &[Val]) -> CallResult {
    Ok(items(at(values, 0), "find first on")?.items.first().cloned().unwrap_or(Val::Nil))
}

fn last(values: &[Val]) -> CallResult {
    Ok(items(at(values, 0), "find last on")?.items.last().cloned().unwrap_or(Val::Nil))
}

fn rest(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "find rest on")?;
    let kept = list.items.iter().skip(1).cloned().collect();
    Ok(if list.items.is_empty() { Val::list_or_nil(kept) } else { Val::list(kept) })
}

fn initial(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "find initial on")?;
    let length = list.items.len().saturating_sub(1);
    let kept = list.items.iter().take(length).cloned().collect();
    Ok(if list.items.is_empty() { Val::list_or_nil(kept) } else { Val::list(kept) })
}

fn reverse(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "find reverse on")?;
    Ok(Val::list(list.items.iter().rev().cloned().collect()))
}

fn compact(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "compact on")?;
    Ok(Val::list(list.items.iter().filter(|item| !is_empty(item)).cloned().collect()))
}

fn uniq(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "find uniq on")?;
    let mut kept: Vec<Val> = Vec::new();
    for item in list.items.iter() {
        if !kept.iter().any(|known| known.is_same(item)) {
            kept.push(item.clone());
        }
    }
    Ok(Val::list(kept))
}

fn without(values: &[Val]) -> CallResult {
    let list = items(at(values, 0), "find without on")?;
    let left_out = from(values, 1);
    let kept = list.items.iter().filter(|item| !left_out.iter().any(|other| other.is_same(item)));
    Ok(Val::list(kept.cloned().collect()))
}

fn has(values: &[Val]) -> CallResult {
    if at(values, 1).is_null() {
        return Ok(Val::Bool(false));
    }
    let list = items(at(values, 1), "find has on")?;
    Ok(Val::Bool(list.items.iter().any(|item| item.is_same(at(values, 0)))))
}

fn slice(values: &[Val]) -> CallResult {
    let list = match at(values, 0) {
        Val::List(list) => list,
        Val::Absent | Val::Nil => return Err(NIL_POINTER.to_owned()),
        other => return Err(format!("list should be type of slice or array but {}", other.kind_name())),
    };
    let length = list.items.len();
    if length == 0 {
        return Ok(Val::Nil);
    }
    let bound = |index: usize, without: usize| match values.get(index) {
        Some(value) => usize::try_from(to_integer(value)).unwrap_or(usize::MAX),
        None => without,
    };
    let (start, end) = (bound(1, 0), bound(2, length));
    let part = (start <= end).then(|| list.items.get(start..end)).flatten();
    let part = part.ok_or("reflect.Value.Slice: slice index out of bounds")?;
    Ok(Val::List(List { elem: list.elem, items: Rc::new(part.to_vec()) }))
}

fn concat(values: &[Val]) -> CallResult {
    let mut all = Vec::new();
    for value in values {
        match value {
            Val::List(list) => all.extend(list.items.iter().cloned()),
            Val::Absent | Val::Nil => return Err(NIL_POINTER.to_owned()),
            other => return Err(format!("Cannot concat type {} as list", other.kind_name())),
        }
    }
    Ok(Val::list_or_nil(all))
}

fn chunk(values: &[Val]) -> CallResult {
    let list = items(at(values, 1), "chunk")?;
    let size = int_at(values, 0);
    let length = list.items.len();
    let chunks = match usize::try_from(size) {
        Ok(size) if size > 0 => list.items.chunks(size).map(|part| Val::list(part.to_vec())).collect(),
        // For these negative sizes, sprig's formula results in zero chunks.
        Err(_) if length > 1 && length - 1 <= usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX) => {
            Vec::new()
        }
        // For these negative sizes, sprig's formula results in a single chunk that contains the only element.
        Err(_) if length == 1 && size < -1 => vec![Val::list(list.items.to_vec())],
        _ => return Err("runtime error: makeslice: len out of range".to_owned()),
    };
    Ok(Val::List(List { elem: Elem::List, items: Rc::new(chunks) }))
}

fn sort_alpha(value: &Val) -> Val {
    let Val::List(list) = value else { return Val::strings([text_of(value)]) };
    let mut texts: Vec<String> = list.items.iter().filter(|item| !item.is_null()).map(text_of).collect();
    texts.sort_unstable();
    Val::strings(texts)
}
