//! One answer for all who wait for it: what many ask at the same time is asked once, and once more for those who came
//! while that was under way. Nobody gets an answer to a question that was put before they came, so an answer is never older
//! than it would be if everybody asked alone; unless it is good for a while, and then no older than that.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidegate_cluster::ClusterError;
use tokio::time::Instant;

/// Questions, each by what it is about. An answer is kept only as long as somebody waits for it, and as long as it is good.
pub(crate) struct Rounds<K, T> {
    under_way: Mutex<HashMap<K, Weak<Round<T>>>>,
}

type Answer<T> = Result<T, ClusterError>;

struct Round<T> {
    /// Counts who comes and what is asked, in the order in which it happens.
    moments: AtomicU64,
    /// Held while it is asked.
    last: tokio::sync::Mutex<Option<Last<T>>>,
}

/// An answer, and when its question was put.
struct Last<T> {
    put: u64,
    put_at: Instant,
    answer: Answer<T>,
}

impl<T> Round<T> {
    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::Relaxed)
    }
}

impl<K, T> Default for Rounds<K, T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<K: Eq + Hash, T: Clone + Send + 'static> Rounds<K, T> {
    /// The answer to `question`, or to that of somebody else about the same that was put after this call.
    pub(crate) async fn ask(&self, about: K, question: impl Future<Output = Answer<T>>) -> Answer<T> {
        self.ask_recent(about, Duration::ZERO, question).await
    }

    /// The same; an answer will do whose question was put so short a time ago, unless it is an error.
    pub(crate) async fn ask_recent(
        &self,
        about: K,
        good_for: Duration,
        question: impl Future<Output = Answer<T>>,
    ) -> Answer<T> {
        let round = self.join(about);
        let came = round.moment();
        let mut last = round.last.lock().await;
        let is_good = |last: &&Last<T>| last.answer.is_ok() && last.put_at.elapsed() < good_for;
        if let Some(last) = last.as_ref().filter(|last| last.put > came || is_good(last)) {
            return last.answer.clone();
        }
        let (put, put_at) = (round.moment(), Instant::now());
        let answer = question.await;
        *last = Some(Last { put, put_at, answer: answer.clone() });
        drop(last);
        if !good_for.is_zero() {
            // Nobody else may have it.
            tokio::spawn(async move {
                tokio::time::sleep_until(put_at + good_for).await;
                drop(round);
            });
        }
        answer
    }

    fn join(&self, about: K) -> Arc<Round<T>> {
        // Every change under the lock is a single one, so a panic leaves nothing half done.
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(round) = under_way.get(&about).and_then(Weak::upgrade) {
            return round;
        }
        under_way.retain(|_, round| round.strong_count() > 0);
        let round = Arc::new(Round { moments: AtomicU64::new(0), last: tokio::sync::Mutex::new(None) });
        under_way.insert(about, Arc::downgrade(&round));
        round
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use futures_util::future::{join, join_all};
    use tokio::sync::Semaphore;

    use super::*;

    /// Counts how often it is asked; answers when it is let.
    struct Asked {
        times: AtomicU64,
        may_answer: Semaphore,
    }

    impl Asked {
        fn new() -> Self {
            Self { times: AtomicU64::new(0), may_answer: Semaphore::new(0) }
        }

        async fn question(&self) -> Answer<u64> {
            let time = self.times.fetch_add(1, Ordering::SeqCst);
            self.may_answer.acquire().await.unwrap().forget();
            Ok(time)
        }

        fn times(&self) -> u64 {
            self.times.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn those_who_come_while_it_is_asked_share_the_next_answer() {
        let (rounds, asked) = (Rounds::default(), Asked::new());
        let ask = || rounds.ask("what", asked.question());
        let first = ask();
        tokio::pin!(first);
        assert!(futures_util::poll!(&mut first).is_pending());
        let late = join_all((0..20).map(|_| ask()));
        tokio::pin!(late);
        assert!(futures_util::poll!(&mut late).is_pending());
        assert_eq!(asked.times(), 1, "nobody else asks meanwhile");
        asked.may_answer.add_permits(2);
        let (first, late) = join(first, late).await;
        assert_eq!(
            (first, late),
            (Ok(0), vec![Ok(1); 20]),
            "what was asked before they came is no answer to them"
        );
        assert_eq!(asked.times(), 2);
    }

    #[tokio::test]
    async fn who_comes_alone_asks() {
        let (rounds, asked) = (Rounds::default(), Asked::new());
        asked.may_answer.add_permits(3);
        for time in 0..3 {
            assert_eq!(rounds.ask("what", asked.question()).await, Ok(time));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_be_good_for_a_while() {
        let (rounds, asked) = (Rounds::default(), Asked::new());
        asked.may_answer.add_permits(9);
        let ask = || rounds.ask_recent("what", Duration::from_secs(3), asked.question());
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(Duration::from_millis(2_900)).await;
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(ask().await, Ok(1));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(
            rounds.under_way.lock().unwrap().values().all(|round| round.strong_count() == 0),
            "it is kept"
        );
    }

    #[tokio::test]
    async fn other_questions_do_not_wait() {
        let (rounds, asked) = (Rounds::default(), Asked::new());
        let one = rounds.ask("one", asked.question());
        tokio::pin!(one);
        assert!(futures_util::poll!(&mut one).is_pending());
        assert_eq!(rounds.ask("other", async { Ok(7) }).await, Ok(7));
    }

    #[tokio::test]
    async fn whoever_gives_up_leaves_the_question_to_the_next() {
        let (rounds, asked) = (Rounds::default(), Asked::new());
        let mut first = Box::pin(rounds.ask("what", asked.question()));
        assert!(futures_util::poll!(&mut first).is_pending());
        let second = rounds.ask("what", async { Ok(7) });
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Ok(7));
    }
}
