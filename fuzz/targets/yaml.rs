//! YAML and JSON: what is read, written as JSON and read again is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{LIMITS, has_fraction};
use tidegate_yaml::{json, parse, value};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(values) = json::values(text, &LIMITS) {
        for document in values.into_iter().flatten() {
            assert!(document.node.line_of("") >= 1);
        }
    }
    if let Ok(document) = parse(text, &LIMITS) {
        assert!(document.node.count() <= LIMITS.nodes);
    }
    let Ok(read) = value(text, &LIMITS) else { return };
    if has_fraction(&read) {
        return;
    }
    // What stands between brackets is read as JSON; one level more may be one too many.
    let written = format!("[{read}]");
    match value(&written, &LIMITS) {
        Ok(again) => assert_eq!(again.get(0), Some(&read), "{written}"),
        Err(problem) => assert!(written.len() > LIMITS.depth, "{problem}: {written}"),
    }
});
