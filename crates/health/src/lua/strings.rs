//! `string` functions with a step limit. They replace Lua's functions with a cost that depends on more than
//! the size of their arguments.
//!
//! The originals are C functions, which Lua's instruction hook doesn't interrupt: a pattern such as
//! `.-.-.-.-x` takes practically forever on a long string (<https://github.com/ceifa/wasmoon/issues/45>).

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::budget::{Budget, CALL_STEPS, MEMORY_BYTES_MAX};
use super::pattern::{Pattern, PatternMatch, Span};

/// Installs the functions.
pub(super) fn install(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    let counted = |budget: &Rc<Budget>| Rc::clone(budget);
    let steps = counted(budget);
    string
        .set("rep", lua.create_function(move |lua, (text, times)| repeat_text(lua, &steps, text, times))?)?;
    let steps = counted(budget);
    string.set("find", lua.create_function(move |lua, arguments| find_pattern(lua, &steps, arguments))?)?;
    let steps = counted(budget);
    let with_match = move |lua: &Lua, (text, pattern, from)| match_first(lua, &steps, text, pattern, from);
    string.set("match", lua.create_function(with_match)?)?;
    let steps = counted(budget);
    let each = lua.create_function(move |lua, (text, pattern)| match_all(lua, &steps, text, pattern))?;
    string.set("gmatch", each.clone())?;
    string.set("gfind", each)?;
    let steps = counted(budget);
    string.set("gsub", lua.create_function(move |lua, arguments| replace_matches(lua, &steps, arguments))?)
}

fn repeat_text(lua: &Lua, budget: &Budget, text: LuaString, times: f64) -> mlua::Result<LuaString> {
    let text = text.as_bytes();
    budget.take_steps(CALL_STEPS)?;
    let count = if times >= 1.0 && !text.is_empty() { times as usize } else { 0 };
    let bytes = count.saturating_mul(text.len());
    // Reject a string that exceeds the memory limit before creating it.
    if bytes > MEMORY_BYTES_MAX {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    budget.take_steps_for_bytes(bytes)?;
    lua.create_string(text.repeat(count))
}

/// Returns the start offset of a search for a script's position. Positions start at 1, or count from the end
/// if they are negative. Returns `None` for a position past the end, where nothing can match.
fn search_start(from: Option<i64>, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let start = match from.unwrap_or(1) {
        from if from > 0 => from - 1,
        0 => 0,
        from => length.saturating_add(from).max(0),
    };
    usize::try_from(start).ok().filter(|_| start <= length)
}

/// Special characters. A pattern without any of them is a literal string.
const SPECIAL: &[u8] = b"^$*+?.([%-";

type FindArguments = (LuaString, LuaString, Option<f64>, Option<Value>);

fn find_pattern(
    lua: &Lua,
    budget: &Budget,
    (text, pattern, from, plain): FindArguments,
) -> mlua::Result<MultiValue> {
    budget.take_steps(CALL_STEPS)?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let Some(begin) = search_start(to_position(from), text.len()) else { return Ok(no_values()) };
    let is_plain = plain.is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)))
        || !pattern.iter().any(|byte| SPECIAL.contains(byte));
    let pattern = if is_plain { Pattern::literal(&pattern) } else { Pattern::new(&pattern) };
    match pattern.find(&text, begin, budget)? {
        None => Ok(no_values()),
        Some(found) => {
            let mut values = vec![number_value(found.whole.start + 1), number_value(found.whole.end)];
            for span in &found.captures {
                values.push(capture_value(lua, &text, span)?);
            }
            Ok(MultiValue::from_vec(values))
        }
    }
}

fn match_first(
    lua: &Lua,
    budget: &Budget,
    text: LuaString,
    pattern: LuaString,
    from: Option<f64>,
) -> mlua::Result<MultiValue> {
    budget.take_steps(CALL_STEPS)?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let Some(begin) = search_start(to_position(from), text.len()) else { return Ok(no_values()) };
    match Pattern::new(&pattern).find(&text, begin, budget)? {
        None => Ok(no_values()),
        Some(found) => capture_values(lua, &text, &found),
    }
}

fn match_all(
    lua: &Lua,
    budget: &Rc<Budget>,
    text: LuaString,
    pattern: LuaString,
) -> mlua::Result<mlua::Function> {
    budget.take_steps(CALL_STEPS)?;
    let budget = Rc::clone(budget);
    let next = RefCell::new(Some(0));
    lua.create_function(move |lua, ()| {
        budget.take_steps(CALL_STEPS)?;
        let Some(begin) = *next.borrow() else { return Ok(MultiValue::new()) };
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let found = Pattern::unanchored(&pattern).find(&text, begin, &budget)?;
        let Some(found) = found else {
            next.replace(None);
            return Ok(no_values());
        };
        // An empty match must not be found twice.
        let after = found.whole.end + usize::from(found.whole.end == found.whole.start);
        next.replace(Some(after).filter(|after| *after <= text.len()));
        capture_values(lua, &text, &found)
    })
}

type ReplaceArguments = (LuaString, LuaString, Value, Option<f64>);

fn replace_matches(
    lua: &Lua,
    budget: &Budget,
    (text, pattern, with, most): ReplaceArguments,
) -> mlua::Result<(LuaString, i64)> {
    if !matches!(
        with,
        Value::String(_) | Value::Integer(_) | Value::Number(_) | Value::Table(_) | Value::Function(_)
    ) {
        return Err(mlua::Error::runtime(format!(
            "bad argument #3 to 'gsub' (string/function/table expected, got {})",
            with.type_name()
        )));
    }
    let (text, pattern) = (text.as_bytes().to_vec(), pattern.as_bytes().to_vec());
    budget.take_steps(CALL_STEPS)?;
    budget.take_steps_for_bytes(text.len())?;
    let pattern = Pattern::new(&pattern);
    let most = to_position(most).unwrap_or(i64::MAX);
    let (mut done, mut at, mut result) = (0, 0, Vec::new());
    while done < most {
        let found = pattern.match_at(&text, at, budget)?;
        if let Some(found) = &found {
            done += 1;
            append_replacement(lua, budget, &text, found, &with, &mut result)?;
            if result.len() > MEMORY_BYTES_MAX {
                return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
            }
        }
        match found {
            Some(found) if found.whole.end > at => at = found.whole.end,
            _ => {
                let Some(byte) = text.get(at) else { break };
                result.push(*byte);
                at += 1;
            }
        }
        if pattern.is_anchored() {
            break;
        }
    }
    result.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok((lua.create_string(&result)?, done))
}

/// Appends the replacement for a match.
fn append_replacement(
    lua: &Lua,
    budget: &Budget,
    text: &[u8],
    found: &PatternMatch,
    with: &Value,
    result: &mut Vec<u8>,
) -> mlua::Result<()> {
    budget.take_steps(CALL_STEPS)?;
    let value = match with {
        Value::Table(table) => table.get::<Value>(first_capture(lua, text, found)?)?,
        Value::Function(function) => function.call::<Value>(capture_values(lua, text, found)?)?,
        template => {
            let template = lua.coerce_string(template.clone())?.map(|text| text.as_bytes().to_vec());
            return append_template(lua, budget, text, found, &template.unwrap_or_default(), result);
        }
    };
    match value {
        Value::Nil | Value::Boolean(false) => {
            result.extend_from_slice(found.whole.text_in(text));
            Ok(())
        }
        other => match lua.coerce_string(other.clone())? {
            Some(replacement) => {
                budget.take_steps_for_bytes(replacement.as_bytes().len())?;
                result.extend_from_slice(&replacement.as_bytes());
                Ok(())
            }
            None => Err(mlua::Error::runtime(format!("invalid replacement value (a {})", other.type_name()))),
        },
    }
}

/// Appends a template with `%0` to `%9` replaced by captures.
fn append_template(
    lua: &Lua,
    budget: &Budget,
    text: &[u8],
    found: &PatternMatch,
    template: &[u8],
    result: &mut Vec<u8>,
) -> mlua::Result<()> {
    budget.take_steps_for_bytes(template.len())?;
    let mut bytes = template.iter();
    while let Some(byte) = bytes.next() {
        match (byte, if *byte == b'%' { bytes.next() } else { None }) {
            (b'%', Some(b'0')) => result.extend_from_slice(found.whole.text_in(text)),
            (b'%', Some(digit @ b'1'..=b'9')) => {
                let index = usize::from(digit - b'1');
                let value = match (found.captures.get(index), index) {
                    (Some(span), _) => capture_value(lua, text, span)?,
                    (None, 0) => first_capture(lua, text, found)?,
                    (None, _) => return Err(mlua::Error::runtime("invalid capture index")),
                };
                if let Some(value) = lua.coerce_string(value)? {
                    budget.take_steps_for_bytes(value.as_bytes().len())?;
                    result.extend_from_slice(&value.as_bytes());
                }
            }
            (b'%', Some(other)) => result.push(*other),
            (byte, _) => result.push(*byte),
        }
    }
    Ok(())
}

/// Returns all captures, or the whole match if the pattern has none.
fn capture_values(lua: &Lua, text: &[u8], found: &PatternMatch) -> mlua::Result<MultiValue> {
    if found.captures.is_empty() {
        return Ok(MultiValue::from_vec(vec![first_capture(lua, text, found)?]));
    }
    found.captures.iter().map(|span| capture_value(lua, text, span)).collect()
}

fn first_capture(lua: &Lua, text: &[u8], found: &PatternMatch) -> mlua::Result<Value> {
    capture_value(lua, text, found.captures.first().unwrap_or(&Some(found.whole)))
}

fn capture_value(lua: &Lua, text: &[u8], span: &Option<Span>) -> mlua::Result<Value> {
    let Some(span) = span else { return Err(mlua::Error::runtime("unfinished capture")) };
    if span.is_position_capture {
        return Ok(number_value(span.start + 1));
    }
    Ok(Value::String(lua.create_string(span.text_in(text))?))
}

fn no_values() -> MultiValue {
    MultiValue::from_vec(vec![Value::Nil])
}

fn number_value(count: usize) -> Value {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Converts a number to a position. Numbers in Lua 5.1 are floating-point, and fractions are truncated.
fn to_position(number: Option<f64>) -> Option<i64> {
    number.filter(|number| !number.is_nan()).map(|number| number as i64)
}
