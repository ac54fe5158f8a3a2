//! Operations of one application from engines that share no log: the claim keeps them apart. What was written, and in
//! which order, is read from the audit of the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tidegate_cluster::sim::{AuditEntry, SimCluster, SimConfig};
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{CLAIM_LASTS, CLAIM_RENEWED_EVERY, Engine, RuntimeClock};
use tidegate_lifecycle::operation::{ClaimStanding, OperationView};
use tidegate_model::{ClaimRequest, Destination, Gvk, IfTaken, Object, OperationId, OperationPhase};
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::Sync;
use tokio::time::Instant;

use crate::support::{Fate, Log, Moody, builder, config, delete_namespace, end, hook, submit, until, write};

const SLOW: (&str, &str) = ("sim.tidegate.dev/ready-after", "60s");

/// A hook that runs for a minute, then an object.
fn slow(if_taken: IfTaken) -> Sync {
    claiming(&format!("{}{}", hook("migrate", "PreSync", &[SLOW]), config("c", 0, &[])), if_taken)
}

fn claiming(manifests: &str, if_taken: IfTaken) -> Sync {
    let claim = ClaimRequest { namespace: None, if_taken };
    Sync::of(manifests).with(|request| request.claim = Some(claim))
}

/// An engine with a log of its own.
struct Runner {
    engine: Engine,
    log: Log,
    cluster: Arc<Moody>,
}

impl Runner {
    async fn at(cluster: &Arc<Moody>) -> Self {
        let log = Log::new();
        let engine = builder(cluster, &log).worker("ann on ci-1").start().await.unwrap();
        Self { engine, log, cluster: Arc::clone(cluster) }
    }

    /// Another process on the same log.
    async fn again(&self) -> Self {
        let log = self.log.reopen();
        let engine = builder(&self.cluster, &log).worker("ann on ci-1").start().await.unwrap();
        Self { engine, log, cluster: Arc::clone(&self.cluster) }
    }

    async fn begin_slow(&self) -> OperationId {
        let id = submit(&self.engine, &slow(IfTaken::Refuse)).await;
        until(&self.engine, id, |_, why| why.contains("waiting") || why.contains("migrate")).await;
        while self.cluster.created("migrate") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        id
    }
}

/// Writes of an operation that were done, claims apart.
fn writes(sim: &SimCluster, id: OperationId) -> Vec<AuditEntry> {
    let own = |entry: &AuditEntry| entry.operation_id == Some(id) && entry.kind != "Lease";
    sim.audit().into_iter().filter(|entry| own(entry) && !entry.dry_run && entry.code < 300).collect()
}

async fn lease(sim: &SimCluster, namespace: &str, name: &str) -> Option<Object> {
    let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
    sim.get(&gvk, namespace, name).await.unwrap()
}

fn standing(view: &OperationView) -> ClaimStanding {
    view.claim.as_ref().unwrap().state
}

fn in_order(sim: &SimCluster, first: OperationId, second: OperationId) {
    let (first, second) = (writes(sim, first), writes(sim, second));
    let last = first.last().unwrap().sequence;
    assert!(second.first().unwrap().sequence > last, "{first:#?}\n{second:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_second_operation_is_refused_and_writes_nothing() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let first = one.begin_slow().await;
    let began = Instant::now();
    let second = submit(&two.engine, &slow(IfTaken::Refuse)).await;
    let view = end(&two.engine, second).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Error, ClaimStanding::Refused));
    assert!(began.elapsed() <= CLAIM_RENEWED_EVERY * 2, "{:?}", began.elapsed());
    for words in [first.to_string().as_str(), "ann on ci-1", "0123456789abcdef", "since 2026-", "--supersede"]
    {
        assert!(view.message.contains(words), "{words}: {}", view.message);
    }
    let heard = cluster.sim.audit().into_iter().filter(|entry| entry.operation_id == Some(second)).count();
    assert_eq!(heard, 0, "a refused operation writes nothing");
    let view = end(&one.engine, first).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Released));
    let lease = lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
    assert_eq!((lease.text("/spec/holderIdentity"), lease.integer("/spec/leaseTransitions")), ("", Some(1)));
    let third = submit(&two.engine, &slow(IfTaken::Refuse)).await;
    assert_eq!(end(&two.engine, third).await.phase, OperationPhase::Succeeded);
    in_order(&cluster.sim, first, third);
}

/// Whoever goes on with an operation may find its cluster a moment later.
#[tokio::test(start_paused = true)]
async fn the_claim_is_kept_again_when_the_cluster_comes_after_its_operation() {
    let cluster = Moody::calm();
    let runner = Runner::at(&cluster).await;
    let id = runner.begin_slow().await;
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
    let view = end(&engine, id).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Released));
    assert_eq!(cluster.created("migrate"), 1);
}

/// What the cluster says of rights reaches the plan through the claim as well.
#[tokio::test(start_paused = true)]
async fn missing_rights_keep_an_operation_with_a_claim_from_writing() {
    let cluster = Moody::lacking(&["patch"]);
    let runner = Runner::at(&cluster).await;
    let id = submit(&runner.engine, &claiming(&config("a", 0, &[]), IfTaken::Refuse)).await;
    let view = end(&runner.engine, id).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Failed, ClaimStanding::Released));
    assert!(view.message.contains("patch ConfigMap in namespace default"), "{}", view.message);
    assert_eq!(writes(&cluster.sim, id).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_the_queue_says_for_what_it_waits_and_comes_next() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let first = one.begin_slow().await;
    let second = submit(&two.engine, &slow(IfTaken::Queue)).await;
    until(&two.engine, second, |view, why| {
        standing(view) == ClaimStanding::Awaited && why.contains(&first.to_string()) && why.contains("claim")
    })
    .await;
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(end(&one.engine, first).await.phase, OperationPhase::Succeeded);
    in_order(&cluster.sim, first, second);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_in_the_queue() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    one.begin_slow().await;
    let late = slow(IfTaken::Queue).with(|request| request.deadline = Some(Duration::from_secs(20)));
    let second = submit(&two.engine, &late).await;
    let view = end(&two.engine, second).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Failed, ClaimStanding::Awaited));
    assert!(view.message.contains("deadline of 20 s"), "{}", view.message);
    assert!(writes(&cluster.sim, second).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_superseded_operation_stops_its_hooks_and_the_next_goes_on() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let first = one.begin_slow().await;
    let began = Instant::now();
    let second = submit(&two.engine, &slow(IfTaken::Supersede)).await;
    let view = end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Failed);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let words = format!("Operation terminated, superseded by operation {second} of ann on ci-1");
    assert!(view.message.starts_with(&words), "{}", view.message);
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    in_order(&cluster.sim, first, second);
    let lease = lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
    assert_eq!(lease.annotation("tidegate.dev/end-wanted-by"), None);
}

/// Whoever wanted the end of another operation and is over itself wants it no more.
#[tokio::test(start_paused = true)]
async fn an_operation_that_is_ended_takes_its_wish_for_the_end_of_another_back() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let first = one.begin_slow().await;
    // It sleeps, so it does not hear of the wish.
    one.engine.shutdown().await;
    let second = submit(&two.engine, &slow(IfTaken::Supersede)).await;
    let wanted = || async {
        let lease = lease(&cluster.sim, "default", "tidegate-shop").await.unwrap();
        lease.annotation("tidegate.dev/end-wanted-by").map(str::to_owned)
    };
    while wanted().await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(wanted().await, Some(second.to_string()));
    two.engine.terminate(second, "ann").await.unwrap();
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Failed);
    assert_eq!(wanted().await, None);
    let one = one.again().await;
    one.engine.resume(first).await.unwrap();
    let view = end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_operation_still_has_its_claim() {
    let cluster = Moody::calm();
    let one = Runner::at(&cluster).await;
    let first = one.begin_slow().await;
    one.engine.shutdown().await;
    let two = Runner::at(&cluster).await;
    let second = submit(&two.engine, &slow(IfTaken::Queue)).await;
    until(&two.engine, second, |view, _| standing(view) == ClaimStanding::Awaited).await;
    let one = one.again().await;
    one.engine.resume(first).await.unwrap();
    let view = end(&one.engine, first).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    in_order(&cluster.sim, first, second);
    assert_eq!(cluster.created("migrate"), 2, "once for each");
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_dead_operation_runs_out_and_is_not_had_back() {
    for if_taken in [IfTaken::Refuse, IfTaken::Queue, IfTaken::Supersede] {
        let cluster = Moody::calm();
        let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
        let first = one.begin_slow().await;
        one.engine.shutdown().await;
        let began = Instant::now();
        let quick = claiming(&config("c", 0, &[]), if_taken);
        let second = submit(&two.engine, &quick).await;
        let view = end(&two.engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{if_taken:?}: {}", view.message);
        assert!(began.elapsed() >= CLAIM_LASTS, "{:?}", began.elapsed());
        let before = writes(&cluster.sim, first).len();
        let one = one.again().await;
        one.engine.resume(first).await.unwrap();
        let view = end(&one.engine, first).await;
        assert_eq!((view.phase, standing(&view)), (OperationPhase::Error, ClaimStanding::Lost));
        assert!(view.message.contains("begin anew"), "{}", view.message);
        assert_eq!(writes(&cluster.sim, first).len(), before, "written without a claim");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_ran_out_and_was_not_wanted_is_had_back() {
    let cluster = Moody::calm();
    let one = Runner::at(&cluster).await;
    let first = one.begin_slow().await;
    one.engine.shutdown().await;
    tokio::time::sleep(CLAIM_LASTS * 10).await;
    let one = one.again().await;
    one.engine.resume(first).await.unwrap();
    assert_eq!(end(&one.engine, first).await.phase, OperationPhase::Succeeded);
}

/// A process that stands still for longer than its claim lasts, or cannot renew it, while everything else works.
#[tokio::test(start_paused = true)]
async fn an_operation_that_cannot_renew_its_claim_stops_writing_before_another_begins() {
    let calm = Moody::calm();
    let cut = Arc::new(AtomicBool::new(false));
    let cluster = Moody::on(calm.sim.clone(), {
        let cut = Arc::clone(&cut);
        move |verb, name| {
            let lease = name == "tidegate-shop" && ["get", "put"].contains(&verb);
            if lease && cut.load(Ordering::SeqCst) {
                Fate::Refuse(ErrorKind::Unavailable)
            } else {
                Fate::Answer
            }
        }
    });
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&calm).await);
    // A hook of ten seconds in each of many waves.
    let waves: String = (0..40)
        .map(|wave| config(&format!("c{wave}"), wave, &[]) + &slow_server(&format!("s{wave}"), wave))
        .collect();
    let first = submit(&one.engine, &claiming(&waves, IfTaken::Refuse)).await;
    while calm.created("c1") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cut.store(true, Ordering::SeqCst);
    let second = submit(&two.engine, &claiming(&config("other", 0, &[]), IfTaken::Queue)).await;
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    in_order(&calm.sim, first, second);
    let before = writes(&calm.sim, first).len();
    assert!(before < 70, "it was to be in the middle: {before}");
    cut.store(false, Ordering::SeqCst);
    let view = end(&one.engine, first).await;
    assert_eq!(
        (view.phase, standing(&view)),
        (OperationPhase::Error, ClaimStanding::Lost),
        "{}",
        view.message
    );
    assert_eq!(writes(&calm.sim, first).len(), before, "written without a claim");
}

fn slow_server(name: &str, wave: i64) -> String {
    crate::support::server(name, wave, &[("sim.tidegate.dev/ready-after", "4s")])
}

#[tokio::test(start_paused = true)]
async fn without_the_rights_an_operation_goes_on_and_warns() {
    for verb in ["get", "put"] {
        let cluster = Moody::new(SimConfig::default(), move |asked, name| {
            let is_it = name.starts_with("tidegate-shop") && asked == verb;
            if is_it { Fate::Refuse(ErrorKind::Forbidden) } else { Fate::Answer }
        });
        let one = Runner::at(&cluster).await;
        let id = submit(&one.engine, &slow(IfTaken::Refuse)).await;
        let view = end(&one.engine, id).await;
        assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Unavailable));
        assert!(
            view.warnings.iter().any(|warning| warning.code == "no-claim"),
            "{verb}: {:?}",
            view.warnings
        );
    }
}

/// A Lease that cannot be renewed or given back would only keep the next operations waiting.
#[tokio::test(start_paused = true)]
async fn a_claim_that_could_not_be_renewed_is_not_taken() {
    let cluster = Moody::lacking(&["update"]);
    for _ in 0..2 {
        let one = Runner::at(&cluster).await;
        let began = Instant::now();
        let id = submit(&one.engine, &claiming(&hook("migrate", "PreSync", &[]), IfTaken::Refuse)).await;
        let view = end(&one.engine, id).await;
        assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Unavailable));
        assert!(began.elapsed() < CLAIM_LASTS / 2, "it waited: {:?}", began.elapsed());
        let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
        assert!(
            warning.message.contains("missing: update Lease in namespace default"),
            "{}",
            warning.message
        );
        assert_eq!(lease(&cluster.sim, "default", "tidegate-shop").await, None);
    }
}

/// Who may look at a Lease, and not write it.
fn reader(sim: &SimCluster) -> Arc<Moody> {
    let poor = Moody::on(sim.clone(), |verb, name| match (verb, name) {
        ("put", "tidegate-shop") => Fate::Refuse(ErrorKind::Forbidden),
        _ => Fate::Answer,
    });
    poor.but_lacking(&["update"])
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_is_respected_by_whoever_may_only_read_it() {
    for if_taken in [IfTaken::Refuse, IfTaken::Queue, IfTaken::Supersede] {
        let cluster = Moody::calm();
        let (one, two) = (Runner::at(&cluster).await, Runner::at(&reader(&cluster.sim)).await);
        let first = one.begin_slow().await;
        let second = submit(&two.engine, &claiming(&config("other", 0, &[]), if_taken)).await;
        let view = end(&two.engine, second).await;
        if if_taken == IfTaken::Refuse {
            assert_eq!(standing(&view), ClaimStanding::Refused, "{}", view.message);
            continue;
        }
        assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Unavailable));
        assert_eq!(end(&one.engine, first).await.phase, OperationPhase::Succeeded);
        in_order(&cluster.sim, first, second);
    }
}

/// A cluster that forbids to write a Lease while it is told to.
fn forbidding(calm: &Arc<Moody>, forbids: &Arc<AtomicBool>) -> Arc<Moody> {
    let forbids = Arc::clone(forbids);
    Moody::on(calm.sim.clone(), move |verb, name| {
        let is_it = verb == "put" && name == "tidegate-shop" && forbids.load(Ordering::SeqCst);
        if is_it { Fate::Refuse(ErrorKind::Forbidden) } else { Fate::Answer }
    })
}

fn many_waves() -> Sync {
    let waves: String = (0..40).map(|wave| slow_server(&format!("s{wave}"), wave)).collect();
    claiming(&waves, IfTaken::Refuse)
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_may_not_renew_its_claim_ends_when_another_takes_it() {
    for restarts in [false, true] {
        let calm = Moody::calm();
        let forbids = Arc::new(AtomicBool::new(false));
        let mut one = Runner::at(&forbidding(&calm, &forbids)).await;
        let first = submit(&one.engine, &many_waves()).await;
        while calm.created("s0") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        forbids.store(true, Ordering::SeqCst);
        until(&one.engine, first, |view, _| standing(view) == ClaimStanding::Unavailable).await;
        let (view, _) = one.engine.inspect(first).await.unwrap();
        let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
        assert!(
            warning.message.contains("Lease default/tidegate-shop cannot be renewed"),
            "{}",
            warning.message
        );
        if restarts {
            one.engine.shutdown().await;
            one = one.again().await;
            one.engine.resume(first).await.unwrap();
        }
        let two = Runner::at(&calm).await;
        let second = submit(&two.engine, &claiming(&config("other", 0, &[]), IfTaken::Queue)).await;
        let other = end(&two.engine, second).await;
        assert_eq!(other.phase, OperationPhase::Succeeded, "{}", other.message);
        let view = end(&one.engine, first).await;
        let ended = (view.phase, standing(&view));
        assert_eq!(ended, (OperationPhase::Error, ClaimStanding::Lost), "{}", view.message);
        assert!(view.message.contains("begin anew"), "{}", view.message);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_may_renew_its_claim_again_has_it_again() {
    let calm = Moody::calm();
    let forbids = Arc::new(AtomicBool::new(false));
    let one = Runner::at(&forbidding(&calm, &forbids)).await;
    let first = submit(&one.engine, &many_waves()).await;
    until(&one.engine, first, |view, _| standing(view) == ClaimStanding::Held).await;
    forbids.store(true, Ordering::SeqCst);
    until(&one.engine, first, |view, _| standing(view) == ClaimStanding::Unavailable).await;
    forbids.store(false, Ordering::SeqCst);
    until(&one.engine, first, |view, _| standing(view) == ClaimStanding::Held).await;
    let view = end(&one.engine, first).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Released));
    assert_eq!(view.warnings, []);
}

/// The namespace comes with the first operation, so its claim is elsewhere. Whoever comes when the namespace is there
/// finds it all the same.
#[tokio::test(start_paused = true)]
async fn an_operation_that_brings_its_namespace_is_found_by_the_next() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let brings = |if_taken| {
        slow(if_taken).with(|request| {
            request.namespace = "fresh".into();
            request.options.flags = vec!["CreateNamespace=true".into()];
        })
    };
    let first = submit(&one.engine, &brings(IfTaken::Refuse)).await;
    while cluster.created("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(lease(&cluster.sim, "fresh", "tidegate-shop").await, None);
    let refused = submit(&two.engine, &brings(IfTaken::Refuse)).await;
    let view = end(&two.engine, refused).await;
    assert_eq!(standing(&view), ClaimStanding::Refused, "{}", view.message);
    assert!(writes(&cluster.sim, refused).is_empty());
    let second = submit(&two.engine, &brings(IfTaken::Queue)).await;
    assert_eq!(end(&two.engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(end(&one.engine, first).await.phase, OperationPhase::Succeeded);
    in_order(&cluster.sim, first, second);
    assert_eq!(lease(&cluster.sim, "fresh", "tidegate-shop").await.unwrap().text("/spec/holderIdentity"), "");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_for_claims_that_is_not_there_is_an_error() {
    let cluster = Moody::calm();
    let one = Runner::at(&cluster).await;
    let claim = ClaimRequest { namespace: Some("ops".into()), if_taken: IfTaken::Refuse };
    let sync = slow(IfTaken::Refuse).with(|request| request.claim = Some(claim));
    let id = submit(&one.engine, &sync).await;
    let view = end(&one.engine, id).await;
    assert_eq!(view.phase, OperationPhase::Error);
    assert!(view.message.starts_with("failed to take the claim: "), "{}", view.message);
    assert!(writes(&cluster.sim, id).is_empty());
}

/// A namespace that is being deleted, and that something in it keeps.
fn stuck_namespace(sim: &SimCluster, name: &str) {
    let apply = |manifest: serde_json::Value| {
        sim.apply(write(Object::try_from(manifest).unwrap())).now_or_never().unwrap().unwrap();
    };
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": name, "finalizers": ["x.io/y"]}}));
    delete_namespace(sim, name);
}

/// Its objects are elsewhere, so that only the claim is in the way.
fn claiming_in(namespace: &str) -> Sync {
    let here = |text: String| text.replace("metadata:", "metadata:\n  namespace: default");
    let manifests = format!("{}{}", hook("migrate", "PreSync", &[SLOW]), config("c", 0, &[]));
    claiming(&here(manifests), IfTaken::Refuse).with(|request| request.namespace = namespace.into())
}

/// A namespace that goes cannot have a Lease, so the claim is kept where it is for a namespace that is not there.
#[tokio::test(start_paused = true)]
async fn the_claim_on_an_application_in_a_namespace_that_goes_is_kept_aside() {
    let cluster = Moody::calm();
    stuck_namespace(&cluster.sim, "team");
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let first = submit(&one.engine, &claiming_in("team")).await;
    while cluster.created("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = submit(&two.engine, &claiming_in("team")).await;
    let view = end(&two.engine, refused).await;
    assert_eq!(standing(&view), ClaimStanding::Refused, "{}", view.message);
    let view = end(&one.engine, first).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Released));
    assert_eq!(view.warnings, []);
    let lease = view.claim.unwrap().lease.unwrap();
    assert!(lease.starts_with("default/tidegate-shop-"), "{lease}");
}

/// It begins to go while the operation holds its claim there.
#[tokio::test(start_paused = true)]
async fn a_claim_is_moved_aside_when_its_namespace_goes() {
    let cluster = Moody::calm();
    let (one, two) = (Runner::at(&cluster).await, Runner::at(&cluster).await);
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.sim.apply(write(Object::try_from(team).unwrap())).await.unwrap();
    let first = submit(&one.engine, &claiming_in("team")).await;
    while cluster.created("migrate") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(lease(&cluster.sim, "team", "tidegate-shop").await.is_some());
    delete_namespace(&cluster.sim, "team");
    tokio::time::sleep(CLAIM_RENEWED_EVERY * 2).await;
    let refused = submit(&two.engine, &claiming_in("team")).await;
    let view = end(&two.engine, refused).await;
    assert_eq!(standing(&view), ClaimStanding::Refused, "{}", view.message);
    let view = end(&one.engine, first).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Released));
    assert_eq!(view.warnings, []);
    assert!(view.claim.unwrap().lease.unwrap().starts_with("default/tidegate-shop-"));
}

/// Rights would help nobody who has no claim because his namespace goes, except those for the place aside.
#[tokio::test(start_paused = true)]
async fn without_a_claim_the_warning_names_the_namespace_that_goes() {
    let cluster = Moody::new(SimConfig::default(), |verb, name| {
        let is_aside = verb == "put" && name.starts_with("tidegate-shop-");
        if is_aside { Fate::Refuse(ErrorKind::Forbidden) } else { Fate::Answer }
    });
    stuck_namespace(&cluster.sim, "team");
    let one = Runner::at(&cluster).await;
    let id = submit(&one.engine, &claiming_in("team")).await;
    let view = end(&one.engine, id).await;
    assert_eq!((view.phase, standing(&view)), (OperationPhase::Succeeded, ClaimStanding::Unavailable));
    let message = &view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap().message;
    for words in
        ["the namespace of its Lease is being deleted", "team because it is being terminated", "default"]
    {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(!message.contains("give the rights"), "{message}");
}

/// Every so often a look at the claim of a dead operation fails. It has run out all the same when it was watched for as long
/// as it lasts, and failures that passed are not added up.
#[tokio::test(start_paused = true)]
async fn a_wait_for_the_claim_of_the_dead_is_one_wait_whatever_looks_fail() {
    for kind in [ErrorKind::Server, ErrorKind::Unavailable] {
        let looks = Arc::new(AtomicUsize::new(0));
        let two = Moody::new(SimConfig::default(), {
            let looks = Arc::clone(&looks);
            move |verb, name| {
                let is_look = verb == "get" && name == "tidegate-shop";
                let fails = is_look && looks.fetch_add(1, Ordering::SeqCst) % 4 == 3;
                if fails { Fate::Refuse(kind) } else { Fate::Answer }
            }
        });
        let holder = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "tidegate-shop", "namespace": "default", "annotations": {"tidegate.dev/application": "shop"}},
            "spec": {"holderIdentity": "019a0000-0000-7000-8000-000000000001", "leaseDurationSeconds": 30, "leaseTransitions": 1,
                     "renewTime": "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.000000Z"},
        });
        two.sim.apply(write(Object::try_from(holder).unwrap())).now_or_never().unwrap().unwrap();
        let runner = Runner::at(&two).await;
        let began = Instant::now();
        let id = submit(&runner.engine, &claiming(&config("c", 0, &[]), IfTaken::Queue)).await;
        let view = end(&runner.engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind:?}: {}", view.message);
        assert!(began.elapsed() >= CLAIM_LASTS, "{kind:?}: {:?}", began.elapsed());
        assert!(began.elapsed() <= CLAIM_LASTS * 3 / 2, "{kind:?}: {:?}", began.elapsed());
        assert!(looks.load(Ordering::SeqCst) > 10, "{kind:?}");
    }
}
