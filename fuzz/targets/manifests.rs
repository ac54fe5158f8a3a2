//! Fuzz target for parsing manifests and planning a sync.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::checks::check_manifests;
use tidegate_fuzz::has_fraction;
use tidegate_model::Object;
use tidegate_planner::manifests::{Limits, parse};

fuzz_target!(|input: &[u8]| {
    let targets = check_manifests(input);
    for target in targets.iter().filter(|target| !has_fraction(target.object.as_value())) {
        let written = target.object.as_value().to_string();
        let again = parse("a.json", written.as_bytes(), &Limits::default()).unwrap_or_default();
        let again: Vec<&Object> = again.iter().map(|again| &again.object).collect();
        assert_eq!(again, [&target.object], "serialization round-trips");
    }
});
