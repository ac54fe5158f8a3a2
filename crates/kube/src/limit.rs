//! Limit on the number of calls in flight: the configured maximum, or less while the server is overloaded.
//!
//! The limit follows additive increase and multiplicative decrease: each refusal due to overload halves it,
//! and each full round of responses raises it by one. A `Retry-After` header delays new calls, or only
//! identical requests if the refusal concerns a single request. The call rate itself isn't limited, so a
//! faster server receives more calls.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Maximum delay from a single response. The next call then shows whether the server is still overloaded.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of recorded refusals of single requests. Further requests aren't delayed, but their callers
/// still receive the error.
const DELAYED_REQUESTS_MAX: usize = 10_000;

pub(crate) struct Limiter {
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// Configured maximum of the limit.
    bound_max: usize,
    /// Current limit, between 1 and `bound_max`.
    bound: usize,
    /// Number of permits in use that are discarded instead of returned, because the limit was reduced after
    /// they were issued.
    excess: usize,
    /// Number of successful responses since the limit last changed.
    responses: usize,
    /// Time of the last reduction. Responses to calls that started earlier are ignored.
    last_reduction: Option<Instant>,
    /// Earliest start time of new calls.
    resume_at: Option<Instant>,
    /// Earliest start time of each delayed request.
    delayed: BTreeMap<String, Instant>,
}

/// Permit for one call, returned on drop.
pub(crate) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    started_at: Instant,
}

impl Limiter {
    pub(crate) fn new(most: usize) -> Self {
        let bound_max = most.clamp(1, Semaphore::MAX_PERMITS);
        let (resume_at, delayed) = (None, BTreeMap::new());
        let state = State {
            bound_max,
            bound: bound_max,
            excess: 0,
            responses: 0,
            last_reduction: None,
            resume_at,
            delayed,
        };
        Self { permits: Semaphore::new(bound_max), state: Mutex::new(state) }
    }

    /// Waits for a permit, in order of arrival. Delayed requests wait before taking a permit, so that they
    /// don't block others.
    pub(crate) async fn acquire(&self, what: &str) -> Permit<'_> {
        self.wait_for_delay(what).await;
        // The semaphore is never closed. Even if it were, calls without a limit beat no calls at all.
        let permit = self.permits.acquire().await.ok();
        let mut call_permit = Permit { limiter: self, permit, started_at: Instant::now() };
        self.wait_for_pause().await;
        call_permit.started_at = Instant::now();
        call_permit
    }

    /// Waits until the server accepts calls again and the delay of this request is over.
    pub(crate) async fn wait_until_allowed(&self, what: &str) {
        self.wait_for_delay(what).await;
        self.wait_for_pause().await;
    }

    async fn wait_for_pause(&self) {
        loop {
            let resume = self.state().resume_at;
            match resume.filter(|resume| *resume > Instant::now()) {
                Some(resume) => tokio::time::sleep_until(resume).await,
                None => return,
            }
        }
    }

    /// Delays this request by the time that the server requested.
    pub(crate) fn delay_request(&self, what: String, wait: Duration) {
        let (mut state, now) = (self.state(), Instant::now());
        state.delayed.retain(|_, resume| *resume > now);
        if state.delayed.len() < DELAYED_REQUESTS_MAX {
            state.delayed.insert(what, now + wait.min(PAUSE_MAX));
        }
    }

    async fn wait_for_delay(&self, what: &str) {
        loop {
            let resume = self.state().delayed.get(what).copied();
            match resume.filter(|resume| *resume > Instant::now()) {
                Some(resume) => tokio::time::sleep_until(resume).await,
                None => return,
            }
        }
    }

    /// Delays all new calls.
    pub(crate) fn delay_all(&self, wait: Duration) {
        let (mut state, resume) = (self.state(), Instant::now() + wait.min(PAUSE_MAX));
        state.resume_at = Some(state.resume_at.map_or(resume, |known| known.max(resume)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changes are complete before anything can panic, so a poisoned lock is fine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn bound(&self) -> usize {
        self.state().bound
    }
}

impl Permit<'_> {
    /// Records a response without signs of overload.
    pub(crate) fn record_success(&self) {
        let mut state = self.limiter.state();
        if state.bound == state.bound_max {
            return;
        }
        state.responses += 1;
        if state.responses >= state.bound {
            state.responses = 0;
            state.bound += 1;
            if state.excess > 0 {
                state.excess -= 1;
            } else {
                self.limiter.permits.add_permits(1);
            }
        }
    }

    /// Records that the server is overloaded.
    pub(crate) fn record_overload(&self, retry_after: Option<Duration>) {
        if let Some(wait) = retry_after {
            self.limiter.delay_all(wait);
        }
        let mut state = self.limiter.state();
        // Calls in flight together are refused together, so their refusals count as one sign of overload.
        if state.last_reduction.is_some_and(|cut| self.started_at <= cut) {
            return;
        }
        state.last_reduction = Some(Instant::now());
        let bound = (state.bound / 2).max(1);
        let too_many = state.bound - bound;
        state.bound = bound;
        state.responses = 0;
        state.excess += too_many - self.limiter.permits.forget_permits(too_many);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut state = self.limiter.state();
        if state.excess > 0 {
            state.excess -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns the number of permits available at the same time.
    async fn available_permits(limiter: &Limiter) -> usize {
        let mut held = Vec::new();
        while let Ok(permit) = tokio::time::timeout(Duration::from_millis(1), limiter.acquire("")).await {
            held.push(permit);
        }
        held.len()
    }

    #[tokio::test(start_paused = true)]
    async fn overload_halves_the_bound_once_per_round_and_responses_raise_it_again() {
        let limiter = Limiter::new(8);
        let mut round = Vec::new();
        for _ in 0..8 {
            round.push(limiter.acquire("").await);
        }
        round.iter().for_each(|permit| permit.record_overload(None));
        assert_eq!(limiter.bound(), 4);
        drop(round);
        assert_eq!(available_permits(&limiter).await, 4);

        tokio::time::advance(Duration::from_millis(1)).await;
        for expected in [2, 1, 1] {
            limiter.acquire("").await.record_overload(None);
            assert_eq!(limiter.bound(), expected);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(available_permits(&limiter).await, 1);

        for _ in 0..1 + 2 + 3 + 4 + 5 + 6 + 7 {
            limiter.acquire("").await.record_success();
        }
        assert_eq!((limiter.bound(), available_permits(&limiter).await), (8, 8));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_delays_new_calls_only_as_long_as_requested() {
        let limiter = Limiter::new(4);
        limiter.acquire("").await.record_overload(Some(Duration::from_secs(3)));
        let started = Instant::now();
        drop(limiter.acquire("").await);
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        drop(limiter.acquire("").await);
        assert_eq!(started.elapsed(), Duration::from_secs(3));

        limiter.acquire("").await.record_overload(Some(Duration::from_secs(86_400)));
        let started = Instant::now();
        drop(limiter.acquire("").await);
        assert_eq!(started.elapsed(), PAUSE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_request_waits_without_a_permit() {
        let limiter = Limiter::new(1);
        limiter.delay_request("PUT /a".to_owned(), Duration::from_secs(12));
        let started = Instant::now();
        let held = async { drop(limiter.acquire("PUT /a").await) };
        let others = async {
            drop(limiter.acquire("GET /a").await);
            limiter.wait_until_allowed("PUT /b").await;
            assert_eq!(started.elapsed(), Duration::ZERO);
        };
        futures_util::future::join(held, others).await;
        assert_eq!(started.elapsed(), Duration::from_secs(12));
        drop(limiter.acquire("PUT /a").await);
        limiter.wait_until_allowed("PUT /a").await;
        assert_eq!(started.elapsed(), Duration::from_secs(12));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_returns_its_permit_at_any_point() {
        let limiter = Arc::new(Limiter::new(2));
        // The call may be dropped while it waits for a permit, waits for the delay to pass, or is in flight.
        for seed in 0_u64..200 {
            let permit = limiter.acquire("").await;
            if seed.is_multiple_of(3) {
                permit.record_overload(Some(Duration::from_millis(5)));
            }
            let waiting: Vec<_> = (0..5)
                .map(|_| {
                    let limiter = Arc::clone(&limiter);
                    tokio::spawn(async move {
                        let permit = limiter.acquire("").await;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        permit.record_success();
                    })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(seed % 7)).await;
            waiting.iter().for_each(tokio::task::JoinHandle::abort);
            drop(permit);
            for task in waiting {
                let _ = task.await;
            }
        }
        tokio::time::sleep(PAUSE_MAX).await;
        assert_eq!(available_permits(&limiter).await, limiter.bound());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_never_exceed_the_bound() {
        let limiter = Arc::new(Limiter::new(5));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..200).map(|number: usize| {
            let (limiter, now, most) = (Arc::clone(&limiter), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let permit = limiter.acquire("").await;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                if number.is_multiple_of(17) {
                    permit.record_overload(None)
                } else {
                    permit.record_success()
                }
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 5);
        assert_eq!(available_permits(&limiter).await, limiter.bound());
    }
}
