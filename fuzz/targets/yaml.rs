//! Fuzz target for YAML and JSON. Each value must round-trip through JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{LIMITS, has_fraction};
use tidegate_yaml::{json, parse_document, parse_value};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(values) = json::parse_values(text, &LIMITS) {
        for document in values.into_iter().flatten() {
            assert!(document.node.line_of("") >= 1);
        }
    }
    if let Ok(document) = parse_document(text, &LIMITS) {
        assert!(document.node.count() <= LIMITS.nodes);
    }
    let Ok(read) = parse_value(text, &LIMITS) else { return };
    if has_fraction(&read) {
        return;
    }
    // The brackets add a level of nesting, which may exceed the depth limit. With them, the text is parsed as
    // JSON even if the value is a scalar.
    let written = format!("[{read}]");
    match parse_value(&written, &LIMITS) {
        Ok(again) => assert_eq!(again.get(0), Some(&read), "{written}"),
        Err(problem) => assert!(written.len() > LIMITS.depth, "{problem}: {written}"),
    }
});
