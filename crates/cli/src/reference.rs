//! Generated reference pages.
//!
//! The test fails if a page in `docs/reference` is outdated. With `TIDEGATE_WRITE_REFERENCE=1`, it writes the
//! pages instead.

mod annotations;
mod command_line;
mod fields;
mod http_api;
mod markdown;
mod metrics;

use std::fs;
use std::path::Path;

/// Environment variable that makes the test write the pages.
const WRITE_VARIABLE: &str = "TIDEGATE_WRITE_REFERENCE";
/// First lines of each page, below the heading.
const NOTE: &str = "<!-- Generated: do not edit. `just reference` writes this page. -->";

/// Returns all generated pages, by file name.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![
        ("command-line-options.md".to_owned(), command_line::page()),
        ("http-routes.md".to_owned(), http_api::page()),
        ("annotation-list.md".to_owned(), annotations::page()),
        ("metric-list.md".to_owned(), metrics::page()),
    ];
    pages.extend(fields::pages());
    pages
}

#[test]
fn generated_pages_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let is_writing = std::env::var_os(WRITE_VARIABLE).is_some();
    let mut stale = Vec::new();
    for (name, text) in pages() {
        let (title, rest) = text.split_once('\n').unwrap();
        let text = format!("{title}\n\n{NOTE}\n{}\n", rest.trim_end());
        let path = folder.join(&name);
        if is_writing {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "stale pages in docs/reference: {stale:?}; write them with `just reference`");
}

/// Links always lead to the first of several equal anchors.
#[test]
fn anchors_are_unique() {
    for (name, text) in pages() {
        let mut anchors = std::collections::BTreeSet::new();
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
                let heading = heading.trim_start_matches('#').trim();
                assert!(anchors.insert(markdown::anchor(heading)), "{name}: {heading}");
            }
        }
    }
}
