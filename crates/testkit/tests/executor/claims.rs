//! Operations of the same application in engines with separate logs. The claim keeps them from running
//! concurrently. The cluster's audit log shows the writes and their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tidegate_cluster::sim::{AuditEntry, SimCluster, SimConfig};
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{CLAIM_DURATION, CLAIM_RENEWAL_INTERVAL, Engine, RuntimeClock};
use tidegate_lifecycle::operation::{ClaimStatus, OperationView};
use tidegate_model::{
    ClaimConflictPolicy, ClaimRequest, Destination, Gvk, Object, OperationId, OperationPhase,
};
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;
use tokio::time::Instant;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, delete_namespace, external_write, hook, submit,
    wait_for_end, wait_until,
};

const SLOW_MANIFESTS: (&str, &str) = ("sim.tidegate.dev/ready-after", "60s");

/// Returns a sync with a hook that runs for a minute, followed by an object.
fn slow_sync(if_taken: ClaimConflictPolicy) -> SyncSpec {
    claiming_sync(
        &format!("{}{}", hook("migrate", "PreSync", &[SLOW_MANIFESTS]), config("c", 0, &[])),
        if_taken,
    )
}

fn claiming_sync(manifests: &str, if_taken: ClaimConflictPolicy) -> SyncSpec {
    let claim = ClaimRequest { namespace: None, if_taken };
    SyncSpec::new(manifests).with_request(|request| request.claim = Some(claim))
}

/// Engine with a separate log.
struct EngineProcess {
    engine: Engine,
    log: Log,
    cluster: Arc<FaultyCluster>,
}

impl EngineProcess {
    async fn on_cluster(cluster: &Arc<FaultyCluster>) -> Self {
        let log = Log::new();
        let engine = builder(cluster, &log).worker("ann on ci-1").start().await.unwrap();
        Self { engine, log, cluster: Arc::clone(cluster) }
    }

    /// Starts another process on the same log.
    async fn restart(&self) -> Self {
        let log = self.log.reopen();
        let engine = builder(&self.cluster, &log).worker("ann on ci-1").start().await.unwrap();
        Self { engine, log, cluster: Arc::clone(&self.cluster) }
    }

    async fn start_slow_sync(&self) -> OperationId {
        let id = submit(&self.engine, &slow_sync(ClaimConflictPolicy::Refuse)).await;
        wait_until(&self.engine, id, |_, reason| reason.contains("waiting") || reason.contains("migrate"))
            .await;
        while self.cluster.creations_of("migrate") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        id
    }
}

/// Returns an operation's successful writes, without those to claims.
fn writes(sim: &SimCluster, id: OperationId) -> Vec<AuditEntry> {
    let own = |entry: &AuditEntry| entry.operation_id == Some(id) && entry.kind != "Lease";
    sim.audit().into_iter().filter(|entry| own(entry) && !entry.dry_run && entry.code < 300).collect()
}

async fn get_lease(sim: &SimCluster, namespace: &str, name: &str) -> Option<Object> {
    let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
    sim.get(&gvk, namespace, name).await.unwrap()
}

fn claim_status(view: &OperationView) -> ClaimStatus {
    view.claim.as_ref().unwrap().state
}

fn assert_in_order(sim: &SimCluster, first: OperationId, second: OperationId) {
    let (first, second) = (writes(sim, first), writes(sim, second));
    let last = first.last().unwrap().sequence;
    assert!(second.first().unwrap().sequence > last, "{first:#?}\n{second:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_second_operation_is_refused_and_writes_nothing() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let first = one.start_slow_sync().await;
    let began = Instant::now();
    let second = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Refuse)).await;
    let view = wait_for_end(&two.engine, second).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Error, ClaimStatus::Refused));
    assert!(began.elapsed() <= CLAIM_RENEWAL_INTERVAL * 2, "{:?}", began.elapsed());
    for text in [first.to_string().as_str(), "ann on ci-1", "0123456789abcdef", "since 2026-", "--supersede"]
    {
        assert!(view.message.contains(text), "{text}: {}", view.message);
    }
    let write_count =
        cluster.sim.audit().into_iter().filter(|entry| entry.operation_id == Some(second)).count();
    assert_eq!(write_count, 0, "a refused operation writes nothing");
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Released));
    let lease = get_lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
    assert_eq!((lease.text("/spec/holderIdentity"), lease.integer("/spec/leaseTransitions")), ("", Some(1)));
    let third = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Refuse)).await;
    assert_eq!(wait_for_end(&two.engine, third).await.phase, OperationPhase::Succeeded);
    assert_in_order(&cluster.sim, first, third);
}

/// The cluster may become available a moment after the operation is resumed.
#[tokio::test(start_paused = true)]
async fn the_claim_is_renewed_when_its_cluster_becomes_available_late() {
    let cluster = FaultyCluster::reliable();
    let runner = EngineProcess::on_cluster(&cluster).await;
    let id = runner.start_slow_sync().await;
    runner.engine.shutdown().await;
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(runner.log.reopen()))
        .worker("ann on ci-1")
        .clock(clock)
        .start()
        .await
        .unwrap();
    engine.resume(id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    engine.add_cluster(Destination::Simulated, Arc::clone(&cluster) as Arc<dyn Cluster>).await.unwrap();
    let view = wait_for_end(&engine, id).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Released));
    assert_eq!(cluster.creations_of("migrate"), 1);
}

/// The plan must contain missing rights even if the operation needs a claim.
#[tokio::test(start_paused = true)]
async fn missing_rights_prevent_writes_of_an_operation_with_a_claim() {
    let cluster = FaultyCluster::new_without_rights(&["patch"]);
    let runner = EngineProcess::on_cluster(&cluster).await;
    let id = submit(&runner.engine, &claiming_sync(&config("a", 0, &[]), ClaimConflictPolicy::Refuse)).await;
    let view = wait_for_end(&runner.engine, id).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Failed, ClaimStatus::Released));
    assert!(view.message.contains("patch ConfigMap in namespace default"), "{}", view.message);
    assert_eq!(writes(&cluster.sim, id).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_queued_operation_names_its_blocker_and_starts_next() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let first = one.start_slow_sync().await;
    let second = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Queue)).await;
    wait_until(&two.engine, second, |view, reason| {
        claim_status(view) == ClaimStatus::Awaited
            && reason.contains(&first.to_string())
            && reason.contains("claim")
    })
    .await;
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(wait_for_end(&one.engine, first).await.phase, OperationPhase::Succeeded);
    assert_in_order(&cluster.sim, first, second);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_in_the_queue() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    one.start_slow_sync().await;
    let late = slow_sync(ClaimConflictPolicy::Queue)
        .with_request(|request| request.deadline = Some(Duration::from_secs(20)));
    let second = submit(&two.engine, &late).await;
    let view = wait_for_end(&two.engine, second).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Failed, ClaimStatus::Awaited));
    assert!(view.message.contains("deadline of 20 s"), "{}", view.message);
    assert!(writes(&cluster.sim, second).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_superseded_operation_stops_its_hooks_and_the_next_one_continues() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let first = one.start_slow_sync().await;
    let began = Instant::now();
    let second = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Supersede)).await;
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let text = format!("Operation terminated, superseded by operation {second} of ann on ci-1");
    assert!(view.message.starts_with(&text), "{}", view.message);
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_in_order(&cluster.sim, first, second);
    let lease = get_lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
    assert_eq!(lease.annotation("tidegate.dev/end-wanted-by"), None);
}

/// A finished operation must withdraw its request to supersede another one.
#[tokio::test(start_paused = true)]
async fn an_ended_operation_withdraws_its_request_to_supersede() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let first = one.start_slow_sync().await;
    // A stopped engine doesn't receive the request.
    one.engine.shutdown().await;
    let second = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Supersede)).await;
    let wanted = || async {
        let lease = get_lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
        lease.annotation("tidegate.dev/end-wanted-by").map(str::to_owned)
    };
    while wanted().await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(wanted().await, Some(second.to_string()));
    two.engine.terminate(second, "ann").await.unwrap();
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Failed);
    assert_eq!(wanted().await, None);
    let one = one.restart().await;
    one.engine.resume(first).await.unwrap();
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_operation_still_has_its_claim() {
    let cluster = FaultyCluster::reliable();
    let one = EngineProcess::on_cluster(&cluster).await;
    let first = one.start_slow_sync().await;
    one.engine.shutdown().await;
    let two = EngineProcess::on_cluster(&cluster).await;
    let second = submit(&two.engine, &slow_sync(ClaimConflictPolicy::Queue)).await;
    wait_until(&two.engine, second, |view, _| claim_status(view) == ClaimStatus::Awaited).await;
    let one = one.restart().await;
    one.engine.resume(first).await.unwrap();
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_in_order(&cluster.sim, first, second);
    assert_eq!(cluster.creations_of("migrate"), 2, "once for each");
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_of_a_dead_operation_is_not_regained() {
    for if_taken in [ClaimConflictPolicy::Refuse, ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede]
    {
        let cluster = FaultyCluster::reliable();
        let (one, two) =
            (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
        let first = one.start_slow_sync().await;
        one.engine.shutdown().await;
        let began = Instant::now();
        let quick = claiming_sync(&config("c", 0, &[]), if_taken);
        let second = submit(&two.engine, &quick).await;
        let view = wait_for_end(&two.engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{if_taken:?}: {}", view.message);
        assert!(began.elapsed() >= CLAIM_DURATION, "{:?}", began.elapsed());
        let before = writes(&cluster.sim, first).len();
        let one = one.restart().await;
        one.engine.resume(first).await.unwrap();
        let view = wait_for_end(&one.engine, first).await;
        assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Error, ClaimStatus::Lost));
        assert!(view.message.contains("sync again"), "{}", view.message);
        assert_eq!(writes(&cluster.sim, first).len(), before, "written without a claim");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_that_was_not_taken_is_regained() {
    let cluster = FaultyCluster::reliable();
    let one = EngineProcess::on_cluster(&cluster).await;
    let first = one.start_slow_sync().await;
    one.engine.shutdown().await;
    tokio::time::sleep(CLAIM_DURATION * 10).await;
    let one = one.restart().await;
    one.engine.resume(first).await.unwrap();
    assert_eq!(wait_for_end(&one.engine, first).await.phase, OperationPhase::Succeeded);
}

/// The process is suspended beyond the claim's duration, or it can't renew the claim although everything else
/// works.
#[tokio::test(start_paused = true)]
async fn an_operation_that_cannot_renew_its_claim_stops_before_the_next_starts() {
    let calm = FaultyCluster::reliable();
    let cut = Arc::new(AtomicBool::new(false));
    let cluster = FaultyCluster::connect(calm.sim.clone(), {
        let cut = Arc::clone(&cut);
        move |verb, name| {
            let lease = name == "tidegate-shop" && ["get", "put"].contains(&verb);
            if lease && cut.load(Ordering::SeqCst) {
                CallOutcome::Refuse(ErrorKind::Unavailable)
            } else {
                CallOutcome::Answer
            }
        }
    });
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&calm).await);
    // There are many waves, each with a hook that runs for ten seconds.
    let waves: String = (0..40)
        .map(|wave| config(&format!("c{wave}"), wave, &[]) + &slow_server(&format!("s{wave}"), wave))
        .collect();
    let first = submit(&one.engine, &claiming_sync(&waves, ClaimConflictPolicy::Refuse)).await;
    while calm.creations_of("c1") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cut.store(true, Ordering::SeqCst);
    let second =
        submit(&two.engine, &claiming_sync(&config("other", 0, &[]), ClaimConflictPolicy::Queue)).await;
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_in_order(&calm.sim, first, second);
    let before = writes(&calm.sim, first).len();
    assert!(before < 70, "it must be in the middle: {before}");
    cut.store(false, Ordering::SeqCst);
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!(
        (view.phase, claim_status(&view)),
        (OperationPhase::Error, ClaimStatus::Lost),
        "{}",
        view.message
    );
    assert_eq!(writes(&calm.sim, first).len(), before, "written without a claim");
}

fn slow_server(name: &str, wave: i64) -> String {
    crate::support::server_deployment(name, wave, &[("sim.tidegate.dev/ready-after", "4s")])
}

#[tokio::test(start_paused = true)]
async fn without_rights_for_leases_an_operation_continues_with_a_warning() {
    for verb in ["get", "put"] {
        let cluster = FaultyCluster::new(SimConfig::default(), move |asked, name| {
            let is_it = name.starts_with("tidegate-shop") && asked == verb;
            if is_it { CallOutcome::Refuse(ErrorKind::Forbidden) } else { CallOutcome::Answer }
        });
        let one = EngineProcess::on_cluster(&cluster).await;
        let id = submit(&one.engine, &slow_sync(ClaimConflictPolicy::Refuse)).await;
        let view = wait_for_end(&one.engine, id).await;
        assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Unavailable));
        assert!(
            view.warnings.iter().any(|warning| warning.code == "no-claim"),
            "{verb}: {:?}",
            view.warnings
        );
    }
}

/// A Lease that can't be renewed or released would only block later operations.
#[tokio::test(start_paused = true)]
async fn a_claim_that_could_not_be_renewed_is_not_taken() {
    let cluster = FaultyCluster::new_without_rights(&["update"]);
    for _ in 0..2 {
        let one = EngineProcess::on_cluster(&cluster).await;
        let began = Instant::now();
        let id = submit(
            &one.engine,
            &claiming_sync(&hook("migrate", "PreSync", &[]), ClaimConflictPolicy::Refuse),
        )
        .await;
        let view = wait_for_end(&one.engine, id).await;
        assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Unavailable));
        assert!(began.elapsed() < CLAIM_DURATION / 2, "it waited: {:?}", began.elapsed());
        let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
        assert!(
            warning.message.contains("permissions: update Lease in namespace default"),
            "{}",
            warning.message
        );
        assert_eq!(get_lease(&cluster.sim, "default", "tidegate-shop").await, None);
    }
}

/// Returns a cluster with read-only Leases.
fn read_only_leases(sim: &SimCluster) -> Arc<FaultyCluster> {
    let poor = FaultyCluster::connect(sim.clone(), |verb, name| match (verb, name) {
        ("put", "tidegate-shop") => CallOutcome::Refuse(ErrorKind::Forbidden),
        _ => CallOutcome::Answer,
    });
    poor.without_rights(&["update"])
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_can_only_read_leases_respects_foreign_claims() {
    for if_taken in [ClaimConflictPolicy::Refuse, ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede]
    {
        let cluster = FaultyCluster::reliable();
        let (one, two) = (
            EngineProcess::on_cluster(&cluster).await,
            EngineProcess::on_cluster(&read_only_leases(&cluster.sim)).await,
        );
        let first = one.start_slow_sync().await;
        let second = submit(&two.engine, &claiming_sync(&config("other", 0, &[]), if_taken)).await;
        let view = wait_for_end(&two.engine, second).await;
        if if_taken == ClaimConflictPolicy::Refuse {
            assert_eq!(claim_status(&view), ClaimStatus::Refused, "{}", view.message);
            continue;
        }
        assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Unavailable));
        assert_eq!(wait_for_end(&one.engine, first).await.phase, OperationPhase::Succeeded);
        assert_in_order(&cluster.sim, first, second);
    }
}

/// Returns a cluster that rejects writes of Leases while a flag is set.
fn cluster_forbidding_leases(calm: &Arc<FaultyCluster>, forbids: &Arc<AtomicBool>) -> Arc<FaultyCluster> {
    let forbids = Arc::clone(forbids);
    FaultyCluster::connect(calm.sim.clone(), move |verb, name| {
        let is_it = verb == "put" && name == "tidegate-shop" && forbids.load(Ordering::SeqCst);
        if is_it { CallOutcome::Refuse(ErrorKind::Forbidden) } else { CallOutcome::Answer }
    })
}

fn many_waves_sync() -> SyncSpec {
    let waves: String = (0..40).map(|wave| slow_server(&format!("s{wave}"), wave)).collect();
    claiming_sync(&waves, ClaimConflictPolicy::Refuse)
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_renewals_ends_when_another_takes_its_claim() {
    for restarts in [false, true] {
        let calm = FaultyCluster::reliable();
        let forbids = Arc::new(AtomicBool::new(false));
        let mut one = EngineProcess::on_cluster(&cluster_forbidding_leases(&calm, &forbids)).await;
        let first = submit(&one.engine, &many_waves_sync()).await;
        while calm.creations_of("s0") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        forbids.store(true, Ordering::SeqCst);
        wait_until(&one.engine, first, |view, _| claim_status(view) == ClaimStatus::Unavailable).await;
        let (view, _) = one.engine.inspect(first).await.unwrap();
        let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
        assert!(
            warning.message.contains("Lease default/tidegate-shop cannot be renewed"),
            "{}",
            warning.message
        );
        if restarts {
            one.engine.shutdown().await;
            one = one.restart().await;
            one.engine.resume(first).await.unwrap();
        }
        let two = EngineProcess::on_cluster(&calm).await;
        let second =
            submit(&two.engine, &claiming_sync(&config("other", 0, &[]), ClaimConflictPolicy::Queue)).await;
        let other = wait_for_end(&two.engine, second).await;
        assert_eq!(other.phase, OperationPhase::Succeeded, "{}", other.message);
        let view = wait_for_end(&one.engine, first).await;
        let ended = (view.phase, claim_status(&view));
        assert_eq!(ended, (OperationPhase::Error, ClaimStatus::Lost), "{}", view.message);
        assert!(view.message.contains("sync again"), "{}", view.message);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_can_renew_again_regains_its_claim() {
    let calm = FaultyCluster::reliable();
    let forbids = Arc::new(AtomicBool::new(false));
    let one = EngineProcess::on_cluster(&cluster_forbidding_leases(&calm, &forbids)).await;
    let first = submit(&one.engine, &many_waves_sync()).await;
    wait_until(&one.engine, first, |view, _| claim_status(view) == ClaimStatus::Held).await;
    forbids.store(true, Ordering::SeqCst);
    wait_until(&one.engine, first, |view, _| claim_status(view) == ClaimStatus::Unavailable).await;
    forbids.store(false, Ordering::SeqCst);
    wait_until(&one.engine, first, |view, _| claim_status(view) == ClaimStatus::Held).await;
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Released));
    assert_eq!(view.warnings, []);
}

/// The first operation creates the namespace, so its claim must be in another one. A later operation, with
/// the namespace in place, must still find the claim.
#[tokio::test(start_paused = true)]
async fn the_next_operation_finds_the_claim_of_one_that_creates_its_namespace() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let brings = |if_taken| {
        slow_sync(if_taken).with_request(|request| {
            request.namespace = "fresh".into();
            request.options.flags = vec!["CreateNamespace=true".into()];
        })
    };
    let first = submit(&one.engine, &brings(ClaimConflictPolicy::Refuse)).await;
    while cluster.creations_of("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(get_lease(&cluster.sim, "fresh", "tidegate-shop").await, None);
    let refused = submit(&two.engine, &brings(ClaimConflictPolicy::Refuse)).await;
    let view = wait_for_end(&two.engine, refused).await;
    assert_eq!(claim_status(&view), ClaimStatus::Refused, "{}", view.message);
    assert!(writes(&cluster.sim, refused).is_empty());
    let second = submit(&two.engine, &brings(ClaimConflictPolicy::Queue)).await;
    assert_eq!(wait_for_end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(wait_for_end(&one.engine, first).await.phase, OperationPhase::Succeeded);
    assert_in_order(&cluster.sim, first, second);
    assert_eq!(
        get_lease(&cluster.sim, "fresh", "tidegate-shop").await.unwrap().text("/spec/holderIdentity"),
        ""
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_claim_namespace_is_an_error() {
    let cluster = FaultyCluster::reliable();
    let one = EngineProcess::on_cluster(&cluster).await;
    let claim = ClaimRequest { namespace: Some("ops".into()), if_taken: ClaimConflictPolicy::Refuse };
    let sync = slow_sync(ClaimConflictPolicy::Refuse).with_request(|request| request.claim = Some(claim));
    let id = submit(&one.engine, &sync).await;
    let view = wait_for_end(&one.engine, id).await;
    assert_eq!(view.phase, OperationPhase::Error);
    assert!(view.message.starts_with("failed to acquire the claim: "), "{}", view.message);
    assert!(writes(&cluster.sim, id).is_empty());
}

/// Creates a namespace with content that blocks its deletion.
fn create_stuck_namespace(sim: &SimCluster, name: &str) {
    let apply = |manifest: serde_json::Value| {
        sim.apply(external_write(Object::try_from(manifest).unwrap())).now_or_never().unwrap().unwrap();
    };
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": name, "finalizers": ["x.io/y"]}}));
    delete_namespace(sim, name);
}

/// Returns a sync with objects in another namespace, so that a terminating namespace affects only the claim.
fn claiming_sync_in(namespace: &str) -> SyncSpec {
    let here = |text: String| text.replace("metadata:", "metadata:\n  namespace: default");
    let manifests = format!("{}{}", hook("migrate", "PreSync", &[SLOW_MANIFESTS]), config("c", 0, &[]));
    claiming_sync(&here(manifests), ClaimConflictPolicy::Refuse)
        .with_request(|request| request.namespace = namespace.into())
}

/// A terminating namespace doesn't accept a Lease, so the claim's location must be the same as for a missing
/// namespace.
#[tokio::test(start_paused = true)]
async fn the_claim_for_a_terminating_namespace_is_stored_elsewhere() {
    let cluster = FaultyCluster::reliable();
    create_stuck_namespace(&cluster.sim, "team");
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let first = submit(&one.engine, &claiming_sync_in("team")).await;
    while cluster.creations_of("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = submit(&two.engine, &claiming_sync_in("team")).await;
    let view = wait_for_end(&two.engine, refused).await;
    assert_eq!(claim_status(&view), ClaimStatus::Refused, "{}", view.message);
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Released));
    assert_eq!(view.warnings, []);
    let lease = view.claim.unwrap().lease.unwrap();
    assert!(lease.starts_with("default/tidegate-shop-"), "{lease}");
}

/// The namespace's deletion starts while the operation holds a claim in it.
#[tokio::test(start_paused = true)]
async fn a_claim_moves_when_its_namespace_is_deleted() {
    let cluster = FaultyCluster::reliable();
    let (one, two) = (EngineProcess::on_cluster(&cluster).await, EngineProcess::on_cluster(&cluster).await);
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.sim.apply(external_write(Object::try_from(team).unwrap())).await.unwrap();
    let first = submit(&one.engine, &claiming_sync_in("team")).await;
    while cluster.creations_of("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(get_lease(&cluster.sim, "team", "tidegate-shop").await.is_some());
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(CLAIM_RENEWAL_INTERVAL * 2).await;
    let refused = submit(&two.engine, &claiming_sync_in("team")).await;
    let view = wait_for_end(&two.engine, refused).await;
    assert_eq!(claim_status(&view), ClaimStatus::Refused, "{}", view.message);
    let view = wait_for_end(&one.engine, first).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Released));
    assert_eq!(view.warnings, []);
    assert!(view.claim.unwrap().lease.unwrap().starts_with("default/tidegate-shop-"));
}

/// If the claim can't be created because the namespace is terminating, only permissions for the alternative
/// location help.
#[tokio::test(start_paused = true)]
async fn the_warning_about_a_missing_claim_names_the_terminating_namespace() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, name| {
        let is_aside = verb == "put" && name.starts_with("tidegate-shop-");
        if is_aside { CallOutcome::Refuse(ErrorKind::Forbidden) } else { CallOutcome::Answer }
    });
    create_stuck_namespace(&cluster.sim, "team");
    let one = EngineProcess::on_cluster(&cluster).await;
    let id = submit(&one.engine, &claiming_sync_in("team")).await;
    let view = wait_for_end(&one.engine, id).await;
    assert_eq!((view.phase, claim_status(&view)), (OperationPhase::Succeeded, ClaimStatus::Unavailable));
    let message = &view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap().message;
    for text in [
        "the namespace of the claim's Lease is being deleted",
        "team because it is being terminated",
        "default",
    ] {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert!(!message.contains("grant the rights"), "{message}");
}

/// Some reads of a dead operation's claim fail. The claim must still expire after being observed for its full
/// duration, and separate failures must not add up.
#[tokio::test(start_paused = true)]
async fn failed_reads_do_not_prolong_the_wait_for_a_dead_claim() {
    for kind in [ErrorKind::Server, ErrorKind::Unavailable] {
        let read_count = Arc::new(AtomicUsize::new(0));
        let two = FaultyCluster::new(SimConfig::default(), {
            let read_count = Arc::clone(&read_count);
            move |verb, name| {
                let is_look = verb == "get" && name == "tidegate-shop";
                let fails = is_look && read_count.fetch_add(1, Ordering::SeqCst) % 4 == 3;
                if fails { CallOutcome::Refuse(kind) } else { CallOutcome::Answer }
            }
        });
        let holder = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "tidegate-shop", "namespace": "default", "annotations": {"tidegate.dev/application": "shop"}},
            "spec": {"holderIdentity": "019a0000-0000-7000-8000-000000000001", "leaseDurationSeconds": 30, "leaseTransitions": 1,
                     "renewTime": "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.000000Z"},
        });
        two.sim.apply(external_write(Object::try_from(holder).unwrap())).now_or_never().unwrap().unwrap();
        let runner = EngineProcess::on_cluster(&two).await;
        let began = Instant::now();
        let id =
            submit(&runner.engine, &claiming_sync(&config("c", 0, &[]), ClaimConflictPolicy::Queue)).await;
        let view = wait_for_end(&runner.engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind:?}: {}", view.message);
        assert!(began.elapsed() >= CLAIM_DURATION, "{kind:?}: {:?}", began.elapsed());
        assert!(began.elapsed() <= CLAIM_DURATION * 3 / 2, "{kind:?}: {:?}", began.elapsed());
        assert!(read_count.load(Ordering::SeqCst) > 10, "{kind:?}");
    }
}
