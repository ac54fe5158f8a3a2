//! `require`, and a subset of `os` for scripts: `os.time`, `os.date` and `os.difftime`, based on a fixed time
//! in UTC.

use std::rc::Rc;

use jiff::civil::DateTime;
use mlua::{Function, Lua, Table, Value};
use tidegate_model::Timestamp;

use super::budget::{Budget, CALL_STEPS};
use super::calendar::{date_time, format_time, seconds_since_epoch};
use super::convert::type_name;

/// Libraries that `require` returns.
const LIBRARIES: [&str; 3] = ["string", "table", "math"];

/// Installs `require`.
pub(super) fn install(lua: &Lua, budget: &Rc<Budget>, now: Timestamp) -> mlua::Result<()> {
    let os = lua.create_table()?;
    os.set("time", time_function(lua, Rc::clone(budget), now)?)?;
    os.set("date", date_function(lua, Rc::clone(budget), now)?)?;
    os.set("difftime", lua.create_function(|_, (later, earlier): (f64, f64)| Ok(later - earlier))?)?;
    let libraries = lua.create_table()?;
    libraries.set("os", &os)?;
    lua.globals().set("os", os)?;
    for name in LIBRARIES {
        libraries.set(name, lua.globals().get::<Value>(name)?)?;
    }
    let steps = Rc::clone(budget);
    let require = lua.create_function(move |_, name: String| {
        steps.take_steps(CALL_STEPS)?;
        libraries.get::<Option<Table>>(name.as_str())?.ok_or_else(|| {
            mlua::Error::runtime(format!(
                "module {name:?} is not available to health scripts; use os (time and date), string, table or math"
            ))
        })
    })?;
    lua.globals().set("require", require)
}

fn time_function(lua: &Lua, budget: Rc<Budget>, now: Timestamp) -> mlua::Result<Function> {
    lua.create_function(move |_, parts: Option<Table>| {
        budget.take_steps(CALL_STEPS)?;
        let Some(parts) = parts else { return Ok(now.as_seconds()) };
        let part = |name: &str, default: Option<i64>| {
            integer_field(name, &parts.get::<Value>(name)?)?
                .or(default)
                .ok_or_else(|| mlua::Error::runtime(format!("field '{name}' missing in date table")))
        };
        let date = [part("year", None)?, part("month", None)?, part("day", None)?];
        let time = [part("hour", Some(12))?, part("min", Some(0))?, part("sec", Some(0))?];
        seconds_since_epoch(date, time).ok_or_else(|| mlua::Error::runtime("the time is out of range"))
    })
}

/// Parses a field of a time. It may be a string, because `string.match` returns strings.
fn integer_field(name: &str, part: &Value) -> mlua::Result<Option<i64>> {
    let number = match part {
        Value::Nil => return Ok(None),
        Value::Integer(number) => return Ok(Some(*number)),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_string_lossy().trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) => Ok(Some(number as i64)),
        None => Err(mlua::Error::runtime(format!(
            "field '{name}' in a date table must be a number, found {}",
            type_name(part)
        ))),
    }
}

fn date_function(lua: &Lua, budget: Rc<Budget>, now: Timestamp) -> mlua::Result<Function> {
    lua.create_function(move |lua, (format, seconds): (Option<String>, Option<f64>)| {
        budget.take_steps(CALL_STEPS)?;
        let seconds = seconds.map_or(now.as_seconds(), |seconds| seconds as i64);
        let moment = date_time(seconds).ok_or_else(|| mlua::Error::runtime("the time is out of range"))?;
        let format = format.as_deref().unwrap_or("%c");
        let format = format.strip_prefix('!').unwrap_or(format);
        // A directive may expand to a longer text, hence the factor.
        budget.take_steps_for_bytes(format.len().saturating_mul(16))?;
        if format.starts_with("*t") {
            return calendar_table(lua, moment).map(Value::Table);
        }
        Ok(Value::String(lua.create_string(format_time(moment, format))?))
    })
}

fn calendar_table(lua: &Lua, moment: DateTime) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in [
        ("year", moment.year()),
        ("month", moment.month().into()),
        ("day", moment.day().into()),
        ("hour", moment.hour().into()),
        ("min", moment.minute().into()),
        ("sec", moment.second().into()),
        ("wday", moment.weekday().to_sunday_one_offset().into()),
        ("yday", moment.day_of_year()),
    ] {
        table.set(name, value)?;
    }
    table.set("isdst", false)?;
    Ok(table)
}
