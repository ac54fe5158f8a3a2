//! Panic guard for the database, which converts sled's panics on damaged files to errors.
//!
//! A panic in guarded code isn't printed; its message becomes the error's reason. Other panics are printed as
//! usual.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC_MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `call`, and converts a panic to an error with the panic message.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let outer = IS_GUARDED.replace(true);
    // The log's own state can't become inconsistent: `call` uses only the database, which is abandoned after
    // a panic.
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(outer);
    result.map_err(|_| {
        let reason = PANIC_MESSAGE.take().unwrap_or_else(|| "no message".to_owned());
        format!("it panicked: {reason}")
    })
}

/// Installs a panic hook, once per process, in front of the existing one.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if IS_GUARDED.get() {
                let payload = panic.payload();
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let message =
                    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
                let place = panic
                    .location()
                    .map(|place| format!(" ({}:{})", strip_folders(place.file()), place.line()));
                PANIC_MESSAGE.set(Some(format!("{message}{}", place.unwrap_or_default())));
            } else {
                previous(panic);
            }
        }));
    });
}

/// Removes the build machine's folders from a path: they are meaningless to users.
fn strip_folders(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        let reason = catch_panic(|| -> () { panic!("torn {}", 7) }).unwrap_err();
        assert!(reason.contains("torn 7") && reason.contains("guard.rs"), "{reason}");
        assert_eq!(catch_panic(|| 2), Ok(2));
    }
}
