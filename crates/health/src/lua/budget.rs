//! How much a script may do. Counted in steps and not in seconds, so that the same object always gets the same verdict.

use std::cell::Cell;

use mlua::{HookTriggers, Lua, VmState};

/// Steps of one run. A script that looks at each field of the largest object Kubernetes stores takes a tenth of them;
/// an endless loop is over in well under a second.
pub(crate) const STEPS_MAX: u64 = 20_000_000;
/// What a script may allocate in all, besides the object itself. Nothing is freed before the end of a run, so this also
/// bounds the work that is done by allocating.
pub(crate) const MEMORY_BYTES_MAX: usize = 32 << 20;
/// One instruction may copy or compare a whole text or table. It costs one more step for every so many bytes of the
/// largest there can be.
const BYTES_PER_STEP: u64 = 4_096;
/// Instructions between two looks.
const STRIDE: u32 = 10;

/// Calls inside each other. Lua itself stops at 200 that go through C, and there is no room left then to end a script.
const DEPTH_MAX: usize = 100;
/// Steps for an error because of that.
const TOO_DEEP_STEPS: u64 = 5_000;
/// Steps for a call that leaves Lua: it takes about as long as so many instructions.
pub(super) const CALL_STEPS: u64 = 100;
/// Steps for an error that is caught.
pub(super) const CATCH_STEPS: u64 = 1_000;
/// Going through a text byte by byte costs a step for so many of them.
const BYTES_PER_SLOW_STEP: u64 = 16;

/// The text of the error that ends a script. A script may catch it; the next instruction raises it again.
const EXHAUSTED: &str = "the script did too much";

/// The steps that are left.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    exhausted: Cell<bool>,
    /// Bytes of the largest text or table there can be: what the object brought, or the most that was allocated between
    /// two looks.
    largest: Cell<u64>,
    used: Cell<usize>,
}

impl Budget {
    /// All steps; `largest` is the size of the largest thing in the object.
    pub(super) fn new(largest: usize) -> Self {
        Self {
            left: Cell::new(STEPS_MAX),
            exhausted: Cell::new(false),
            largest: Cell::new(widen(largest)),
            used: Cell::new(0),
        }
    }

    /// Whether the script wanted more than there was, even if it caught the error.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Takes some steps.
    pub(super) fn charge(&self, steps: u64) -> mlua::Result<()> {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        if left == 0 {
            self.exhausted.set(true);
            return Err(mlua::Error::runtime(EXHAUSTED));
        }
        Ok(())
    }

    /// Takes the steps for going through so many bytes.
    pub(super) fn charge_bytes(&self, bytes: usize) -> mlua::Result<()> {
        self.charge(1 + widen(bytes) / BYTES_PER_SLOW_STEP)
    }

    fn look(&self, lua: &Lua) -> mlua::Result<()> {
        let used = lua.used_memory();
        let grown = widen(used.saturating_sub(self.used.replace(used)));
        self.largest.set(self.largest.get().max(grown));
        self.charge(u64::from(STRIDE) * (1 + self.largest.get() / BYTES_PER_STEP))?;
        if lua.inspect_stack(DEPTH_MAX, |_| ()).is_some() {
            self.charge(TOO_DEEP_STEPS)?;
            return Err(mlua::Error::runtime("stack overflow: too many calls inside each other"));
        }
        Ok(())
    }
}

/// Bounds what the state does from now on.
pub(super) fn limit(lua: &Lua, budget: &std::rc::Rc<Budget>) -> mlua::Result<()> {
    lua.gc_stop();
    let used = lua.used_memory();
    budget.used.set(used);
    lua.set_memory_limit(used.saturating_add(MEMORY_BYTES_MAX))?;
    let looking = std::rc::Rc::clone(budget);
    lua.set_hook(HookTriggers::new().every_nth_instruction(STRIDE), move |lua, _| {
        let looked = looking.look(lua);
        if looking.is_exhausted() {
            // `pcall` catches errors of this hook too. At every single instruction it cannot go on.
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                Err(mlua::Error::runtime(EXHAUSTED))
            })?;
        }
        looked.map(|()| VmState::Continue)
    })
}

fn widen(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
