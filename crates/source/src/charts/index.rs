//! Index of a Helm repository: its charts, their versions and download URLs.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::remote::Problem;

/// Maximum number of YAML nodes in an index.
const NODES_MAX: usize = 4_000_000;

/// A version of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Release {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub urls: Vec<String>,
    /// SHA-256 digest of the archive, in hexadecimal.
    #[serde(default)]
    pub digest: Option<String>,
}

/// All charts of a repository, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub entries: BTreeMap<String, Vec<Release>>,
}

impl Index {
    pub fn parse(text: &[u8]) -> Result<Self, Problem> {
        let budget = serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: NODES_MAX * 2 };
        let options = serde_saphyr::options! { budget: budget };
        serde_saphyr::from_slice_with_options(text, options).map_err(|error| {
            let reason = crate::error::to_line(&error.to_string());
            Problem::new(format!("invalid index: {reason}")).with_hint(
                "a Helm repository needs a valid index.yaml; for a Git repository, set path instead of chart",
            )
        })
    }

    /// Returns the versions of a chart, or `None` if the chart doesn't exist.
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
