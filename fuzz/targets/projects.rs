//! Fuzz target for AppProjects and their permissions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::checks::check_project;
use tidegate_fuzz::document;

fuzz_target!(|input: &[u8]| {
    if let Some(document) = document(input) {
        check_project(document);
    }
});
