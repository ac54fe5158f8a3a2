//! How many calls are in flight at a time: as many as allowed while the server keeps up, fewer when it asks for it.
//!
//! Additive increase, multiplicative decrease: a refusal for overload halves the bound, one full round of answers
//! raises it by one. A `Retry-After` holds new calls back for as long; one that is about a single request, those that ask the
//! same. There is no fixed rate: a server that answers
//! faster is asked more often.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The longest that one answer may hold back all calls, whatever it asks for: then somebody sees how things are.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Refusals of single requests that are remembered at a time. Whoever made the others has their words all the same.
const HELD_MAX: usize = 10_000;

pub(crate) struct Limiter {
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// Never more than this.
    most: usize,
    /// The bound now: from 1 to `most`.
    bound: usize,
    /// Permits still out that must not come back, because the bound fell while they were in use.
    excess: usize,
    /// Good answers since the bound changed.
    answers: usize,
    /// When the bound was cut last: calls begun before then say nothing new.
    cut: Option<Instant>,
    /// No new calls before this.
    resume: Option<Instant>,
    /// The same for single requests.
    held: BTreeMap<String, Instant>,
}

/// The right to one call, given back when it is dropped.
pub(crate) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    begun: Instant,
}

impl Limiter {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        let (resume, held) = (None, BTreeMap::new());
        let state = State { most, bound: most, excess: 0, answers: 0, cut: None, resume, held };
        Self { permits: Semaphore::new(most), state: Mutex::new(state) }
    }

    /// Waits for a turn, in the order of asking. What the server does not want to be asked yet waits before that, and takes
    /// no turn from others meanwhile.
    pub(crate) async fn acquire(&self, what: &str) -> Permit<'_> {
        self.pause_for(what).await;
        // The semaphore is never closed; if it were, calls would go unbounded rather than not at all.
        let permit = self.permits.acquire().await.ok();
        let mut turn = Permit { limiter: self, permit, begun: Instant::now() };
        self.pause_for_all().await;
        turn.begun = Instant::now();
        turn
    }

    /// Waits for as long as the server asked to be left alone, or not to be asked this.
    pub(crate) async fn pause(&self, what: &str) {
        self.pause_for(what).await;
        self.pause_for_all().await;
    }

    async fn pause_for_all(&self) {
        loop {
            let resume = self.state().resume;
            match resume.filter(|resume| *resume > Instant::now()) {
                Some(resume) => tokio::time::sleep_until(resume).await,
                None => return,
            }
        }
    }

    /// The server asked not to be asked this again for a while.
    pub(crate) fn hold(&self, what: String, wait: Duration) {
        let (mut state, now) = (self.state(), Instant::now());
        state.held.retain(|_, resume| *resume > now);
        if state.held.len() < HELD_MAX {
            state.held.insert(what, now + wait.min(PAUSE_MAX));
        }
    }

    async fn pause_for(&self, what: &str) {
        loop {
            let resume = self.state().held.get(what).copied();
            match resume.filter(|resume| *resume > Instant::now()) {
                Some(resume) => tokio::time::sleep_until(resume).await,
                None => return,
            }
        }
    }

    /// No new calls for so long.
    pub(crate) fn asked(&self, wait: Duration) {
        let (mut state, resume) = (self.state(), Instant::now() + wait.min(PAUSE_MAX));
        state.resume = Some(state.resume.map_or(resume, |known| known.max(resume)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before anything could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn bound(&self) -> usize {
        self.state().bound
    }
}

impl Permit<'_> {
    /// The server answered, and not that it is overloaded.
    pub(crate) fn served(&self) {
        let mut state = self.limiter.state();
        if state.bound == state.most {
            return;
        }
        state.answers += 1;
        if state.answers >= state.bound {
            state.answers = 0;
            state.bound += 1;
            if state.excess > 0 {
                state.excess -= 1;
            } else {
                self.limiter.permits.add_permits(1);
            }
        }
    }

    /// The server said that it has too much to do.
    pub(crate) fn refused(&self, retry_after: Option<Duration>) {
        if let Some(wait) = retry_after {
            self.limiter.asked(wait);
        }
        let mut state = self.limiter.state();
        // Calls that were under way together are refused together: that is one sign of overload, not many.
        if state.cut.is_some_and(|cut| self.begun <= cut) {
            return;
        }
        state.cut = Some(Instant::now());
        let bound = (state.bound / 2).max(1);
        let too_many = state.bound - bound;
        state.bound = bound;
        state.answers = 0;
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

    /// As many permits as can be had at once.
    async fn available(limiter: &Limiter) -> usize {
        let mut held = Vec::new();
        while let Ok(permit) = tokio::time::timeout(Duration::from_millis(1), limiter.acquire("")).await {
            held.push(permit);
        }
        held.len()
    }

    #[tokio::test(start_paused = true)]
    async fn overload_halves_the_bound_once_per_round_and_answers_raise_it_again() {
        let limiter = Limiter::new(8);
        let mut round = Vec::new();
        for _ in 0..8 {
            round.push(limiter.acquire("").await);
        }
        round.iter().for_each(|permit| permit.refused(None));
        assert_eq!(limiter.bound(), 4);
        drop(round);
        assert_eq!(available(&limiter).await, 4);

        tokio::time::advance(Duration::from_millis(1)).await;
        for expected in [2, 1, 1] {
            limiter.acquire("").await.refused(None);
            assert_eq!(limiter.bound(), expected);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(available(&limiter).await, 1);

        for _ in 0..1 + 2 + 3 + 4 + 5 + 6 + 7 {
            limiter.acquire("").await.served();
        }
        assert_eq!((limiter.bound(), available(&limiter).await), (8, 8));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_holds_back_new_calls_and_no_longer() {
        let limiter = Limiter::new(4);
        limiter.acquire("").await.refused(Some(Duration::from_secs(3)));
        let begun = Instant::now();
        drop(limiter.acquire("").await);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
        drop(limiter.acquire("").await);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));

        limiter.acquire("").await.refused(Some(Duration::from_secs(86_400)));
        let begun = Instant::now();
        drop(limiter.acquire("").await);
        assert_eq!(begun.elapsed(), PAUSE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_to_be_asked_yet_waits_and_takes_no_turn() {
        let limiter = Limiter::new(1);
        limiter.hold("PUT /a".to_owned(), Duration::from_secs(12));
        let begun = Instant::now();
        let held = async { drop(limiter.acquire("PUT /a").await) };
        let others = async {
            drop(limiter.acquire("GET /a").await);
            limiter.pause("PUT /b").await;
            assert_eq!(begun.elapsed(), Duration::ZERO);
        };
        futures_util::future::join(held, others).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(12));
        drop(limiter.acquire("PUT /a").await);
        limiter.pause("PUT /a").await;
        assert_eq!(begun.elapsed(), Duration::from_secs(12));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_gives_its_permit_back_wherever_it_was() {
        let limiter = Arc::new(Limiter::new(2));
        // While it waits for a turn, while it waits for the pause to end, and while it is under way.
        for seed in 0_u64..200 {
            let permit = limiter.acquire("").await;
            if seed.is_multiple_of(3) {
                permit.refused(Some(Duration::from_millis(5)));
            }
            let waiting: Vec<_> = (0..5)
                .map(|_| {
                    let limiter = Arc::clone(&limiter);
                    tokio::spawn(async move {
                        let permit = limiter.acquire("").await;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        permit.served();
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
        assert_eq!(available(&limiter).await, limiter.bound());
    }

    #[tokio::test(start_paused = true)]
    async fn never_more_calls_than_the_bound() {
        let limiter = Arc::new(Limiter::new(5));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..200).map(|number: usize| {
            let (limiter, now, most) = (Arc::clone(&limiter), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let permit = limiter.acquire("").await;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                if number.is_multiple_of(17) {
                    permit.refused(None)
                } else {
                    permit.served()
                }
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 5);
        assert_eq!(available(&limiter).await, limiter.bound());
    }
}
