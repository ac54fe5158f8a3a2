//! Coalesced requests. Identical concurrent requests are sent once, and once more for callers that arrive
//! while it is in flight. Responses are as fresh as those of separate requests: they never come from a
//! request that started before the call, unless the caller accepts a maximum age.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidegate_cluster::ClusterError;
use tokio::time::Instant;

/// Coalesced requests, by subject. Responses are kept only while callers wait for them or while they are
/// recent enough.
pub(crate) struct Singleflight<K, T> {
    flights: Mutex<HashMap<K, Weak<Flight<T>>>>,
}

type FlightResult<T> = Result<T, ClusterError>;

struct Flight<T> {
    /// Logical clock that orders callers and requests.
    clock: AtomicU64,
    /// Last response. Locked while a request is running.
    last: tokio::sync::Mutex<Option<LastResponse<T>>>,
}

/// Response with the start time of its request.
struct LastResponse<T> {
    started: u64,
    started_at: Instant,
    response: FlightResult<T>,
}

impl<T> Flight<T> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

impl<K, T> Default for Singleflight<K, T> {
    fn default() -> Self {
        Self { flights: Mutex::default() }
    }
}

impl<K: Eq + Hash, T: Clone + Send + 'static> Singleflight<K, T> {
    /// Returns the response to `question`, or to an identical request that started after this call.
    pub(crate) async fn run(
        &self,
        about: K,
        question: impl Future<Output = FlightResult<T>>,
    ) -> FlightResult<T> {
        self.run_recent(about, Duration::ZERO, question).await
    }

    /// Works like [`Self::run`], but also accepts a successful response more recent than `good_for`.
    pub(crate) async fn run_recent(
        &self,
        about: K,
        good_for: Duration,
        question: impl Future<Output = FlightResult<T>>,
    ) -> FlightResult<T> {
        let round = self.join_flight(about);
        let came = round.tick();
        let mut last = round.last.lock().await;
        let is_good = |last: &&LastResponse<T>| last.response.is_ok() && last.started_at.elapsed() < good_for;
        if let Some(last) = last.as_ref().filter(|last| last.started > came || is_good(last)) {
            return last.response.clone();
        }
        let (started, started_at) = (round.tick(), Instant::now());
        let answer = question.await;
        *last = Some(LastResponse { started, started_at, response: answer.clone() });
        drop(last);
        if !good_for.is_zero() {
            // The map holds only a weak reference. Keep the flight alive until its response is too old to
            // reuse.
            tokio::spawn(async move {
                tokio::time::sleep_until(started_at + good_for).await;
                drop(round);
            });
        }
        answer
    }

    fn join_flight(&self, about: K) -> Arc<Flight<T>> {
        // Every change under the lock is atomic, so a panic can't leave a partial change behind.
        let mut under_way = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(round) = under_way.get(&about).and_then(Weak::upgrade) {
            return round;
        }
        under_way.retain(|_, round| round.strong_count() > 0);
        let round = Arc::new(Flight { clock: AtomicU64::new(0), last: tokio::sync::Mutex::new(None) });
        under_way.insert(about, Arc::downgrade(&round));
        round
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use futures_util::future::{join, join_all};
    use tokio::sync::Semaphore;

    use super::*;

    /// Server that counts requests and responds when the test permits it.
    struct FakeServer {
        request_count: AtomicU64,
        response_permits: Semaphore,
    }

    impl FakeServer {
        fn new() -> Self {
            Self { request_count: AtomicU64::new(0), response_permits: Semaphore::new(0) }
        }

        async fn respond(&self) -> FlightResult<u64> {
            let time = self.request_count.fetch_add(1, Ordering::SeqCst);
            self.response_permits.acquire().await.unwrap().forget();
            Ok(time)
        }

        fn request_count(&self) -> u64 {
            self.request_count.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn callers_during_a_request_share_the_next_response() {
        let (requests, server) = (Singleflight::default(), FakeServer::new());
        let ask = || requests.run("what", server.respond());
        let first = ask();
        tokio::pin!(first);
        assert!(futures_util::poll!(&mut first).is_pending());
        let late = join_all((0..20).map(|_| ask()));
        tokio::pin!(late);
        assert!(futures_util::poll!(&mut late).is_pending());
        assert_eq!(server.request_count(), 1, "only one caller asks at a time");
        server.response_permits.add_permits(2);
        let (first, late) = join(first, late).await;
        assert_eq!((first, late), (Ok(0), vec![Ok(1); 20]), "late callers do not share an earlier question");
        assert_eq!(server.request_count(), 2);
    }

    #[tokio::test]
    async fn a_single_caller_sends_its_own_request() {
        let (requests, server) = (Singleflight::default(), FakeServer::new());
        server.response_permits.add_permits(3);
        for time in 0..3 {
            assert_eq!(requests.run("what", server.respond()).await, Ok(time));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_recent_response_is_reused() {
        let (requests, server) = (Singleflight::default(), FakeServer::new());
        server.response_permits.add_permits(9);
        let ask = || requests.run_recent("what", Duration::from_secs(3), server.respond());
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(Duration::from_millis(2_900)).await;
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(ask().await, Ok(1));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(
            requests.flights.lock().unwrap().values().all(|round| round.strong_count() == 0),
            "a finished round is retained"
        );
    }

    #[tokio::test]
    async fn requests_for_other_subjects_do_not_wait() {
        let (requests, server) = (Singleflight::default(), FakeServer::new());
        let one = requests.run("one", server.respond());
        tokio::pin!(one);
        assert!(futures_util::poll!(&mut one).is_pending());
        assert_eq!(requests.run("other", async { Ok(7) }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_dropped_call_leaves_the_request_to_the_next_caller() {
        let (requests, server) = (Singleflight::default(), FakeServer::new());
        let mut first = Box::pin(requests.run("what", server.respond()));
        assert!(futures_util::poll!(&mut first).is_pending());
        let second = requests.run("what", async { Ok(7) });
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }
}
