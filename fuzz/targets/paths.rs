//! Paths, globs and versions of repositories. What reads them needs Git only beside them, so it is taken by its files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_application::pushes::Push;
use tidegate_fuzz::lines;
use tidegate_model::Glob;
use tidegate_model::argo::ApplicationSource;

#[allow(dead_code, reason = "the rest is for who reads repositories")]
#[rustfmt::skip] // It is formatted where it is.
#[path = "../../crates/source/src/touched.rs"]
mod touched;
#[allow(dead_code, reason = "the rest is for who reads repositories")]
#[rustfmt::skip]
#[path = "../../crates/source/src/versions.rs"]
mod versions;

fuzz_target!(|input: &[u8]| {
    let [paths, folder, first, second] = lines(input);
    let all = touched::is_touched(&paths, &folder, [first.as_str(), second.as_str()]);
    let either = [&first, &second].map(|file| touched::is_touched(&paths, &folder, [file.as_str()]));
    assert_eq!(all, either.contains(&true), "each file counts by itself");
    if let Ok(glob) = Glob::parse(&paths) {
        glob.matches(&first);
    }
    if let Ok(glob) = Glob::between(&paths, '/') {
        glob.matches(&first);
    }
    let newest = versions::newest(&paths, [first.as_str(), second.as_str()]);
    let either = [&first, &second].map(|version| versions::allows(&paths, version));
    assert_eq!(newest.is_some(), either.contains(&true), "the newest of those that are allowed");
    let source = ApplicationSource { repo_url: first.clone(), ..ApplicationSource::default() };
    let push = Push::to([folder.as_str(), second.as_str()]).of(&second, true);
    push.is_to(&source);
    push.moves(&paths, versions::allows);
});
