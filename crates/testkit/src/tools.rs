//! The programs that make manifests, for the tests that need them.
//!
//! They are looked for in the folders of `TIDEGATE_TOOLS`, and then on the `PATH`. A test that finds none says by name that it
//! was skipped; where `TIDEGATE_REQUIRE_TOOLS=1` is set, as in CI, it fails instead.

use std::env;
use std::path::PathBuf;
use std::thread;

/// `helm`, or nothing where there is none.
pub fn helm() -> Option<PathBuf> {
    found(&["helm"])
}

/// `kustomize` or `kubectl`, or nothing where there is neither.
pub fn kustomize() -> Option<PathBuf> {
    found(&["kustomize", "kubectl"])
}

fn found(names: &[&str]) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|name| env::var_os(name).unwrap_or_default());
    let folders: Vec<PathBuf> = folders.iter().flat_map(env::split_paths).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let program = all.into_iter().find(|program| program.is_file());
    if program.is_none() {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let names = names.join(" nor ");
        let required = env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
        assert!(!required, "{test} needs {names}, which TIDEGATE_REQUIRE_TOOLS says are here");
        eprintln!("skipped: {test}: there is no {names} here; TIDEGATE_TOOLS names a folder with them");
    }
    program
}
