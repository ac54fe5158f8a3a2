//! Health scripts in Argo CD's dialect (Lua 5.1 with `goto`) and with its contract: the input is the object
//! as `obj`, the output a table with `status` and `message`.
//!
//! ```text
//! object ──▶ table `obj` (null is nil) ─┐
//! now ─────▶ require("os")              ├─▶ own state ─▶ script ─▶ health │ no status │ error
//! prelude.lua: no files, no new code    ┘        ▲
//!                                             budget: steps and memory
//! ```
//!
//! The interpreter is Lua 5.2, the first version with `goto`. `dialect` and the prelude bring back the
//! behavior that 5.1 scripts expect.
//!
//! Each run has its own Lua state, so runs can't affect each other. The result depends only on the object,
//! the time and the script. Scripts can't read a clock.

mod budget;
mod calendar;
mod convert;
mod dialect;
mod os_library;
mod pattern;
mod strings;

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib};
use tidegate_model::{Object, Timestamp};

use crate::HealthError;
use crate::verdict::Verdict;
use budget::Budget;

/// Maximum length of a stored error in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// Compiles a script without running it. Returns its syntax error, if any.
pub(crate) fn check_syntax(name: &str, text: &str) -> Result<(), String> {
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::new()).map_err(|error| error_reason(&error))?;
    compile_script(&lua, name, text).map(|_| ()).map_err(|error| error_reason(&error))
}

/// Runs a script on an object.
pub(crate) fn run_script(name: &str, text: &str, object: &Object, now: Timestamp) -> Verdict {
    let budget = Rc::new(Budget::new(convert::largest_value_size(object.as_value())));
    let failed = |error: &mlua::Error| {
        let script = name.to_owned();
        if budget.is_exhausted() {
            HealthError::ScriptSteps { script, limit: budget::STEPS_MAX }
        } else if is_memory_error(error) {
            HealthError::ScriptMemory { script, limit: budget::MEMORY_BYTES_MAX }
        } else {
            HealthError::Script { script, reason: error_reason(error) }
        }
    };
    let lua = create_sandbox(&budget, object, now).map_err(|error| failed(&error))?;
    let script = compile_script(&lua, name, text).map_err(|error| failed(&error))?;
    let results = script.call::<MultiValue>(()).map_err(|error| failed(&error))?;
    if budget.is_exhausted() {
        return Err(HealthError::ScriptSteps { script: name.to_owned(), limit: budget::STEPS_MAX });
    }
    convert::verdict_from_lua(name, &results.into_iter().next_back().unwrap_or_default())
}

fn create_sandbox(budget: &Rc<Budget>, object: &Object, now: Timestamp) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
    let charging = Rc::clone(budget);
    let charge = lua.create_function(move |_, steps: f64| charging.take_steps(steps.max(0.0) as u64))?;
    strings::install(&lua, budget)?;
    lua.load(include_str!("lua/prelude.lua"))
        .set_name("=prelude")
        .call::<()>((charge, budget::CATCH_STEPS))?;
    os_library::install(&lua, budget, now)?;
    lua.globals().set("obj", convert::to_lua(&lua, object.as_value())?)?;
    budget::install_limits(&lua, budget)?;
    Ok(lua)
}

fn compile_script(lua: &Lua, name: &str, text: &str) -> mlua::Result<Function> {
    // This prefix makes Lua show the chunk name verbatim.
    lua.load(dialect::translated(text).as_ref())
        .set_name(format!("={name}"))
        .set_mode(ChunkMode::Text)
        .into_function()
}

fn is_memory_error(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory_error(cause),
        _ => false,
    }
}

/// Returns the error message with file and line, but without the stack trace.
fn error_reason(error: &mlua::Error) -> String {
    let mut text = match error {
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => text.clone(),
        mlua::Error::CallbackError { cause, .. } => error_reason(cause),
        other => other.to_string(),
    };
    if let Some(end) = text.find("\nstack traceback:") {
        text.truncate(end);
    }
    crate::text::shorten(text, REASON_BYTES_MAX)
}
