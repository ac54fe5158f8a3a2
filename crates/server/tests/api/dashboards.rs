//! Checks that the dashboard and the alerts use only existing metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tidegate_server::metric_names;

/// Returns the metrics mentioned in a text.
fn mentioned_metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("tidegate_") || word.starts_with("argocd_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dashboards_and_alerts_use_existing_metrics() {
    let names: BTreeSet<&str> = metric_names().into_iter().collect();
    assert_eq!(names.len(), metric_names().len(), "no metric name occurs twice");
    let is_one = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        names.contains(name) || of_histogram.is_some_and(|name| names.contains(name))
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring");
    for (file, least) in [("dashboard.json", 15), ("alerts.yaml", 5)] {
        let found = mentioned_metrics(&fs::read_to_string(folder.join(file)).unwrap());
        assert!(found.len() >= least, "{file}: {found:?}");
        for name in &found {
            assert!(is_one(name), "{file}: there is no metric {name}");
        }
    }
    serde_json::from_str::<serde_json::Value>(&fs::read_to_string(folder.join("dashboard.json")).unwrap())
        .unwrap();
    // The documentation must cover all metrics.
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let docs = fs::read_to_string(docs).unwrap();
    assert_eq!(mentioned_metrics(&docs), names.iter().map(|name| (*name).to_owned()).collect());
}
