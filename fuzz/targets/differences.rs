//! Fuzz target for comparing two objects with ignored differences. The input's fields are `ignore` (entries
//! of `ignoreDifferences`), `target` and `live`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidegate_fuzz::document;
use tidegate_model::{IgnoreDifference, Object, Tracking};
use tidegate_planner::{Comparer, TakenOverFields, is_ignored_when_extraneous, server_side_diff};

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
    let part = |name: &str| document.get(name).cloned().unwrap_or_default();
    let ignore: Vec<IgnoreDifference> = match part("ignore") {
        Value::Array(entries) => {
            entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
        }
        _ => Vec::new(),
    };
    let (Ok(target), Ok(live)) = (Object::try_from(part("target")), Object::try_from(part("live"))) else {
        return;
    };
    let (comparer, errors) = Comparer::new(&ignore, &Tracking::default());
    for error in errors {
        assert!(!error.to_string().is_empty());
    }
    let managers = ["kubectl".to_owned()];
    let taken = || Some(TakenOverFields { managers: &managers, prediction_without_live: Some(&target) });
    for filtered in [true, false] {
        let same = comparer.predicted_difference(&target, &live, &live, filtered, None);
        assert!(same.changes.is_empty(), "an unchanged object has no changes: {same:?}");
        comparer.predicted_difference(&target, &live, &target, filtered, taken());
    }
    let once = comparer.estimated_difference(&target, &live, &managers);
    assert_eq!(once, comparer.estimated_difference(&target, &live, &managers));
    server_side_diff(&target, &live);
    is_ignored_when_extraneous(&live);
    let mut respected = target.clone();
    comparer.preserve_ignored(&mut respected, &live);
    let mut again = respected.clone();
    comparer.preserve_ignored(&mut again, &live);
    assert_eq!(again, respected, "preserving the ignored fields again has no effect");
});
