//! Every statement in `docs/reference/semantics.md` must have a test. `proofs.rs` lists the tests, and the
//! tests in this file ensure that the list matches the page.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod proofs;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proofs::PROOFS;
use tidegate_testkit::scenario;

/// Number of leading words that identify a paragraph.
const LEADING_WORDS: usize = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the page's statements in order. The first cell identifies a table row, and the first words
/// identify a paragraph or list item.
fn statements() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/reference/semantics.md")).unwrap();
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
            let text: Vec<&str> =
                line.trim_start_matches("- ").split_whitespace().take(LEADING_WORDS).collect();
            statements.push(text.join(" "));
        }
    }
    statements
}

#[test]
fn every_statement_has_a_test() {
    let all_statements = statements();
    assert!(all_statements.len() > 50, "the page was not parsed correctly: {all_statements:#?}");
    let proven: BTreeSet<&str> = PROOFS.iter().map(|(statement, _)| *statement).collect();
    let missing: Vec<&String> = all_statements.iter().filter(|one| !proven.contains(one.as_str())).collect();
    assert!(missing.is_empty(), "statements without a test in proofs.rs: {missing:#?}");
    let left: Vec<&str> =
        proven.into_iter().filter(|one| !all_statements.iter().any(|statement| statement == one)).collect();
    assert!(left.is_empty(), "docs/reference/semantics.md no longer contains these statements: {left:#?}");
    let mut seen = BTreeSet::new();
    assert!(
        all_statements.iter().all(|one| seen.insert(one)),
        "two statements start with the same words: {all_statements:#?}"
    );
}

#[test]
fn every_named_test_exists() {
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
