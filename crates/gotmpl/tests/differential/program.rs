//! The reference program in Go that tests compare their results with.

use libtest_mimic::{Failed, Trial};

const PROGRAM: &str = "TIDEGATE_GO_TEMPLATES";
const REQUIRED: &str = "TIDEGATE_REQUIRE_GO_TEMPLATES";

/// Returns a test that needs the program. Without the program, the test is ignored, or fails if it is required.
pub fn trial(name: &str, test: impl FnOnce(&str) -> Result<(), Failed> + Send + 'static) -> Trial {
    if let Some(program) = std::env::var(PROGRAM).ok().filter(|program| !program.is_empty()) {
        return Trial::test(name, move || test(&program));
    }
    let reason = format!("{PROGRAM} names no program; scripts/template-table/program --fetch makes one");
    let is_required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    eprintln!("SKIPPED: {name}. {reason}");
    Trial::test(format!("{name} (no Go)"), move || Err(Failed::from(reason))).with_ignored_flag(!is_required)
}
