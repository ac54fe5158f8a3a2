//! Functions for maps. Keys are sorted wherever Go would return them in random order.

use std::collections::BTreeMap;

use super::core::is_empty;
use super::{Builtin, CallResult, Ty, at, fixed, from, str_at, text_of, variadic};
use crate::value::{Elem, Map, Val};

const MAP: Ty = Ty::Map;

pub(super) const SPRIG: &[Builtin] = &[
    variadic("dict", &[Ty::Any], |_, values| {
        let entries = values.chunks(2).map(|pair| {
            let value = pair.get(1).cloned().unwrap_or_else(|| Val::str(""));
            (text_of(at(pair, 0)), value)
        });
        Ok(Val::map(entries.collect()))
    }),
    fixed("get", &[MAP, Ty::Str], |_, values| {
        Ok(map_at(values, 0).and_then(|map| map.get(str_at(values, 1))).unwrap_or_else(|| Val::str("")))
    }),
    fixed("set", &[MAP, Ty::Str, Ty::Any], |_, values| {
        let map = map_at(values, 0).ok_or("assignment to entry in nil map")?;
        map.items.borrow_mut().insert(str_at(values, 1).to_owned(), at(values, 2).clone());
        Ok(at(values, 0).clone())
    }),
    fixed("unset", &[MAP, Ty::Str], |_, values| {
        if let Some(map) = map_at(values, 0) {
            map.items.borrow_mut().remove(str_at(values, 1));
        }
        Ok(at(values, 0).clone())
    }),
    fixed("hasKey", &[MAP, Ty::Str], |_, values| {
        Ok(Val::Bool(map_at(values, 0).is_some_and(|map| map.get(str_at(values, 1)).is_some())))
    }),
    variadic("pluck", &[Ty::Str, MAP], |_, values| {
        let maps = (1..values.len()).filter_map(|index| map_at(values, index));
        Ok(Val::list(maps.filter_map(|map| map.get(str_at(values, 0))).collect()))
    }),
    variadic("keys", &[MAP], |_, values| {
        let maps = (0..values.len()).filter_map(|index| map_at(values, index));
        Ok(Val::strings(maps.flat_map(|map| map.entries().into_iter().map(|(key, _)| key))))
    }),
    fixed("values", &[MAP], |_, values| {
        let entries = map_at(values, 0).map(Map::entries).unwrap_or_default();
        Ok(Val::list(entries.into_iter().map(|(_, value)| value).collect()))
    }),
    variadic("pick", &[MAP, Ty::Str], |_, values| Ok(select_keys(values, true))),
    variadic("omit", &[MAP, Ty::Str], |_, values| Ok(select_keys(values, false))),
    variadic("merge", &[MAP, MAP], |_, values| merge(values, false)),
    variadic("mustMerge", &[MAP, MAP], |_, values| merge(values, false)),
    variadic("mergeOverwrite", &[MAP, MAP], |_, values| merge(values, true)),
    variadic("mustMergeOverwrite", &[MAP, MAP], |_, values| merge(values, true)),
    variadic("dig", &[Ty::Any], |_, values| dig(values)),
];

fn map_at(values: &[Val], index: usize) -> Option<&Map> {
    match at(values, index) {
        Val::Map(map) => Some(map),
        _ => None,
    }
}

fn select_keys(values: &[Val], keep: bool) -> Val {
    let named = from(values, 1);
    let is_named = |key: &str| named.iter().any(|name| matches!(name, Val::Str(name) if **name == *key));
    let entries = map_at(values, 0).map(Map::entries).unwrap_or_default();
    Val::map(entries.into_iter().filter(|(key, _)| is_named(key) == keep).collect())
}

fn merge(values: &[Val], overwrite: bool) -> CallResult {
    let target = map_at(values, 0).ok_or("assignment to entry in nil map")?;
    for source in (1..values.len()).filter_map(|index| map_at(values, index)) {
        merge_into(target, source, overwrite, 0);
    }
    Ok(at(values, 0).clone())
}

/// Merges the source into the target, including nested maps. Without `overwrite`, fills only empty values of
/// the target and ignores nulls in the source. With `overwrite`, source values take precedence, but a map
/// replaces only an empty value.
fn merge_into(target: &Map, source: &Map, overwrite: bool, depth: usize) {
    if depth > crate::MAX_DEPTH {
        return;
    }
    for (key, new) in source.entries() {
        let old = target.get(&key);
        let takes_its_place = match (&old, &new) {
            (_, Val::Absent | Val::Nil) => overwrite,
            (None, _) => true,
            (Some(Val::Map(old)), Val::Map(new)) => {
                if !std::rc::Rc::ptr_eq(&old.items, &new.items) {
                    merge_into(old, new, overwrite, depth + 1);
                }
                false
            }
            (Some(old), Val::Map(_)) => is_empty(old),
            (Some(old), _) => overwrite || is_empty(old),
        };
        if takes_its_place {
            target.items.borrow_mut().insert(key, new);
        }
    }
}

/// Implements `dig`, as in `dig "a" "b" default map`.
fn dig(values: &[Val]) -> CallResult {
    let [keys @ .., without, map] = values else {
        return Err("dig needs at least three arguments".to_owned());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".to_owned());
    }
    let refuse = |value: &Val, wanted: &str| {
        let found = if value.is_null() { "nil" } else { value.type_name() };
        Err(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
    };
    let mut found = map.clone();
    if !is_map(map) {
        return refuse(map, Ty::Map.name());
    }
    if let Some(key) = keys.iter().find(|key| !matches!(key, Val::Str(_))) {
        return refuse(key, Ty::Str.name());
    }
    for key in keys {
        let (Val::Map(map), Val::Str(key), true) = (&found, key, is_map(&found)) else {
            return refuse(&found, Ty::Map.name());
        };
        match map.get(key) {
            Some(value) => found = value,
            None => return Ok(without.clone()),
        }
    }
    Ok(found)
}

/// Returns true for a map with values of type `interface {}`. In Go, a map of strings has a different type.
fn is_map(value: &Val) -> bool {
    matches!(value, Val::Map(map) if map.elem == Elem::Any)
}

/// Builds a map of strings with the keys `_0`, `_1` and so on, as returned by `split`.
pub(super) fn numbered_map(texts: impl IntoIterator<Item = String>) -> Val {
    let entries: BTreeMap<String, Val> =
        texts.into_iter().enumerate().map(|(number, text)| (format!("_{number}"), Val::str(text))).collect();
    Val::string_map(entries)
}
