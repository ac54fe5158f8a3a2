//! How often somebody asks: a bucket that fills with time and from which every request takes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Rate;

/// One bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst, at: now }
    }

    fn is_full(&self, rate: Rate, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left + passed * rate.per_second >= rate.burst
    }

    /// Takes one; or says how long it takes until there is one.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(rate.burst);
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.left) / rate.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
}

/// So many buckets are kept before those go that are full, which are as if they were new.
const BUCKETS: usize = 1024;

/// Buckets by name: one for each token, and each person who asks.
#[derive(Debug)]
pub(crate) struct Gauge {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Gauge {
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts a request; an error is how long to wait.
    pub fn count(&self, name: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get_mut(name) {
            Some(bucket) => bucket.take(self.rate, now),
            None => {
                if buckets.len() >= BUCKETS {
                    buckets.retain(|_, bucket| !bucket.is_full(self.rate, now));
                }
                let mut bucket = Bucket::full(self.rate, now);
                let taken = bucket.take(self.rate, now);
                buckets.insert(name.to_owned(), bucket);
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_what_time_brings() {
        let gauge = Gauge::new(Rate { per_second: 2.0, burst: 3.0 });
        let begin = Instant::now();
        for _ in 0..3 {
            assert_eq!(gauge.count("ann", begin), Ok(()));
        }
        assert_eq!(gauge.count("ann", begin), Err(Duration::from_millis(500)));
        assert_eq!(gauge.count("ben", begin), Ok(()), "others have their own");
        assert_eq!(gauge.count("ann", begin + Duration::from_millis(500)), Ok(()));
        assert!(gauge.count("ann", begin + Duration::from_millis(500)).is_err());
        // A rest fills it, and no further than its burst.
        let later = begin + Duration::from_secs(3600);
        assert_eq!((0..9).filter(|_| gauge.count("ann", later).is_ok()).count(), 3);
        // A clock that goes back takes nothing away.
        assert!(gauge.count("ann", begin).is_err());
    }

    #[test]
    fn names_of_those_who_rest_are_forgotten_and_of_others_not() {
        let gauge = Gauge::new(Rate { per_second: 1.0, burst: 2.0 });
        let begin = Instant::now();
        for name in 0..BUCKETS {
            assert_eq!(gauge.count(&name.to_string(), begin), Ok(()));
        }
        let later = begin + Duration::from_secs(60);
        assert_eq!((gauge.count("0", later), gauge.count("0", later)), (Ok(()), Ok(())));
        assert_eq!(gauge.count("ann", later), Ok(()));
        assert_eq!(gauge.buckets.lock().unwrap_or_else(PoisonError::into_inner).len(), 2);
        assert!(gauge.count("0", later).is_err(), "nobody begins anew by that");
    }
}
