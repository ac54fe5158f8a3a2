//! Rate limits, implemented as token buckets that fill over time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Rate;
use crate::problem::{Code, Problem};

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    refilled_at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: rate.burst, refilled_at: now }
    }

    fn is_full(&self, rate: Rate, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        self.tokens + passed * rate.per_second >= rate.burst
    }

    /// Takes a token. If the bucket is empty, returns the time until the next is available.
    fn take_token(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.refilled_at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.tokens) / rate.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
}

/// Maximum number of buckets before full buckets are removed. A full bucket is as good as new.
const BUCKETS_MAX: usize = 1024;

/// Buckets by name: one for each token and each signed-in user.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl RateLimiter {
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts a request. If it exceeds the limit, returns the time to wait as an error.
    pub fn count_request(&self, name: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get_mut(name) {
            Some(bucket) => bucket.take_token(self.rate, now),
            None => {
                if buckets.len() >= BUCKETS_MAX {
                    buckets.retain(|_, bucket| !bucket.is_full(self.rate, now));
                }
                let mut bucket = Bucket::full(self.rate, now);
                let taken = bucket.take_token(self.rate, now);
                buckets.insert(name.to_owned(), bucket);
                taken
            }
        }
    }
}

/// Converts the result of [`RateLimiter::count_request`] to a problem with the time to wait.
pub(crate) fn check_rate(counted: Result<(), Duration>) -> Result<(), Problem> {
    counted.map_err(|wait| Problem::new(Code::TooOften, "too many requests").with_retry_after(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_grants_its_burst_and_then_refills_over_time() {
        let gauge = RateLimiter::new(Rate { per_second: 2.0, burst: 3.0 });
        let begin = Instant::now();
        for _ in 0..3 {
            assert_eq!(gauge.count_request("ann", begin), Ok(()));
        }
        assert_eq!(gauge.count_request("ann", begin), Err(Duration::from_millis(500)));
        assert_eq!(gauge.count_request("ben", begin), Ok(()), "each caller has a separate bucket");
        assert_eq!(gauge.count_request("ann", begin + Duration::from_millis(500)), Ok(()));
        assert!(gauge.count_request("ann", begin + Duration::from_millis(500)).is_err());
        // A pause fills the bucket, but not beyond its burst.
        let later = begin + Duration::from_secs(3600);
        assert_eq!((0..9).filter(|_| gauge.count_request("ann", later).is_ok()).count(), 3);
        // No tokens are lost if the clock goes backwards.
        assert!(gauge.count_request("ann", begin).is_err());
    }

    #[test]
    fn full_buckets_are_removed_and_others_stay() {
        let gauge = RateLimiter::new(Rate { per_second: 1.0, burst: 2.0 });
        let begin = Instant::now();
        for name in 0..BUCKETS_MAX {
            assert_eq!(gauge.count_request(&name.to_string(), begin), Ok(()));
        }
        let later = begin + Duration::from_secs(60);
        assert_eq!((gauge.count_request("0", later), gauge.count_request("0", later)), (Ok(()), Ok(())));
        assert_eq!(gauge.count_request("ann", later), Ok(()));
        assert_eq!(gauge.buckets.lock().unwrap_or_else(PoisonError::into_inner).len(), 2);
        assert!(gauge.count_request("0", later).is_err(), "no budget is reset");
    }
}
