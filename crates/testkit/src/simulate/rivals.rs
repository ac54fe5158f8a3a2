//! Simulation of operations for the same application from several state directories on the same cluster, all
//! from a single seed. It covers waiting for a claim, rejected claims, and claims taken over after crashes.
//! It also covers hooks with the same names, crashes at any append or call, and a faulty cluster.
//!
//! The engine is the real one, in virtual time. All random values are drawn up front, separately for each
//! directory, so that the same seed repeats the same operations, crashes and waits. The invariants are
//! checked against the cluster's audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{AuditEntry, Clock, Faults, SimCluster, SimConfig};
use tidegate_executor::{Engine, EngineError, RuntimeClock};
use tidegate_lifecycle::operation::{ClaimStatus, OperationView};
use tidegate_model::{ClaimConflictPolicy, ClaimRequest, Destination, OperationId, OperationPhase};
use tidegate_oplog::MemoryLog;
use tokio::time::Instant;
use uuid::Uuid;

use super::rng::Rng;
use crate::crash::{CrashCluster, CrashLog, CrashPoints};
use crate::operation_events::OperationEvents as _;
use crate::process::START;
use crate::scenario::SyncSpec;

/// Maximum virtual time of a run. After that, it is waiting forever.
const RUN_TIMEOUT: Duration = Duration::from_secs(100_000);

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RivalReport {
    /// Number of crashes.
    pub kills: u64,
    /// Number of operations by phase and state of the claim.
    pub ends: BTreeMap<String, u64>,
    /// Number of times that the writing operation changed.
    pub handovers: u64,
}

/// An operation in a state directory.
struct PlannedOperation {
    id: OperationId,
    sync: SyncSpec,
    /// Delay between the end of the previous operation and the start of this one.
    after: Duration,
    /// Crash point of each process of the operation, and the directory's downtime after it. One more process
    /// follows, without a crash.
    crashes: Vec<(u64, Duration)>,
}

/// State directory with its successive operations.
struct Directory {
    plans: Vec<PlannedOperation>,
}

/// Result of an operation.
struct OperationEnd {
    view: OperationView,
    kills: u64,
}

/// Runs the simulation for a seed. Panics if an invariant is violated.
pub fn simulate_rivals(seed: u64, trace: bool) -> RivalReport {
    let mut rng = Rng::new(seed);
    let percent = f64::from(u32::try_from(rng.pick(&[0, 0, 1, 4])).unwrap());
    let config = SimConfig {
        latency: Duration::from_millis(rng.pick(&[0, 5, 150])),
        ..SimConfig::default().with_seed(seed).with_faults(Faults::uniform(percent / 100.0))
    };
    let directories: Vec<Directory> =
        (1..=2 + rng.below(2)).map(|number| draw_directory(&mut rng, number)).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (ends, audit) = runtime.block_on(async {
        let cluster = Arc::new(SimCluster::in_memory(config, Clock::tokio(START)));
        let clock = RuntimeClock::starting_at(START);
        let playing = directories
            .into_iter()
            .map(|directory| tokio::spawn(run_directory(directory, Arc::clone(&cluster), clock, trace)));
        let mut ends = Vec::new();
        for directory in playing.collect::<Vec<_>>() {
            let ended =
                tokio::time::timeout(RUN_TIMEOUT, directory).await.expect("an operation waits forever");
            ends.extend(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())));
        }
        (ends, cluster.audit())
    });
    runtime.shutdown_background();
    let writes: Vec<AuditEntry> = audit.into_iter().filter(is_write).collect();
    if trace {
        for AuditEntry { sequence, verb, kind, name, code, operation_id, .. } in &writes {
            println!("{sequence} {verb:?} {kind} {name} {code} {operation_id:?}");
        }
    }
    let mut report = RivalReport { handovers: check_no_interleaving(&writes), ..RivalReport::default() };
    for OperationEnd { view, kills } in &ends {
        check_hooks_run_once(view, &writes);
        report.kills += kills;
        let claim = view.claim.as_ref().map(|claim| claim.state);
        let reason = if view.message.contains("superseded") { " superseded" } else { "" };
        *report.ends.entry(format!("{} {claim:?}{reason}", view.phase)).or_default() += 1;
    }
    report
}

fn draw_directory(rng: &mut Rng, number: u64) -> Directory {
    let mut plan = |operation: u64| PlannedOperation {
        id: OperationId(Uuid::from_u128(u128::from(number * 1000 + operation))),
        sync: draw_sync(rng),
        after: Duration::from_secs(rng.below(40)),
        crashes: (0..rng.pick(&[0, 0, 1, 1, 2, 3]))
            .map(|_| (1 + rng.below(120), Duration::from_secs(rng.pick(&[0, 1, 10, 25, 45, 200]))))
            .collect(),
    };
    Directory { plans: (1..=3).map(&mut plan).collect() }
}

/// Returns a sync with hooks in all phases and resources in two waves. All operations use the same hook
/// names.
fn draw_sync(rng: &mut Rng) -> SyncSpec {
    let mut yaml = String::new();
    for (name, phase) in [("migrate", "PreSync"), ("seed", "Sync"), ("smoke", "PostSync")] {
        if rng.percent(70) {
            let policy = rng.pick(&[
                "BeforeHookCreation",
                "BeforeHookCreation,HookSucceeded",
                "BeforeHookCreation,HookFailed",
            ]);
            let outcome = if rng.percent(10) { "    sim.tidegate.dev/outcome: fail\n" } else { "" };
            let takes = rng.pick(&[1, 5, 30]);
            writeln!(
                yaml,
                "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    argocd.argoproj.io/hook: {phase}\n    \
                 argocd.argoproj.io/hook-delete-policy: {policy:?}\n    sim.tidegate.dev/ready-after: {takes}s\n{outcome}spec:\n  backoffLimit: 0\n  template:\n    \
                 spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}\n---"
            )
            .unwrap();
        }
    }
    for wave in 0..2 {
        let value = rng.below(5);
        writeln!(
            yaml,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-{wave}\n  annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\n\
             data: {{value: \"{value}\"}}\n---"
        )
        .unwrap();
    }
    let if_taken = rng.pick(&[
        ClaimConflictPolicy::Refuse,
        ClaimConflictPolicy::Queue,
        ClaimConflictPolicy::Queue,
        ClaimConflictPolicy::Supersede,
    ]);
    let limit = rng.pick(&[0, 0, 1]);
    SyncSpec::new(&yaml).with_request(|request| {
        request.claim = Some(ClaimRequest { namespace: None, if_taken });
        request.deadline = Some(Duration::from_secs(7200));
        request.retry.limit = limit;
    })
}

/// Runs all operations of one state directory.
async fn run_directory(
    directory: Directory,
    cluster: Arc<SimCluster>,
    clock: RuntimeClock,
    trace: bool,
) -> Vec<OperationEnd> {
    let began = Instant::now();
    let mut log = MemoryLog::new();
    let mut ends = Vec::new();
    for PlannedOperation { id, sync, after, crashes } in directory.plans {
        tokio::time::sleep(after).await;
        let mut kills = 0;
        let mut deaths = crashes.into_iter();
        let view = loop {
            let (dies_at, away) = deaths.next().unwrap_or_default();
            let points = CrashPoints::crash_at(dies_at);
            if trace {
                println!("{:?} {id}: crash at {dies_at}", began.elapsed());
            }
            let ended = tokio::select! {
                biased;
                () = points.wait_for_crash() => None,
                ended = run_process(&cluster, &log, clock, &points, id, &sync) => match ended {
                    Ok(view) => Some(view),
                    Err(_) if points.has_crashed() => None,
                    Err(error) => panic!("{id}: {error}"),
                },
            };
            log = log.reopen();
            if let Some(view) = ended {
                break view;
            }
            kills += 1;
            tokio::time::sleep(away).await;
        };
        if trace {
            println!("{:?} {id}: {} {}", began.elapsed(), view.phase, view.message);
        }
        ends.push(OperationEnd { view, kills });
    }
    ends
}

/// Runs a process that starts or continues the operation until it has finished.
async fn run_process(
    cluster: &Arc<SimCluster>,
    log: &MemoryLog,
    clock: RuntimeClock,
    points: &Arc<CrashPoints>,
    id: OperationId,
    sync: &SyncSpec,
) -> Result<OperationView, EngineError> {
    let inner = Arc::clone(cluster) as Arc<dyn Cluster>;
    let engine = Engine::builder(Arc::new(CrashLog { inner: log.clone(), points: Arc::clone(points) }))
        .cluster(Destination::Simulated, Arc::new(CrashCluster { inner, points: Arc::clone(points) }))
        .clock(Arc::new(clock))
        .start()
        .await?;
    let known = log.summaries()?.into_iter().find(|summary| summary.operation == id);
    if known.is_some_and(|summary| summary.finished_at.is_some()) {
        return Ok(engine.inspect(id).await?.0);
    }
    engine.ensure(id, sync.request.clone(), sync.targets()).await?;
    let view = engine.wait(id).await?;
    engine.shutdown().await;
    Ok(view)
}

fn is_write(entry: &AuditEntry) -> bool {
    entry.operation_id.is_some() && entry.kind != "Lease" && !entry.dry_run && entry.code < 300
}

/// Checks that an operation never writes again after another operation has written. Returns the number of
/// changes of the writing operation.
fn check_no_interleaving(writes: &[AuditEntry]) -> u64 {
    let (mut changes, mut now) = (0, None);
    let mut past = BTreeSet::new();
    for entry in writes {
        let who = entry.operation_id;
        if now == who {
            continue;
        }
        assert!(past.insert(who), "two operations act at the same time: {entry:?}\n{writes:#?}");
        changes += u64::from(now.is_some());
        now = who;
    }
    changes
}

/// Checks that each hook is created once per phase and attempt, and exactly once in an attempt that succeeds.
fn check_hooks_run_once(view: &OperationView, writes: &[AuditEntry]) {
    let attempts = usize::try_from(view.retry_count).unwrap() + 1;
    let created = |name: &str| {
        let own = writes.iter().filter(|entry| entry.operation_id == Some(view.id));
        own.filter(|entry| entry.kind == "Job" && entry.name == name && entry.code == 201).count()
    };
    for name in ["migrate", "seed", "smoke"] {
        let times = created(name);
        assert!(
            times <= attempts,
            "hook {name} of {} was created {times} times in {attempts} attempts",
            view.id
        );
    }
    if view.phase == OperationPhase::Succeeded {
        assert_eq!(view.claim.as_ref().map(|claim| claim.state), Some(ClaimStatus::Released), "{}", view.id);
        for hook in view.resources.iter().filter(|resource| resource.hook_type.is_some()) {
            let times = created(&hook.name);
            // Later attempts create only the failed hooks again.
            assert!((1..=attempts).contains(&times), "hook {} of {}: {times} times", hook.name, view.id);
        }
    }
}
