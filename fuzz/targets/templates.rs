//! Fuzz target for Go templates, with the data of the template table. Rendering must be deterministic and
//! within the limits.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidegate_fuzz::checks::now;
use tidegate_gotmpl::{Engine, Limits, MissingKey};

const LIMITS: Limits = Limits { steps: 20_000, output_bytes: 64 << 10, depth: 50 };

static DATA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../crates/gotmpl/tests/table/data.json")).unwrap_or_default()
});

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for missing_key in [MissingKey::Default, MissingKey::Zero, MissingKey::Error] {
        let engine = Engine::with_sprig().missing_key(missing_key).now(now().as_millis() / 1000);
        let Ok(template) = engine.parse("fuzz", text) else { return };
        let (rendered, steps) = template.render_within(&DATA, LIMITS);
        assert_eq!((&rendered, steps), (&template.render_within(&DATA, LIMITS).0, steps));
        match rendered {
            Ok(output) => assert!(output.len() <= LIMITS.output_bytes, "{}", output.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
