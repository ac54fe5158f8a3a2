//! Lists.

use std::rc::Rc;

use super::core::is_empty;
use super::numbers::whole;
use super::{Builtin, Given, NIL_POINTER, Ty, at, f, from, int_at, str_at, text_of, texts_of, v};
use crate::value::{Elem, List, Val};

const ANY: &[Ty] = &[Ty::Any];
const ANY2: &[Ty] = &[Ty::Any, Ty::Any];

pub(super) const SPRIG: &[Builtin] = &[
    v("list", ANY, |_, values| Ok(Val::list(values.to_vec()))),
    v("tuple", ANY, |_, values| Ok(Val::list(values.to_vec()))),
    f("append", ANY2, |_, values| push(values)),
    f("push", ANY2, |_, values| push(values)),
    f("mustAppend", ANY2, |_, values| push(values)),
    f("mustPush", ANY2, |_, values| push(values)),
    f("prepend", ANY2, |_, values| prepend(values)),
    f("mustPrepend", ANY2, |_, values| prepend(values)),
    f("first", ANY, |_, values| first(values)),
    f("mustFirst", ANY, |_, values| first(values)),
    f("last", ANY, |_, values| last(values)),
    f("mustLast", ANY, |_, values| last(values)),
    f("rest", ANY, |_, values| rest(values)),
    f("mustRest", ANY, |_, values| rest(values)),
    f("initial", ANY, |_, values| initial(values)),
    f("mustInitial", ANY, |_, values| initial(values)),
    f("reverse", ANY, |_, values| reverse(values)),
    f("mustReverse", ANY, |_, values| reverse(values)),
    f("compact", ANY, |_, values| compact(values)),
    f("mustCompact", ANY, |_, values| compact(values)),
    f("uniq", ANY, |_, values| uniq(values)),
    f("mustUniq", ANY, |_, values| uniq(values)),
    v("without", ANY2, |_, values| without(values)),
    v("mustWithout", ANY2, |_, values| without(values)),
    f("has", ANY2, |_, values| has(values)),
    f("mustHas", ANY2, |_, values| has(values)),
    v("slice", ANY2, |_, values| slice(values)),
    v("mustSlice", ANY2, |_, values| slice(values)),
    v("concat", ANY, |_, values| concat(values)),
    f("chunk", &[Ty::Int, Ty::Any], |_, values| chunk(values)),
    f("mustChunk", &[Ty::Int, Ty::Any], |_, values| chunk(values)),
    f("sortAlpha", ANY, |_, values| Ok(sort_alpha(at(values, 0)))),
    f("join", &[Ty::Str, Ty::Any], |_, values| Ok(Val::str(texts_of(at(values, 1)).join(str_at(values, 0))))),
];

/// A list, or what sprig says of anything else.
fn items<'v>(value: &'v Val, what: &str) -> Result<&'v List, String> {
    match value {
        Val::List(list) => Ok(list),
        Val::Absent | Val::Nil => Err(NIL_POINTER.to_owned()),
        other => Err(format!("Cannot {what} type {}", other.kind_name())),
    }
}

fn push(values: &[Val]) -> Given {
    let mut list = items(at(values, 0), "push on")?.items.to_vec();
    list.push(at(values, 1).clone());
    Ok(Val::list(list))
}

fn prepend(values: &[Val]) -> Given {
    let list = items(at(values, 0), "prepend on")?;
    Ok(Val::list(std::iter::once(at(values, 1)).chain(list.items.iter()).cloned().collect()))
}

fn first(values: &[Val]) -> Given {
    Ok(items(at(values, 0), "find first on")?.items.first().cloned().unwrap_or(Val::Nil))
}

fn last(values: &[Val]) -> Given {
    Ok(items(at(values, 0), "find last on")?.items.last().cloned().unwrap_or(Val::Nil))
}

fn rest(values: &[Val]) -> Given {
    let list = items(at(values, 0), "find rest on")?;
    let kept = list.items.iter().skip(1).cloned().collect();
    Ok(if list.items.is_empty() { Val::list_or_nil(kept) } else { Val::list(kept) })
}

fn initial(values: &[Val]) -> Given {
    let list = items(at(values, 0), "find initial on")?;
    let length = list.items.len().saturating_sub(1);
    let kept = list.items.iter().take(length).cloned().collect();
    Ok(if list.items.is_empty() { Val::list_or_nil(kept) } else { Val::list(kept) })
}

fn reverse(values: &[Val]) -> Given {
    let list = items(at(values, 0), "find reverse on")?;
    Ok(Val::list(list.items.iter().rev().cloned().collect()))
}

fn compact(values: &[Val]) -> Given {
    let list = items(at(values, 0), "compact on")?;
    Ok(Val::list(list.items.iter().filter(|item| !is_empty(item)).cloned().collect()))
}

fn uniq(values: &[Val]) -> Given {
    let list = items(at(values, 0), "find uniq on")?;
    let mut kept: Vec<Val> = Vec::new();
    for item in list.items.iter() {
        if !kept.iter().any(|known| known.is_same(item)) {
            kept.push(item.clone());
        }
    }
    Ok(Val::list(kept))
}

fn without(values: &[Val]) -> Given {
    let list = items(at(values, 0), "find without on")?;
    let left_out = from(values, 1);
    let kept = list.items.iter().filter(|item| !left_out.iter().any(|other| other.is_same(item)));
    Ok(Val::list(kept.cloned().collect()))
}

fn has(values: &[Val]) -> Given {
    if at(values, 1).is_null() {
        return Ok(Val::Bool(false));
    }
    let list = items(at(values, 1), "find has on")?;
    Ok(Val::Bool(list.items.iter().any(|item| item.is_same(at(values, 0)))))
}

fn slice(values: &[Val]) -> Given {
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
        Some(value) => usize::try_from(whole(value)).unwrap_or(usize::MAX),
        None => without,
    };
    let (start, end) = (bound(1, 0), bound(2, length));
    let part = (start <= end).then(|| list.items.get(start..end)).flatten();
    let part = part.ok_or("reflect.Value.Slice: slice index out of bounds")?;
    Ok(Val::List(List { elem: list.elem, items: Rc::new(part.to_vec()) }))
}

fn concat(values: &[Val]) -> Given {
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

fn chunk(values: &[Val]) -> Given {
    let list = items(at(values, 1), "chunk")?;
    let size = int_at(values, 0);
    let length = list.items.len();
    let chunks = match usize::try_from(size) {
        Ok(size) if size > 0 => list.items.chunks(size).map(|part| Val::list(part.to_vec())).collect(),
        // sprig computes that there are none.
        Err(_) if length > 1 && length - 1 <= usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX) => {
            Vec::new()
        }
        // Or that there is one, with what is left over.
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
