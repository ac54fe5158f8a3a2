//! Duration histograms in the Prometheus format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A histogram of durations.
#[derive(Debug)]
pub struct DurationHistogram {
    /// Upper bounds in seconds, ascending.
    bounds: &'static [f64],
    /// Count per bound, plus one for longer durations.
    counts: Box<[AtomicU64]>,
    total_micros: AtomicU64,
}

/// Contents of a histogram at a point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// Cumulative count for each upper bound in seconds.
    pub buckets: Vec<(f64, u64)>,
    /// Number of observations.
    pub count: u64,
    /// Sum of all durations in seconds.
    pub seconds: f64,
}

impl DurationHistogram {
    /// Creates an empty histogram with the given upper bounds in seconds.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, total_micros: AtomicU64::new(0) }
    }

    /// Records a duration.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.iter().position(|end| seconds <= *end).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the current contents. Other threads may record durations concurrently.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0_u64;
        let mut buckets = Vec::with_capacity(self.bounds.len());
        for (at, one) in self.counts.iter().enumerate() {
            count = count.saturating_add(one.load(Ordering::Relaxed));
            buckets.extend(self.bounds.get(at).map(|end| (*end, count)));
        }
        let seconds = Duration::from_micros(self.total_micros.load(Ordering::Relaxed)).as_secs_f64();
        HistogramSnapshot { buckets, count, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_counts_durations_up_to_its_bound() {
        let durations = DurationHistogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 101, 1000, 1001, 60_000] {
            durations.observe(Duration::from_millis(millis));
        }
        let counted = durations.snapshot();
        assert_eq!((counted.buckets, counted.count), (vec![(0.1, 2), (1.0, 4)], 6));
        assert!((counted.seconds - 62.252).abs() < 1e-6);
    }
}
