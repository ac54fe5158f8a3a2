//! Reference page for metrics, generated from the exporter's table.

use tidegate_server::METRICS;

use super::markdown::{code, sentence};

const INTRO: &str = "\
# Metrics

`tidegate serve` exports these metrics at [`/metrics`](http-routes.md#get-metrics), in the Prometheus text format. Metrics with the prefix
`argocd_` have the same names and labels as in Argo CD, so existing dashboards and alerts keep working.

Counters start at 0 when the process starts. A histogram NAME has the series `NAME_bucket`, `NAME_sum` and `NAME_count`.
";

pub(super) fn page() -> String {
    let mut text = INTRO.to_owned();
    for (title, prefix) in [("Argo CD metrics", "argocd_"), ("Tidegate metrics", "tidegate_")] {
        text.push_str(&format!("\n## {title}\n"));
        for metric in METRICS.iter().filter(|metric| metric.name.starts_with(prefix)) {
            let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
            let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
            let (name, kind, help) = (metric.name, metric.kind.name(), sentence(metric.help));
            text.push_str(&format!("\n### `{name}`\n\n{help}\n\n- Type: {kind}\n- Labels: {labels}\n"));
        }
    }
    text
}
