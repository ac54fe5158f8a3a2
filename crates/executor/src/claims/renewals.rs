//! When a claim is taken and renewed, on virtual time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::ClaimNews;
use tidegate_model::{ClaimPlace, IfTaken, Object, Timestamp};
use tokio::time::Instant;

use super::keeper::{Around, Keeping, Vigil};
use super::place::Places;
use super::record::{Claimant, Lease, blank};

/// Answers writes as the script says, each after so many seconds; at once and well when there is nothing left of it.
struct Script {
    began: Instant,
    answers: Mutex<VecDeque<(u64, Option<ErrorKind>)>>,
    /// When each write was sent, in seconds.
    sent: Mutex<Vec<u64>>,
    /// The claim of another operation, which is there.
    found: Option<Lease>,
    /// Our log knows that it is over.
    is_over: bool,
}

impl Around for &Script {
    type Moment = ();

    async fn read(&self, _: &ClaimPlace) -> Result<Option<Lease>, ClusterError> {
        Ok(self.found.clone())
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.sent.lock().unwrap().push(self.began.elapsed().as_secs());
        let (after, error) = self.answers.lock().unwrap().pop_front().unwrap_or((0, None));
        tokio::time::sleep(Duration::from_secs(after)).await;
        error.map_or(Ok(Lease(lease)), |kind| Err(ClusterError::new(kind, "refused")))
    }

    async fn lacks(&self, _: &ClaimPlace) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn is_over(&self, operation: &str) -> bool {
        assert_eq!(operation, "operation-0");
        self.is_over
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn moment(&self) {}

    fn renewed(&self, (): ()) {}

    fn tell(&self, _: ClaimNews) {}
}

fn us(operation: &str) -> Claimant {
    Claimant {
        operation: operation.to_owned(),
        application: "web".to_owned(),
        who: "a test".to_owned(),
        revision: String::new(),
    }
}

fn place() -> ClaimPlace {
    ClaimPlace { namespace: "shop".to_owned(), name: "tidegate-web".to_owned() }
}

async fn play(script: Script, had: Option<ClaimPlace>, seconds: u64) -> Vec<u64> {
    let keeping = Keeping {
        around: &script,
        us: us("operation-1"),
        places: Places { home: place(), aside: None },
        if_taken: IfTaken::Queue,
        had,
        vigil: Vigil::default(),
    };
    let ended = tokio::time::timeout(Duration::from_secs(seconds), keeping.run()).await;
    assert!(ended.is_err(), "it is held all the time");
    drop(keeping);
    script.sent.into_inner().unwrap()
}

/// When writes are sent in the first seconds of an operation that has its claim already.
async fn sent(answers: impl IntoIterator<Item = (u64, Option<ErrorKind>)>, seconds: u64) -> Vec<u64> {
    let answers = Mutex::new(answers.into_iter().collect());
    let script =
        Script { began: Instant::now(), answers, sent: Mutex::default(), found: None, is_over: false };
    play(script, Some(place()), seconds).await
}

/// A process that is killed between the end of its operation and the giving back leaves a claim; the next operation of that
/// log does not wait for it, one of another log does.
#[tokio::test(start_paused = true)]
async fn the_claim_of_an_operation_that_is_over_is_not_waited_for() {
    for (is_over, first) in [(true, 0), (false, 30)] {
        let now = Timestamp::from_millis(0);
        let left = blank(&place()).map(|lease| Lease(lease.taken(&us("operation-0"), 1, now)));
        let (began, answers, sent) = (Instant::now(), Mutex::default(), Mutex::default());
        let sent = play(Script { began, answers, sent, found: left, is_over }, None, 34).await;
        assert_eq!(sent.first(), Some(&first), "{is_over}: {sent:?}");
    }
}

/// A renewal covers writes from when it began. One that an outage held up covers nothing when it succeeds, and whoever
/// waits to write does not wait for the next one to come in its turn.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_hung_is_followed_by_another_at_once() {
    assert_eq!(sent([(0, None), (2, None)], 18).await, [0, 5, 10, 15], "counted from where they began");
    assert_eq!(sent([(0, None), (24, None)], 36).await, [0, 5, 29, 34]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_refused_for_now_is_made_again_when_the_server_wants_it() {
    let busy = |seconds| ErrorKind::TooManyRequests { retry_after: Some(Duration::from_secs(seconds)) };
    assert_eq!(sent([(0, None), (0, Some(busy(12)))], 24).await, [0, 5, 17, 22]);
    assert_eq!(sent([(0, None), (0, Some(busy(0)))], 8).await, [0, 5, 6]);
    assert_eq!(sent([(0, Some(busy(12)))], 14).await, [0, 12], "while it is taken back as well");
    assert_eq!(sent([(0, None), (0, Some(ErrorKind::Unavailable))], 8).await, [0, 5, 6]);
}
