//! Manifest tools, for tests that need them.
//!
//! Tools are looked up in the folders of `TIDEGATE_TOOLS`, then on the `PATH`. Without its tool, a test
//! reports that it was skipped or, with `TIDEGATE_REQUIRE_TOOLS=1` as in CI, fails.

use std::env;
use std::path::PathBuf;
use std::thread;

/// Returns `helm` if it is installed.
pub fn helm() -> Option<PathBuf> {
    find_program(&["helm"])
}

/// Returns `kustomize` or `kubectl`, if one of them is installed.
pub fn kustomize() -> Option<PathBuf> {
    find_program(&["kustomize", "kubectl"])
}

fn find_program(names: &[&str]) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|name| env::var_os(name).unwrap_or_default());
    let folders: Vec<PathBuf> = folders.iter().flat_map(env::split_paths).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let program = all.into_iter().find(|program| program.is_file());
    if program.is_none() {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let names = names.join(" nor ");
        let required = env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
        assert!(!required, "{test} needs {names}, and TIDEGATE_REQUIRE_TOOLS requires them");
        eprintln!("skipped: {test}: {names} are missing; set TIDEGATE_TOOLS to their folder");
    }
    program
}
