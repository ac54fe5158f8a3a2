//! Operations of one application from several state directories on one cluster, from one seed: claims that are waited for,
//! refused and taken from the dead, hooks with the same names, processes that die at any append or call, a faulty cluster.
//!
//! The engine is the real one, on virtual time. Everything is drawn before it begins, for each directory on its own, so the
//! same seed plays the same operations, kills and waits. What must hold is read from the audit log of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{AuditEntry, Clock, Faults, SimCluster, SimConfig};
use tidegate_executor::{Engine, EngineError, RuntimeClock};
use tidegate_lifecycle::operation::{ClaimStanding, OperationView};
use tidegate_model::{ClaimRequest, Destination, IfTaken, OperationId, OperationPhase};
use tidegate_oplog::MemoryLog;
use tokio::time::Instant;
use uuid::Uuid;

use super::rng::Rng;
use crate::crash::{CrashCluster, CrashLog, Points};
use crate::process::START;
use crate::recorded::Recorded as _;
use crate::scenario::Sync;

/// Longest virtual time of a play; reaching it means that somebody waits for ever.
const PATIENCE: Duration = Duration::from_secs(100_000);

/// What a play was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RivalReport {
    /// Times a process died.
    pub kills: u64,
    /// How many operations ended how: by phase, and how the claim stood.
    pub ends: BTreeMap<String, u64>,
    /// How often one operation wrote after another.
    pub changes: u64,
}

/// One operation of a directory.
struct Plan {
    id: OperationId,
    sync: Sync,
    /// How long after the one before.
    after: Duration,
    /// At which point each of its processes dies, and how long the directory then lies there. The last one lives.
    deaths: Vec<(u64, Duration)>,
}

/// A state directory: its operations come one after the other.
struct Directory {
    plans: Vec<Plan>,
}

/// How an operation ended.
struct Ended {
    view: OperationView,
    kills: u64,
}

/// Plays one seed. Panics when a rule is broken.
pub fn rivals(seed: u64, trace: bool) -> RivalReport {
    let mut rng = Rng::new(seed);
    let percent = f64::from(u32::try_from(rng.pick(&[0, 0, 1, 4])).unwrap());
    let config = SimConfig {
        latency: Duration::from_millis(rng.pick(&[0, 5, 150])),
        ..SimConfig::default().with_seed(seed).with_faults(Faults::everything(percent / 100.0))
    };
    let directories: Vec<Directory> =
        (1..=2 + rng.below(2)).map(|number| directory(&mut rng, number)).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (ends, audit) = runtime.block_on(async {
        let cluster = Arc::new(SimCluster::in_memory(config, Clock::tokio(START)));
        let clock = RuntimeClock::starting_at(START);
        let playing = directories
            .into_iter()
            .map(|directory| tokio::spawn(live(directory, Arc::clone(&cluster), clock, trace)));
        let mut ends = Vec::new();
        for directory in playing.collect::<Vec<_>>() {
            let ended = tokio::time::timeout(PATIENCE, directory).await.expect("somebody waits for ever");
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
    let mut report = RivalReport { changes: one_after_the_other(&writes), ..RivalReport::default() };
    for Ended { view, kills } in &ends {
        hooks_once(view, &writes);
        report.kills += kills;
        let claim = view.claim.as_ref().map(|claim| claim.state);
        let why = if view.message.contains("superseded") { " superseded" } else { "" };
        *report.ends.entry(format!("{} {claim:?}{why}", view.phase)).or_default() += 1;
    }
    report
}

fn directory(rng: &mut Rng, number: u64) -> Directory {
    let mut plan = |operation: u64| Plan {
        id: OperationId(Uuid::from_u128(u128::from(number * 1000 + operation))),
        sync: sync(rng),
        after: Duration::from_secs(rng.below(40)),
        deaths: (0..rng.pick(&[0, 0, 1, 1, 2, 3]))
            .map(|_| (1 + rng.below(120), Duration::from_secs(rng.pick(&[0, 1, 10, 25, 45, 200]))))
            .collect(),
    };
    Directory { plans: (1..=3).map(&mut plan).collect() }
}

/// Hooks of all phases, whose names all operations share, and resources of two waves.
fn sync(rng: &mut Rng) -> Sync {
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
    let if_taken = rng.pick(&[IfTaken::Refuse, IfTaken::Queue, IfTaken::Queue, IfTaken::Supersede]);
    let limit = rng.pick(&[0, 0, 1]);
    Sync::of(&yaml).with(|request| {
        request.claim = Some(ClaimRequest { namespace: None, if_taken });
        request.deadline = Some(Duration::from_secs(7200));
        request.retry.limit = limit;
    })
}

/// Everything that happens in one directory.
async fn live(
    directory: Directory,
    cluster: Arc<SimCluster>,
    clock: RuntimeClock,
    trace: bool,
) -> Vec<Ended> {
    let began = Instant::now();
    let mut log = MemoryLog::new();
    let mut ends = Vec::new();
    for Plan { id, sync, after, deaths } in directory.plans {
        tokio::time::sleep(after).await;
        let mut kills = 0;
        let mut deaths = deaths.into_iter();
        let view = loop {
            let (dies_at, away) = deaths.next().unwrap_or_default();
            let points = Points::dying_at(dies_at);
            if trace {
                println!("{:?} {id}: a process that dies at {dies_at}", began.elapsed());
            }
            let ended = tokio::select! {
                biased;
                () = points.death() => None,
                ended = process(&cluster, &log, clock, &points, (id, &sync)) => match ended {
                    Ok(view) => Some(view),
                    Err(_) if points.is_dead() => None,
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
        ends.push(Ended { view, kills });
    }
    ends
}

/// One process: begins the operation or goes on with it, until it is over.
async fn process(
    cluster: &Arc<SimCluster>,
    log: &MemoryLog,
    clock: RuntimeClock,
    points: &Arc<Points>,
    (id, sync): (OperationId, &Sync),
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

/// Once another operation has written, one that wrote before never writes again. Counts the changes.
fn one_after_the_other(writes: &[AuditEntry]) -> u64 {
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

/// Each hook is created once per phase and attempt: by one that succeeded exactly so often.
fn hooks_once(view: &OperationView, writes: &[AuditEntry]) {
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
        assert_eq!(
            view.claim.as_ref().map(|claim| claim.state),
            Some(ClaimStanding::Released),
            "{}",
            view.id
        );
        for hook in view.resources.iter().filter(|resource| resource.hook_type.is_some()) {
            let times = created(&hook.name);
            // An attempt after the first creates again what has failed, and nothing else.
            assert!((1..=attempts).contains(&times), "hook {} of {}: {times} times", hook.name, view.id);
        }
    }
}
