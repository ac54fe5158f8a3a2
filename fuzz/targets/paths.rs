//! Fuzz target for the paths, globs and version constraints of repositories. The parsers are included as
//! files, because the rest of the source crate depends on Git.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_application::push_events::PushEvent;
use tidegate_fuzz::checks::{check_glob, lines};
use tidegate_model::argo::ApplicationSource;

#[allow(dead_code, reason = "only the source crate uses the other functions")]
#[rustfmt::skip] // The file is formatted as part of its own crate.
#[path = "../../crates/source/src/manifest_paths.rs"]
mod touched;
#[allow(dead_code, reason = "only the source crate uses the other functions")]
#[rustfmt::skip]
#[path = "../../crates/source/src/version_constraints.rs"]
mod versions;

fuzz_target!(|input: &[u8]| {
    let [paths, folder, first, second] = lines(input);
    let all = touched::is_affected(&paths, &folder, [first.as_str(), second.as_str()]);
    let either = [&first, &second].map(|file| touched::is_affected(&paths, &folder, [file.as_str()]));
    assert_eq!(all, either.contains(&true), "files match independently");
    check_glob(&paths, &first);
    let newest = versions::newest_version(&paths, [first.as_str(), second.as_str()]);
    let either = [&first, &second].map(|version| versions::allows(&paths, version));
    assert_eq!(newest.is_some(), either.contains(&true), "a version is found if and only if one is allowed");
    let source = ApplicationSource { repo_url: first.clone(), ..ApplicationSource::default() };
    let push = PushEvent::new([folder.as_str(), second.as_str()]).with_ref(&second, true);
    push.is_to(&source);
    push.can_move(&paths, versions::allows);
});
