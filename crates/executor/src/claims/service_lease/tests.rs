//! Services without a shared state directory, on one simulated cluster in virtual time.

use std::sync::Mutex;

use futures_util::FutureExt as _;
use serde_json::json;
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_cluster::{DeleteRequest, PendingCall};
use tidegate_model::{Gvk, Timestamp};

use super::*;
use crate::claims::SERVICE_LEASE_DURATION;

/// A service's connection to the cluster, which tests can cut.
struct Link {
    cluster: Arc<SimCluster>,
    is_cut: AtomicBool,
}

impl Layer for Link {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(&self, _: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(ClusterError::new(ErrorKind::Unavailable, "connection refused"));
        }
        answer.await
    }
}

struct Service {
    link: Arc<Link>,
    identity: ServiceIdentity,
}

fn location() -> ClaimLocation {
    ClaimLocation { namespace: "default".to_owned(), name: "tidegate".to_owned() }
}

impl Service {
    fn new(cluster: &Arc<SimCluster>, host: &str) -> Self {
        let link = Arc::new(Link { cluster: Arc::clone(cluster), is_cut: AtomicBool::new(false) });
        Self { link, identity: ServiceIdentity::new(host, 1, &format!("state-of-{host}")) }
    }

    fn lease(&self) -> ServiceLease {
        ServiceLease::new(Arc::clone(&self.link) as Arc<dyn Cluster>, location(), self.identity.clone())
    }

    async fn acquire(&self, is_standby: bool) -> Result<HeldLease, LeaseError> {
        self.lease().acquire(is_standby, |_| {}).await
    }

    fn cut(&self) {
        self.link.is_cut.store(true, Ordering::SeqCst);
    }

    fn restore(&self) {
        self.link.is_cut.store(false, Ordering::SeqCst);
    }
}

fn cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(
        SimConfig::without_delays(),
        SimClock::tokio(Timestamp::from_millis(1_000)),
    ))
}

fn writers(cluster: &SimCluster) -> BTreeSet<String> {
    let writes = cluster.audit().into_iter().filter(|entry| !entry.dry_run && entry.code < 300);
    writes.map(|entry| format!("{} {}", entry.kind, entry.name)).collect()
}

async fn elapsed<T>(work: impl Future<Output = T>) -> (T, u64) {
    let began = Instant::now();
    (work.await, began.elapsed().as_secs())
}

fn config(name: &str) -> Object {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    Object::try_from(object).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_second_service_reports_the_holder_and_gives_up() {
    let cluster = cluster();
    let (first, second) = (Service::new(&cluster, "a"), Service::new(&cluster, "b"));
    let held = first.acquire(false).await.unwrap();
    let (answer, waited) = elapsed(second.acquire(false)).await;
    let Err(LeaseError::Held(holder)) = answer else { panic!("two services are in charge") };
    assert!(holder.to_string().starts_with("pid 1 on a (state directory state-of-a) since "), "{holder}");
    assert!(waited <= 2 * SERVICE_LEASE_RENEWAL_INTERVAL.as_secs(), "{waited} s");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_at_once_from_a_service_that_ends_and_soon_from_one_that_dies() {
    for (dies, within) in [(false, 2), (true, 20)] {
        let cluster = cluster();
        let (first, second) = (Service::new(&cluster, "a"), Service::new(&cluster, "b"));
        let held = first.acquire(true).await.unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reported);
        let standby = second.lease();
        let standby =
            tokio::spawn(async move { standby.acquire(true, |wait| told.lock().unwrap().push(wait)).await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!standby.is_finished(), "the first service renews its Lease");
        assert_eq!(writers(&cluster), BTreeSet::from(["Lease tidegate".to_owned()]));
        let began = Instant::now();
        if dies {
            drop(held)
        } else {
            held.release().await
        }
        let taken = standby.await.unwrap();
        assert!(
            taken.is_ok() && began.elapsed().as_secs() <= within,
            "{dies}: {} s",
            began.elapsed().as_secs()
        );
        assert!(matches!(reported.lock().unwrap().first(), Some(LeaseWait::Holder(_))));
    }
}

/// The fence blocks a service's writes before another service can take charge.
#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_renew_its_lease_stops_writing_before_another_one_begins() {
    let cluster = cluster();
    let (first, second) = (Service::new(&cluster, "a"), Service::new(&cluster, "b"));
    let mut held = first.acquire(false).await.unwrap();
    // Only the Lease calls are cut off. The service's other writes still reach the cluster.
    let fenced = held.fence().wrap(Arc::clone(&cluster) as Arc<dyn Cluster>);
    fenced.put(config("before"), None).await.unwrap();
    let taken = second.lease();
    let taken = tokio::spawn(async move { taken.acquire(true, |_| {}).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    first.cut();
    tokio::time::sleep(SERVICE_LEASE_COVERAGE).await;
    assert!(!taken.is_finished(), "the first service is fenced before the Lease expires");
    let error = fenced.put(config("after"), None).await.unwrap_err();
    assert!(error.kind == ErrorKind::Timeout && error.message.contains("Lease"), "{error:?}");
    assert!(taken.await.unwrap().is_ok());
    let map = Gvk::new("", "v1", "ConfigMap");
    assert!(cluster.get(&map, "default", "before").await.unwrap().is_some());
    assert!(cluster.get(&map, "default", "after").await.unwrap().is_none());
    // The fence does not block reads.
    assert!(fenced.get(&map, "default", "before").await.unwrap().is_some());
    // When the API server responds again, the first service finds that the other service has the Lease.
    first.restore();
    let LeaseLoss::Taken(Some(holder)) = held.wait_until_lost().await else { panic!("the Lease is taken") };
    assert_eq!(holder.identity, second.identity.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_service_continues_after_an_outage_in_which_no_other_one_took_its_lease() {
    let cluster = cluster();
    let first = Service::new(&cluster, "a");
    let mut held = first.acquire(false).await.unwrap();
    let fenced = held.fence().wrap(Arc::clone(&cluster) as Arc<dyn Cluster>);
    first.cut();
    let lost = tokio::time::timeout(Duration::from_secs(600), held.wait_until_lost()).await;
    assert!(lost.is_err(), "an outage alone does not end the service: {lost:?}");
    assert!(fenced.put(config("during"), None).await.is_err());
    first.restore();
    tokio::time::sleep(SERVICE_LEASE_COVERAGE).await;
    fenced.put(config("after"), None).await.unwrap();
    let lease = cluster.get(&lease_kind(), "default", "tidegate").await.unwrap().unwrap();
    assert_eq!(lease.text("/spec/holderIdentity"), first.identity.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_slept_detects_that_another_one_has_its_lease() {
    let cluster = cluster();
    let (first, second) = (Service::new(&cluster, "a"), Service::new(&cluster, "b"));
    let mut held = first.acquire(false).await.unwrap();
    let gvk = lease_kind();
    let lease = Lease(cluster.get(&gvk, "default", "tidegate").await.unwrap().unwrap());
    let taken = lease.with_holder(&second.identity.to_string(), SERVICE_LEASE_DURATION, 2, SystemClock.now());
    cluster.put(taken, None).await.unwrap();
    let (lost, after) = elapsed(held.wait_until_lost()).await;
    let LeaseLoss::Taken(Some(holder)) = lost else { panic!("{lost:?}") };
    assert_eq!(holder.identity, second.identity.to_string());
    assert!(after <= SERVICE_LEASE_RENEWAL_INTERVAL.as_secs(), "{after} s");
    // When the first service ends, the other keeps the Lease.
    held.release().await;
    let lease = cluster.get(&gvk, "default", "tidegate").await.unwrap().unwrap();
    assert_eq!(lease.text("/spec/holderIdentity"), second.identity.to_string());
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_is_awaited() {
    let cluster = cluster();
    let first = Service::new(&cluster, "a");
    first.cut();
    let (lease, reported) = (first.lease(), Arc::new(Mutex::new(None)));
    let told = Arc::clone(&reported);
    let waiting =
        tokio::spawn(async move { lease.acquire(false, |wait| *told.lock().unwrap() = Some(wait)).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let reason = reported.lock().unwrap().clone();
    assert_eq!(reason, Some(LeaseWait::Unavailable("connection refused".to_owned())));
    first.restore();
    assert!(waiting.await.unwrap().is_ok());
}

/// Replicas of one log on a cluster. `peers` are those in the list of the log's replicas.
async fn acquire_as_replica(
    cluster: &Arc<SimCluster>,
    log: &str,
    id: &str,
    peers: &'static [&str],
) -> HeldLease {
    let identity = ServiceIdentity::of_replica(log, id);
    let lease = ServiceLease::new(Arc::clone(cluster) as Arc<dyn Cluster>, location(), identity);
    let check: PeerCheck =
        Arc::new(move |replica| async move { Ok(peers.contains(&replica.as_str())) }.boxed());
    lease.with_peer_check(check).acquire(true, |_| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn replicas_of_one_log_write_at_the_same_time_and_keep_other_logs_out() {
    const PEERS: &[&str] = &["r1", "r2", "r3"];
    let cluster = cluster();
    let first = acquire_as_replica(&cluster, "log-1", "r1", PEERS).await;
    let (second, waited) = elapsed(acquire_as_replica(&cluster, "log-1", "r2", PEERS)).await;
    assert_eq!(waited, 0, "a replica joins at once");
    let mut third = acquire_as_replica(&cluster, "log-1", "r3", PEERS).await;
    let other = {
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move { acquire_as_replica(&cluster, "log-2", "s1", &["s1"]).await })
    };
    let copy = {
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move { acquire_as_replica(&cluster, "log-1", "copy", &["copy"]).await })
    };
    let lease = Gvk::new("coordination.k8s.io", "v1", "Lease");
    let ClaimLocation { namespace, name } = location();
    for minute in 0..5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if minute == 2 {
            // A user deletes the Lease. One of the replicas recreates it.
            let found = cluster.get(&lease, &namespace, &name).await.unwrap().unwrap();
            cluster.delete(DeleteRequest::for_object(&found)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        for (number, held) in [&first, &second, &third].into_iter().enumerate() {
            let fenced = held.fence().wrap(Arc::clone(&cluster) as Arc<dyn Cluster>);
            fenced.put(config(&format!("from-{number}-{minute}")), None).await.unwrap();
        }
    }
    assert!(!other.is_finished() && !copy.is_finished());
    // One replica leaves, and another one dies. The third one continues.
    first.release().await;
    drop(second);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(third.wait_until_lost().now_or_never().is_none());
    assert!(!other.is_finished() && !copy.is_finished());
    copy.abort();
    third.release().await;
    let (_other, waited) = elapsed(other).await;
    assert!(waited <= 2, "the last replica releases the Lease: {waited} s");
}
