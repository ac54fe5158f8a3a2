//! The index of a Helm repository: which charts it has, in which versions, and where they are.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::remote::Problem;

/// More entries than the largest repositories have.
const NODES_MAX: usize = 4_000_000;

/// One version of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Release {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub urls: Vec<String>,
    /// Of its archive, in hexadecimal.
    #[serde(default)]
    pub digest: Option<String>,
}

/// All charts, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub entries: BTreeMap<String, Vec<Release>>,
}

impl Index {
    pub fn read(text: &[u8]) -> Result<Self, Problem> {
        let budget = serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: NODES_MAX * 2 };
        let options = serde_saphyr::options! { budget: budget };
        serde_saphyr::from_slice_with_options(text, options).map_err(|error| {
            let reason = crate::error::plain(&error.to_string());
            Problem::new(format!("its index.yaml cannot be read: {reason}"))
                .hint("a Helm repository has such a file; Git repositories are named with a path instead of a chart")
        })
    }

    /// The versions of a chart, or which charts there are.
    pub fn versions(&self, chart: &str) -> Option<Vec<String>> {
        Some(self.entries.get(chart)?.iter().map(|release| release.version.clone()).collect())
    }

    pub fn release(&self, chart: &str, version: &str) -> Option<&Release> {
        let plain = |text: &str| text.strip_prefix('v').unwrap_or(text).to_owned();
        let all = self.entries.get(chart)?;
        let same = all.iter().find(|release| release.version == version);
        same.or_else(|| all.iter().find(|release| plain(&release.version) == plain(version)))
    }
}
