//! Health scripts in the dialect Argo CD runs (Lua 5.1 that knows `goto`), with the contract of Argo CD: the object comes in as `obj`, a table with `status` and
//! `message` goes out.
//!
//! ```text
//! object ──▶ table `obj` (null is nil) ─┐
//! now ─────▶ require("os")              ├─▶ state of its own ─▶ script ─▶ verdict │ no status │ error
//! prelude.lua: no files, no new code    ┘        ▲
//!                                             budget: steps and memory
//! ```
//!
//! The interpreter is 5.2, the first with `goto`; `dialect` and the prelude put back what scripts for 5.1 expect.
//!
//! Each run has a state of its own, so runs cannot tell of each other. What a script can do depends on the object, the
//! moment and the script alone; there is no clock in it.

mod budget;
mod calendar;
mod convert;
mod dialect;
mod os;
mod pattern;
mod strings;

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib};
use tidegate_model::{Object, Timestamp};

use crate::HealthError;
use crate::verdict::Verdict;
use budget::Budget;

/// Longest text of an error that is kept.
const REASON_BYTES_MAX: usize = 1_024;

/// Compiles a script without running it: its syntax error, if it has one.
pub(crate) fn check(name: &str, text: &str) -> Result<(), String> {
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::new()).map_err(|error| reason(&error))?;
    compile(&lua, name, text).map(|_| ()).map_err(|error| reason(&error))
}

/// Runs a script on an object.
pub(crate) fn run(name: &str, text: &str, object: &Object, now: Timestamp) -> Verdict {
    let budget = Rc::new(Budget::new(convert::largest(object.as_value())));
    let failed = |error: &mlua::Error| {
        let script = name.to_owned();
        if budget.is_exhausted() {
            HealthError::ScriptSteps { script, limit: budget::STEPS_MAX }
        } else if is_about_memory(error) {
            HealthError::ScriptMemory { script, limit: budget::MEMORY_BYTES_MAX }
        } else {
            HealthError::Script { script, reason: reason(error) }
        }
    };
    let lua = sandbox(&budget, object, now).map_err(|error| failed(&error))?;
    let script = compile(&lua, name, text).map_err(|error| failed(&error))?;
    let results = script.call::<MultiValue>(()).map_err(|error| failed(&error))?;
    if budget.is_exhausted() {
        return Err(HealthError::ScriptSteps { script: name.to_owned(), limit: budget::STEPS_MAX });
    }
    convert::verdict(name, &results.into_iter().next_back().unwrap_or_default())
}

fn sandbox(budget: &Rc<Budget>, object: &Object, now: Timestamp) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
    let charging = Rc::clone(budget);
    let charge = lua.create_function(move |_, steps: f64| charging.charge(steps.max(0.0) as u64))?;
    strings::install(&lua, budget)?;
    lua.load(include_str!("prelude.lua")).set_name("=prelude").call::<()>((charge, budget::CATCH_STEPS))?;
    os::install(&lua, budget, now)?;
    lua.globals().set("obj", convert::to_lua(&lua, object.as_value())?)?;
    budget::limit(&lua, budget)?;
    Ok(lua)
}

fn compile(lua: &Lua, name: &str, text: &str) -> mlua::Result<Function> {
    // The mark says that the name is shown as it is.
    lua.load(dialect::translated(text).as_ref())
        .set_name(format!("={name}"))
        .set_mode(ChunkMode::Text)
        .into_function()
}

fn is_about_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_about_memory(cause),
        _ => false,
    }
}

/// What went wrong, with file and line but without the calls that led there.
fn reason(error: &mlua::Error) -> String {
    let mut text = match error {
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => text.clone(),
        mlua::Error::CallbackError { cause, .. } => reason(cause),
        other => other.to_string(),
    };
    if let Some(end) = text.find("\nstack traceback:") {
        text.truncate(end);
    }
    crate::text::shorten(text, REASON_BYTES_MAX)
}
