//! Keeps the database's panics in: sled panics on some damaged files, and that must end as an error with a reason.
//!
//! While guarded code runs, its panic is not printed but kept as the reason. Panics elsewhere are printed as ever.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `call`; a panic in it comes back as its message.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let outer = GUARDED.replace(true);
    // Nothing of ours is left half changed: `call` only talks to the database, which is given up after a panic.
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(outer);
    result.map_err(|_| {
        let reason = REASON.take().unwrap_or_else(|| "no message".to_owned());
        format!("it panicked: {reason}")
    })
}

/// Puts a hook in front of the one that is there, once for the process.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if GUARDED.get() {
                let payload = panic.payload();
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let message =
                    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
                let place =
                    panic.location().map(|place| format!(" ({}:{})", file_name(place.file()), place.line()));
                REASON.set(Some(format!("{message}{}", place.unwrap_or_default())));
            } else {
                previous(panic);
            }
        }));
    });
}

/// Folders of the machine it was built on say nothing to the reader.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_reason() {
        assert_eq!(guarded(|| 1), Ok(1));
        let reason = guarded(|| -> () { panic!("torn {}", 7) }).unwrap_err();
        assert!(reason.contains("torn 7") && reason.contains("guard.rs"), "{reason}");
        assert_eq!(guarded(|| 2), Ok(2));
    }
}
