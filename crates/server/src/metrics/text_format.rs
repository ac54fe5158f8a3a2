//! Metrics in the Prometheus text format.

use std::fmt::Write as _;

use tidegate_executor::HistogramSnapshot;

use super::definitions::Metric;

/// Media type of the text.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of a sample.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Text of the metrics written so far.
#[derive(Default)]
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// Starts a metric. Returns a writer for its samples.
    pub fn start_metric(&mut self, metric: Metric) -> SampleWriter<'_> {
        let Metric { name, kind, help, .. } = metric;
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
        SampleWriter { text: &mut self.0, metric }
    }

    /// Returns the whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// Writer for the samples of one metric.
pub(crate) struct SampleWriter<'a> {
    text: &'a mut String,
    metric: Metric,
}

impl SampleWriter<'_> {
    /// Adds a number.
    pub fn add(&mut self, labels: Labels<'_>, value: f64) {
        self.write_line("", labels, None, value);
    }

    /// Adds an integer.
    pub fn add_count(&mut self, labels: Labels<'_>, value: u64) {
        // Numbers above 2^53 lose their last digits, but counters never get there.
        self.add(labels, value as f64);
    }

    /// Adds a histogram of durations.
    pub fn add_histogram(&mut self, labels: Labels<'_>, counted: &HistogramSnapshot) {
        for (end, count) in &counted.buckets {
            self.write_line("_bucket", labels, Some(&end.to_string()), count_to_f64(*count));
        }
        self.write_line("_bucket", labels, Some("+Inf"), count_to_f64(counted.count));
        self.write_line("_sum", labels, None, counted.seconds);
        self.write_line("_count", labels, None, count_to_f64(counted.count));
    }

    fn write_line(&mut self, suffix: &str, labels: Labels<'_>, end: Option<&str>, value: f64) {
        let Metric { name, labels: expected, .. } = self.metric;
        debug_assert!(
            labels.iter().map(|(label, _)| label).eq(expected),
            "{name} has the labels {expected:?}, not {labels:?}"
        );
        let _ = write!(self.text, "{name}{suffix}");
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(end.map(|end| ("le", end))) {
            let _ = write!(self.text, "{separator}{name}=\"");
            value.chars().for_each(|c| match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            });
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}
/// Converts a count. Numbers above 2^53 lose their last digits, but counters never get there.
fn count_to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_executor::DurationHistogram;

    use super::*;
    use crate::metrics::definitions::{APP_RECONCILE, CLUSTER_INFO, OPEN_OPERATIONS};

    #[test]
    fn labels_are_escaped_and_histograms_are_complete() {
        let mut text = MetricsText::default();
        text.start_metric(OPEN_OPERATIONS).add_count(&[], 3);
        text.start_metric(CLUSTER_INFO).add(&[("server", "x\"y\\z\n"), ("name", "")], 1.5);
        let took = DurationHistogram::new(&[0.25, 1.0]);
        took.observe(Duration::from_millis(500));
        text.start_metric(APP_RECONCILE)
            .add_histogram(&[("namespace", "m"), ("dest_server", "s")], &took.snapshot());
        let text = text.finish();
        for line in [
            "# TYPE tidegate_operations_open gauge",
            "tidegate_operations_open 3",
            "argocd_cluster_info{server=\"x\\\"y\\\\z\\n\",name=\"\"} 1.5",
            "argocd_app_reconcile_bucket{namespace=\"m\",dest_server=\"s\",le=\"0.25\"} 0",
            "argocd_app_reconcile_bucket{namespace=\"m\",dest_server=\"s\",le=\"1\"} 1",
            "argocd_app_reconcile_bucket{namespace=\"m\",dest_server=\"s\",le=\"+Inf\"} 1",
            "argocd_app_reconcile_sum{namespace=\"m\",dest_server=\"s\"} 0.5",
            "argocd_app_reconcile_count{namespace=\"m\",dest_server=\"s\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}
