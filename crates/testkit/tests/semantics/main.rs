//! Every line of `docs/semantics.md` is held by a test: `proofs.rs` names it, and these tests hold the two together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod proofs;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proofs::PROOFS;
use tidegate_testkit::scenario;

/// A paragraph is known by so many of its first words.
const WORDS: usize = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the page says, in its order: rows of tables by their first cell, paragraphs and items of lists by their first
/// words.
fn statements() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/semantics.md")).unwrap();
    let mut statements = Vec::new();
    let mut goes_on = false;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let begins = !goes_on || line.starts_with("- ");
        goes_on = !line.is_empty();
        let is_head = lines.peek().is_some_and(|next| next.starts_with("| ---"));
        if line.is_empty() || line.starts_with('#') || line.starts_with("| ---") || is_head {
            continue;
        }
        if let Some(row) = line.strip_prefix("| ") {
            let (subject, _) = row.split_once(" | ").unwrap_or((row, ""));
            statements.push(subject.trim().to_owned());
        } else if begins {
            let words: Vec<&str> = line.trim_start_matches("- ").split_whitespace().take(WORDS).collect();
            statements.push(words.join(" "));
        }
    }
    statements
}

#[test]
fn whatever_the_page_says_has_a_test() {
    let said = statements();
    assert!(said.len() > 50, "the page is not read as it is written: {said:#?}");
    let proven: BTreeSet<&str> = PROOFS.iter().map(|(statement, _)| *statement).collect();
    let missing: Vec<&String> = said.iter().filter(|one| !proven.contains(one.as_str())).collect();
    assert!(missing.is_empty(), "name a test in proofs.rs for each of these, or write one: {missing:#?}");
    let left: Vec<&str> =
        proven.into_iter().filter(|one| !said.iter().any(|statement| statement == one)).collect();
    assert!(left.is_empty(), "docs/semantics.md does not say these any more: {left:#?}");
    let mut seen = BTreeSet::new();
    assert!(said.iter().all(|one| seen.insert(one)), "two statements begin alike: {said:#?}");
}

#[test]
fn whatever_is_named_is_there() {
    let golden: BTreeSet<&str> = scenario::all().iter().map(|scenario| scenario.name).collect();
    for (statement, tests) in PROOFS {
        assert!(!tests.is_empty(), "{statement}: no test");
        for test in *tests {
            if let Some(name) = test.strip_prefix("golden ") {
                assert!(golden.contains(name), "{statement}: there is no golden operation {name}");
                continue;
            }
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{statement}: {test}"));
            let text = fs::read_to_string(root().join(file));
            let text = text.unwrap_or_else(|error| panic!("{statement}: {file}: {error}"));
            assert!(text.contains(&format!("fn {name}(")), "{statement}: {file} has no test {name}");
        }
    }
}
