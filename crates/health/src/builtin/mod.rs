//! Rules for custom resources as data: one line a kind, in `rows/`, one file per area. [`row`] has the language.

mod engine;
mod row;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::script::matches;
pub(crate) use engine::{Judged, judge};
pub(crate) use row::{Proof, Row};

const FILES: [(&str, &str); 6] = [
    ("delivery", include_str!("rows/delivery.rows")),
    ("network", include_str!("rows/network.rows")),
    ("data", include_str!("rows/data.rows")),
    ("cloud", include_str!("rows/cloud.rows")),
    ("clusters", include_str!("rows/clusters.rows")),
    ("security", include_str!("rows/security.rows")),
];

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    /// Places in `rows`.
    exact: BTreeMap<String, usize>,
    /// In the order of the files, because the first counts.
    patterns: Vec<(String, usize)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    // A file that cannot be read gives no rows; a test reads them all.
    for row in FILES.iter().filter_map(|(_, text)| row::parse(text).ok()).flatten() {
        let place = table.rows.len();
        for kind in &row.kinds {
            if kind.contains('*') {
                table.patterns.push((kind.clone(), place));
            } else {
                table.exact.entry(kind.clone()).or_insert(place);
            }
        }
        table.rows.push(row);
    }
    table
});

/// The row for a kind.
pub(crate) fn find(group: &str, kind: &str) -> Option<&'static Row> {
    if group.is_empty() {
        return None;
    }
    let key = format!("{group}/{kind}");
    let by_pattern = || {
        let means = |(pattern, _): &&(String, usize)| matches(pattern.as_bytes(), key.as_bytes());
        TABLE.patterns.iter().find(means).map(|(_, place)| place)
    };
    TABLE.rows.get(*TABLE.exact.get(&key).or_else(by_pattern)?)
}

/// The table as it is written.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(_, text)| *text)
}

/// A kind the table judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInKind {
    /// `group/Kind`, where `*` is any text.
    pub kind: &'static str,
    /// Where the project says what its status means.
    pub source: &'static str,
}

/// All kinds of the table of custom resources.
pub fn built_in_kinds() -> impl Iterator<Item = BuiltInKind> {
    let row = |row: &'static Row| row.kinds.iter().map(|kind| BuiltInKind { kind, source: &row.source });
    TABLE.rows.iter().flat_map(row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_can_be_read_and_none_is_written_twice() {
        let mut seen = BTreeSet::new();
        for (name, text) in FILES {
            let rows = row::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for kind in rows.iter().flat_map(|row| &row.kinds) {
                assert!(seen.insert(kind.clone()), "{name}: {kind} has a row already");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_row_is_said() {
        for (text, reason) in [
            ("a.b/C | Healthy", "line 1: no documentation is cited; put its address on a line before"),
            ("https://a\nC | Healthy", "line 2: \"C\" is not <group>/<Kind>"),
            ("https://a\na.b/C", "line 2: there is no clause"),
            ("https://a\na.b/C now | Healthy", "line 2: \"now\" is neither gen nor once"),
            ("https://a\na.b/C | Fine", "line 2: \"Fine\" is no status"),
            ("https://a\na.b/C | Healthy Ready=Yes", "line 2: \"Yes\" is no status of a condition"),
            (
                "https://a\na.b/C | Healthy phase",
                "line 2: \"phase\" is no field; write .field for status.field, or spec.field",
            ),
            ("https://a\na.b/C | Healthy \"open", "line 2: the words have no end"),
        ] {
            assert_eq!(row::parse(text).unwrap_err().to_string(), reason);
        }
    }
}
