//! How long something took, counted as Prometheus does: for what is watched from outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long something took, each time.
#[derive(Debug)]
pub struct Durations {
    /// Upper ends in seconds, ascending.
    bounds: &'static [f64],
    /// One for each end, and one for what took longer.
    counts: Box<[AtomicU64]>,
    micros: AtomicU64,
}

/// How often something took how long, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// For each upper end in seconds, how often it took no longer.
    pub up_to: Vec<(f64, u64)>,
    /// How often there was something.
    pub count: u64,
    /// All together, in seconds.
    pub seconds: f64,
}

impl Durations {
    /// A count of nothing yet, which tells durations apart by these upper ends, in seconds.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, micros: AtomicU64::new(0) }
    }

    /// Something took so long.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.iter().position(|end| seconds <= *end).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What was counted until now; several threads may go on counting meanwhile.
    pub fn counted(&self) -> Counted {
        let mut count = 0_u64;
        let mut up_to = Vec::with_capacity(self.bounds.len());
        for (at, one) in self.counts.iter().enumerate() {
            count = count.saturating_add(one.load(Ordering::Relaxed));
            up_to.extend(self.bounds.get(at).map(|end| (*end, count)));
        }
        let seconds = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        Counted { up_to, count, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_counts_what_took_no_longer() {
        let durations = Durations::new(&[0.1, 1.0]);
        for millis in [50, 100, 101, 1000, 1001, 60_000] {
            durations.observe(Duration::from_millis(millis));
        }
        let counted = durations.counted();
        assert_eq!((counted.up_to, counted.count), (vec![(0.1, 2), (1.0, 4)], 6));
        assert!((counted.seconds - 62.252).abs() < 1e-6);
    }
}
