//! Fuzz target for Applications. Serialization must round-trip, and all derived values must be computable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::checks::check_application;
use tidegate_fuzz::document;

fuzz_target!(|input: &[u8]| {
    if let Some(document) = document(input) {
        check_application(document);
    }
});
