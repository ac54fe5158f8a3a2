//! Limits for scripts. They count steps rather than seconds, so that the same object always has the same
//! result.

use std::cell::Cell;

use mlua::{HookTriggers, Lua, VmState};

/// Maximum number of steps per run, ten times the cost of reading every field of the largest object that
/// Kubernetes can store. An endless loop is stopped in well under a second.
pub(crate) const STEPS_MAX: u64 = 20_000_000;
/// Maximum memory in bytes that a script may allocate on top of the object itself. Memory isn't freed before
/// the end of a run, so this also bounds the work caused by allocations.
pub(crate) const MEMORY_BYTES_MAX: usize = 32 << 20;
/// Number of bytes per additional step. A single instruction can copy or compare a whole string or table. It
/// costs an extra step for every `BYTES_PER_STEP` bytes of the largest possible value.
const BYTES_PER_STEP: u64 = 4_096;
/// Number of instructions between two checks.
const CHECK_INTERVAL: u32 = 10;

/// Maximum call depth. Lua's own limit is 200 calls through C, and a script that reaches it can't be stopped
/// anymore.
const DEPTH_MAX: usize = 100;
/// Cost of the error for deeply nested calls, in steps.
const TOO_DEEP_STEPS: u64 = 5_000;
/// Cost of a call from Lua to native code, in steps. The call takes about as long as this many instructions.
pub(super) const CALL_STEPS: u64 = 100;
/// Cost of a caught error, in steps.
pub(super) const CATCH_STEPS: u64 = 1_000;
/// Number of bytes per step for processing a string byte by byte.
const BYTES_PER_SLOW_STEP: u64 = 16;

/// Message of the error that stops a script. Scripts may catch it, but the next instruction raises it again.
const EXHAUSTED: &str = "the script exceeded its limits";

/// Remaining steps of a script.
#[derive(Debug)]
pub(super) struct Budget {
    steps_left: Cell<u64>,
    is_exhausted: Cell<bool>,
    /// Size in bytes of the largest possible string or table: the largest value in the object, or the largest
    /// allocation between two checks.
    largest: Cell<u64>,
    memory_used: Cell<usize>,
}

impl Budget {
    /// Creates a full budget. `largest` is the size of the largest value in the object.
    pub(super) fn new(largest: usize) -> Self {
        Self {
            steps_left: Cell::new(STEPS_MAX),
            is_exhausted: Cell::new(false),
            largest: Cell::new(bytes_as_u64(largest)),
            memory_used: Cell::new(0),
        }
    }

    /// Returns true if the script exceeded the budget, even if it caught the error.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Consumes steps.
    pub(super) fn take_steps(&self, steps: u64) -> mlua::Result<()> {
        let left = self.steps_left.get().saturating_sub(steps);
        self.steps_left.set(left);
        if left == 0 {
            self.is_exhausted.set(true);
            return Err(mlua::Error::runtime(EXHAUSTED));
        }
        Ok(())
    }

    /// Charges the steps for processing this many bytes.
    pub(super) fn take_steps_for_bytes(&self, bytes: usize) -> mlua::Result<()> {
        self.take_steps(1 + bytes_as_u64(bytes) / BYTES_PER_SLOW_STEP)
    }

    fn charge_instructions(&self, lua: &Lua) -> mlua::Result<()> {
        let used = lua.used_memory();
        let grown = bytes_as_u64(used.saturating_sub(self.memory_used.replace(used)));
        self.largest.set(self.largest.get().max(grown));
        self.take_steps(u64::from(CHECK_INTERVAL) * (1 + self.largest.get() / BYTES_PER_STEP))?;
        if lua.inspect_stack(DEPTH_MAX, |_| ()).is_some() {
            self.take_steps(TOO_DEEP_STEPS)?;
            return Err(mlua::Error::runtime("stack overflow: calls are nested too deeply"));
        }
        Ok(())
    }
}

/// Installs the limits for everything that the Lua state runs from then on.
pub(super) fn install_limits(lua: &Lua, budget: &std::rc::Rc<Budget>) -> mlua::Result<()> {
    lua.gc_stop();
    let used = lua.used_memory();
    budget.memory_used.set(used);
    lua.set_memory_limit(used.saturating_add(MEMORY_BYTES_MAX))?;
    let looking = std::rc::Rc::clone(budget);
    lua.set_hook(HookTriggers::new().every_nth_instruction(CHECK_INTERVAL), move |lua, _| {
        let looked = looking.charge_instructions(lua);
        if looking.is_exhausted() {
            // `pcall` catches errors from this hook too. Every instruction raises them again, so a script
            // can't escape the limit.
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                Err(mlua::Error::runtime(EXHAUSTED))
            })?;
        }
        looked.map(|()| VmState::Continue)
    })
}

fn bytes_as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
