//! Dashboard and alerts go by metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tidegate_server::metric_names;

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("tidegate_") || word.starts_with("argocd_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dashboard_and_alerts_go_by_metrics_that_there_are() {
    let names: BTreeSet<&str> = metric_names().into_iter().collect();
    assert_eq!(names.len(), metric_names().len(), "each once");
    let is_one = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        names.contains(name) || of_histogram.is_some_and(|name| names.contains(name))
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring");
    for (file, least) in [("dashboard.json", 15), ("alerts.yaml", 5)] {
        let found = named(&fs::read_to_string(folder.join(file)).unwrap());
        assert!(found.len() >= least, "{file}: {found:?}");
        for name in &found {
            assert!(is_one(name), "{file}: there is no metric {name}");
        }
    }
    serde_json::from_str::<serde_json::Value>(&fs::read_to_string(folder.join("dashboard.json")).unwrap())
        .unwrap();
    // Whoever reads about metrics reads of all of them.
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md")).unwrap();
    assert_eq!(named(&docs), names.iter().map(|name| (*name).to_owned()).collect());
}
