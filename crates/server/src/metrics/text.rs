//! Metrics as the text that Prometheus reads.

use std::fmt::Write as _;

use tidegate_executor::Counted;

use super::names::{Kind, Metric};

/// The media type of the text.
pub(crate) const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Some labels.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text, as it grows.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// What the samples that follow are of.
    pub fn metric(&mut self, metric: Metric) -> Samples<'_> {
        let Metric { name, kind, help } = metric;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Samples { text: &mut self.0, name }
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.0
    }
}

/// The samples of one metric.
pub(crate) struct Samples<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Samples<'_> {
    /// A number.
    pub fn add(&mut self, labels: Labels<'_>, value: f64) {
        self.line("", labels, None, value);
    }

    /// A whole number.
    pub fn count(&mut self, labels: Labels<'_>, value: u64) {
        // Beyond 2^53 the last digits are lost, which no counter reaches.
        self.add(labels, value as f64);
    }

    /// How often something took how long.
    pub fn durations(&mut self, labels: Labels<'_>, counted: &Counted) {
        for (end, count) in &counted.up_to {
            self.line("_bucket", labels, Some(&end.to_string()), whole(*count));
        }
        self.line("_bucket", labels, Some("+Inf"), whole(counted.count));
        self.line("_sum", labels, None, counted.seconds);
        self.line("_count", labels, None, whole(counted.count));
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, end: Option<&str>, value: f64) {
        let _ = write!(self.text, "{}{suffix}", self.name);
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
/// Beyond 2^53 the last digits are lost, which no counter reaches.
fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_executor::Durations;

    use super::*;
    use crate::metrics::names::{APP_RECONCILE, OPEN};

    #[test]
    fn labels_are_escaped_and_histograms_are_whole() {
        let mut text = Text::default();
        let mut open = text.metric(OPEN);
        open.count(&[], 3);
        open.add(&[("a", "x\"y\\z\n"), ("b", "")], 1.5);
        let took = Durations::new(&[0.25, 1.0]);
        took.observe(Duration::from_millis(500));
        text.metric(APP_RECONCILE).durations(&[("n", "m")], &took.counted());
        let text = text.finish();
        for line in [
            "# TYPE tidegate_operations_open gauge",
            "tidegate_operations_open 3",
            "tidegate_operations_open{a=\"x\\\"y\\\\z\\n\",b=\"\"} 1.5",
            "argocd_app_reconcile_bucket{n=\"m\",le=\"0.25\"} 0",
            "argocd_app_reconcile_bucket{n=\"m\",le=\"1\"} 1",
            "argocd_app_reconcile_bucket{n=\"m\",le=\"+Inf\"} 1",
            "argocd_app_reconcile_sum{n=\"m\"} 0.5",
            "argocd_app_reconcile_count{n=\"m\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}
