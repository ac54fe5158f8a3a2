//! Rules for custom resources, written as data: one line per kind in `rows/`, with a file for each area.
//! [`row`] describes the language.

mod engine;
mod gateway_api;
mod generation;
mod row;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::script::matches_pattern;
pub(crate) use engine::{RowAssessment, assess_row};
pub(crate) use row::{EvidenceKind, HealthRow};

const FILES: [(&str, &str); 6] = [
    ("delivery", include_str!("builtin/rows/delivery.rows")),
    ("network", include_str!("builtin/rows/network.rows")),
    ("data", include_str!("builtin/rows/data.rows")),
    ("cloud", include_str!("builtin/rows/cloud.rows")),
    ("clusters", include_str!("builtin/rows/clusters.rows")),
    ("security", include_str!("builtin/rows/security.rows")),
];

#[derive(Debug, Default)]
struct RuleTable {
    rows: Vec<HealthRow>,
    /// Indexes into `rows`, by exact kind.
    exact_kinds: BTreeMap<String, usize>,
    /// Patterns in file order: the first match wins.
    patterns: Vec<(String, usize)>,
}

static TABLE: LazyLock<RuleTable> = LazyLock::new(|| {
    let mut table = RuleTable::default();
    // An invalid file contributes no rows. A test checks that all files are valid.
    for row in FILES.iter().filter_map(|(_, text)| row::parse_rows(text).ok()).flatten() {
        let place = table.rows.len();
        for kind in &row.kinds {
            if kind.contains('*') {
                table.patterns.push((kind.clone(), place));
            } else {
                table.exact_kinds.entry(kind.clone()).or_insert(place);
            }
        }
        table.rows.push(row);
    }
    table
});

/// Returns the row for a kind.
pub(crate) fn find_row(group: &str, kind: &str) -> Option<&'static HealthRow> {
    if group.is_empty() {
        return None;
    }
    let key = format!("{group}/{kind}");
    let by_pattern = || {
        let means = |(pattern, _): &&(String, usize)| matches_pattern(pattern.as_bytes(), key.as_bytes());
        TABLE.patterns.iter().find(means).map(|(_, place)| place)
    };
    TABLE.rows.get(*TABLE.exact_kinds.get(&key).or_else(by_pattern)?)
}

/// Returns the texts of all table files.
pub(crate) fn table_texts() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(_, text)| *text)
}

/// Kind in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInKind {
    /// `group/Kind`, where `*` matches any text.
    pub kind: &'static str,
    /// URL of the project's documentation about the status.
    pub source: &'static str,
}

/// Returns all kinds in the table of custom resources.
pub fn built_in_kinds() -> impl Iterator<Item = BuiltInKind> {
    let row =
        |row: &'static HealthRow| row.kinds.iter().map(|kind| BuiltInKind { kind, source: &row.source });
    TABLE.rows.iter().flat_map(row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_valid_and_unique() {
        let mut seen = BTreeSet::new();
        for (name, text) in FILES {
            let rows = row::parse_rows(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for kind in rows.iter().flat_map(|row| &row.kinds) {
                assert!(seen.insert(kind.clone()), "{name}: duplicate row of {kind}");
            }
        }
    }

    #[test]
    fn errors_name_the_problem_of_a_row() {
        for (text, reason) in [
            ("a.b/C | Healthy", "line 1: no documentation is cited; add its URL on a preceding line"),
            ("https://a\nC | Healthy", "line 2: \"C\" is not <group>/<Kind>"),
            ("https://a\na.b/C", "line 2: there is no clause"),
            ("https://a\na.b/C now | Healthy", "line 2: expected gen or once, found \"now\""),
            ("https://a\na.b/C | Fine", "line 2: \"Fine\" is not a status"),
            ("https://a\na.b/C | Healthy Ready=Yes", "line 2: \"Yes\" is not a valid condition status"),
            (
                "https://a\na.b/C | Healthy phase",
                "line 2: \"phase\" is not a field; use spec.field, or .field for status.field",
            ),
            ("https://a\na.b/C | Healthy \"open", "line 2: the text is unterminated"),
        ] {
            assert_eq!(row::parse_rows(text).unwrap_err().to_string(), reason);
        }
    }
}
