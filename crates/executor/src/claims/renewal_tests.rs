//! Acquisition and renewal of claims, in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::ClaimEvent;
use tidegate_model::{ClaimConflictPolicy, ClaimLocation, Object, Timestamp};
use tokio::time::Instant;

use super::keeper::{ClaimKeeper, KeeperEnvironment, ObservationStore, release_claim};
use super::location::ClaimLocations;
use super::record::{Claimant, Lease, new_lease};

/// Scripted results of writes, each after a delay in seconds. Once the script is exhausted, writes succeed
/// immediately.
struct Script {
    started_at: Instant,
    answers: Mutex<VecDeque<(u64, Option<ErrorKind>)>>,
    /// Times of the writes, in seconds.
    write_times: Mutex<Vec<u64>>,
    /// Existing claim, held by another operation.
    foreign_lease: Option<Lease>,
    /// True if the operation has finished according to the local log.
    is_over: bool,
}

/// Server with the Lease.
trait LeaseServer: Sync {
    fn read(&self) -> Option<Lease>;
    fn write(&self, lease: Object) -> impl Future<Output = Result<Lease, ClusterError>> + Send;
    fn is_over(&self, operation: &str) -> bool;
}

/// Environment of a keeper in virtual time.
struct Environment<'a, S> {
    server: &'a S,
    started_at: Instant,
}

impl<S: LeaseServer> KeeperEnvironment for Environment<'_, S> {
    type Moment = ();

    async fn read(&self, _: &ClaimLocation) -> Result<Option<Lease>, ClusterError> {
        Ok(self.server.read())
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.server.write(lease).await
    }

    async fn missing_rights(&self, _: &ClaimLocation) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn is_over(&self, operation: &str) -> bool {
        self.server.is_over(operation)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    fn moment(&self) {}

    fn record_renewal(&self, (): ()) {}

    fn report(&self, _: ClaimEvent) {}
}

impl LeaseServer for Script {
    fn read(&self) -> Option<Lease> {
        self.foreign_lease.clone()
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.write_times.lock().unwrap().push(self.started_at.elapsed().as_secs());
        let (after, error) = self.answers.lock().unwrap().pop_front().unwrap_or((0, None));
        tokio::time::sleep(Duration::from_secs(after)).await;
        error.map_or(Ok(Lease(lease)), |kind| Err(ClusterError::new(kind, "refused")))
    }

    fn is_over(&self, operation: &str) -> bool {
        assert_eq!(operation, "operation-0");
        self.is_over
    }
}

fn claimant(operation: &str) -> Claimant {
    Claimant {
        operation: operation.to_owned(),
        application: "web".to_owned(),
        worker: "a test".to_owned(),
        revision: String::new(),
        incarnation: "engine-1".to_owned(),
    }
}

fn location() -> ClaimLocation {
    ClaimLocation { namespace: "shop".to_owned(), name: "tidegate-web".to_owned() }
}

async fn run_script(script: Script, previous_location: Option<ClaimLocation>, seconds: u64) -> Vec<u64> {
    let keeping = ClaimKeeper {
        environment: Environment { server: &script, started_at: script.started_at },
        claimant: claimant("operation-1"),
        locations: ClaimLocations { home: location(), fallback: None },
        if_taken: ClaimConflictPolicy::Queue,
        previous_location,
        observations: ObservationStore::default(),
        has_held: Arc::default(),
    };
    let ended = tokio::time::timeout(Duration::from_secs(seconds), keeping.run()).await;
    assert!(ended.is_err(), "the claim is held continuously");
    drop(keeping);
    script.write_times.into_inner().unwrap()
}

/// Returns the times of the writes in the first `seconds` of an operation that already holds its claim.
async fn write_times(answers: impl IntoIterator<Item = (u64, Option<ErrorKind>)>, seconds: u64) -> Vec<u64> {
    let answers = Mutex::new(answers.into_iter().collect());
    let script = Script {
        started_at: Instant::now(),
        answers,
        write_times: Mutex::default(),
        foreign_lease: None,
        is_over: false,
    };
    run_script(script, Some(location()), seconds).await
}

/// A process killed after its operation has finished, but before it can release the claim, leaves the claim
/// behind. The next operation in the same log doesn't wait for it, but an operation in another log does.
#[tokio::test(start_paused = true)]
async fn the_claim_of_a_finished_operation_is_not_awaited() {
    for (is_over, first) in [(true, 0), (false, 30)] {
        let now = Timestamp::from_millis(0);
        let left =
            new_lease(&location()).map(|lease| Lease(lease.with_claimant(&claimant("operation-0"), 1, now)));
        let (started_at, answers, write_times) = (Instant::now(), Mutex::default(), Mutex::default());
        let sent =
            run_script(Script { started_at, answers, write_times, foreign_lease: left, is_over }, None, 34)
                .await;
        assert_eq!(sent.first(), Some(&first), "{is_over}: {sent:?}");
    }
}

/// A Lease on a server that rejects outdated writes.
#[derive(Default)]
struct SharedLease {
    lease: Mutex<Option<Lease>>,
    writes: Mutex<u64>,
}

impl LeaseServer for SharedLease {
    fn read(&self) -> Option<Lease> {
        self.lease.lock().unwrap().clone()
    }

    async fn write(&self, mut lease: Object) -> Result<Lease, ClusterError> {
        let mut current = self.lease.lock().unwrap();
        let version = current.as_ref().map_or("", |lease| lease.0.text("/metadata/resourceVersion"));
        if lease.text("/metadata/resourceVersion") != version {
            return Err(ClusterError::new(ErrorKind::Conflict, "the Lease has changed"));
        }
        let mut writes = self.writes.lock().unwrap();
        *writes += 1;
        lease.metadata_mut().insert("resourceVersion".to_owned(), writes.to_string().into());
        Ok(current.insert(Lease(lease)).clone())
    }

    fn is_over(&self, _: &str) -> bool {
        false
    }
}

/// The former leader of a shared log may still run an operation that the new one has continued. Both have the same
/// operation ID, so only the engine's ID tells them apart.
#[tokio::test(start_paused = true)]
async fn an_engine_loses_the_claim_of_an_operation_that_another_engine_continues() {
    let server = SharedLease::default();
    let keeper = |engine: &str, previous_location| ClaimKeeper {
        environment: Environment { server: &server, started_at: Instant::now() },
        claimant: Claimant { incarnation: engine.to_owned(), ..claimant("operation-1") },
        locations: ClaimLocations { home: location(), fallback: None },
        if_taken: ClaimConflictPolicy::Queue,
        previous_location,
        observations: ObservationStore::default(),
        has_held: Arc::default(),
    };
    let (first, second) = (keeper("engine-1", None), keeper("engine-2", Some(location())));
    let first = first.run();
    tokio::pin!(first);
    assert!(tokio::time::timeout(Duration::from_secs(7), &mut first).await.is_err());
    let second = second.run();
    tokio::pin!(second);
    let lost = tokio::select! {
        lost = &mut first => lost,
        _ = &mut second => panic!("the new engine lost the claim"),
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("both engines hold the claim"),
    };
    let Ok(ClaimEvent::Lost { holder: Some(holder) }) = lost else { panic!("{lost:?}") };
    assert_eq!(holder.operation, "operation-1");
    // A new actor of the former engine doesn't take the claim back, and doesn't release it.
    let again = ClaimKeeper { has_held: Arc::new(true.into()), ..keeper("engine-1", Some(location())) };
    assert!(matches!(again.run().await, Ok(ClaimEvent::Lost { .. })));
    release_claim(&again.environment, &again.claimant, &[location()], true).await;
    let holder = server.lease.lock().unwrap().as_ref().unwrap().holder_id().to_owned();
    assert_eq!(holder, "operation-1");
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut second).await.is_err());
    // Neither does it once the other engine has finished the operation.
    release_claim(&again.environment, &keeper("engine-2", None).claimant, &[location()], true).await;
    assert!(matches!(again.run().await, Ok(ClaimEvent::Lost { .. })));
    assert_eq!(server.lease.lock().unwrap().as_ref().unwrap().holder_id(), "");
}

/// A process that is killed before it can release its claim leaves the release to the next one.
#[tokio::test(start_paused = true)]
async fn a_later_process_releases_the_claim_of_a_finished_operation() {
    let now = Timestamp::from_millis(0);
    let left = Claimant { incarnation: "engine-0".to_owned(), ..claimant("operation-1") };
    let lease = new_lease(&location()).map(|lease| Lease(lease.with_claimant(&left, 1, now)));
    let server = SharedLease { lease: Mutex::new(lease), ..SharedLease::default() };
    let environment = Environment { server: &server, started_at: Instant::now() };
    release_claim(&environment, &claimant("operation-1"), &[location()], false).await;
    assert_eq!(server.lease.lock().unwrap().as_ref().unwrap().holder_id(), "");
}

/// A renewal covers writes from its start. If an outage delays it for too long, it doesn't cover any writes
/// by the time it succeeds. The next renewal must then follow immediately, so that writers don't wait for the
/// regular interval.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_hung_is_repeated_at_once() {
    assert_eq!(
        write_times([(0, None), (2, None)], 18).await,
        [0, 5, 10, 15],
        "the interval starts with the renewal"
    );
    assert_eq!(write_times([(0, None), (24, None)], 36).await, [0, 5, 29, 34]);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_renewal_is_repeated_when_the_server_allows_it() {
    let busy = |seconds| ErrorKind::TooManyRequests { retry_after: Some(Duration::from_secs(seconds)) };
    assert_eq!(write_times([(0, None), (0, Some(busy(12)))], 24).await, [0, 5, 17, 22]);
    assert_eq!(write_times([(0, None), (0, Some(busy(0)))], 8).await, [0, 5, 6]);
    assert_eq!(
        write_times([(0, Some(busy(12)))], 14).await,
        [0, 12],
        "the delay also applies while the claim is reacquired"
    );
    assert_eq!(write_times([(0, None), (0, Some(ErrorKind::Unavailable))], 8).await, [0, 5, 6]);
}
