//! Crashes at every point. Each golden operation runs once per crash point, and again with a second crash
//! during the recovery. The quick form uses every eighth point. The cluster must receive the same writes in
//! the same order. Every hook must be created exactly once, no object may be deleted twice, and the operation
//! must end the same way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::sync::Arc;
use tidegate_cluster::sim::SimConfig;

use tidegate_executor::EngineError;
use tidegate_executor::effects::cluster_identity;
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::{ClaimRequest, OperationId, OperationPhase};
use tidegate_oplog::{ApplicationInventory, Blobs as _, Inventories as _};
use tidegate_testkit::chain;
use tidegate_testkit::crash::CrashPoints;
use tidegate_testkit::effort;
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::{ProcessEnd, World};
use tidegate_testkit::scenario::{self, Scenario, SyncSpec};
use tidegate_testkit::simulate::inventory_is_complete;
use tidegate_testkit::witness::{Witness, collect_witness};
use uuid::Uuid;

/// Runs a scenario with processes that crash at the given crash points, one after another; 0 means no crash.
/// The next operation reads the resulting log.
fn run(scenario: &Scenario, deaths: &[u64]) -> (Witness, Option<ApplicationInventory>, u64, u64) {
    let mut wrong = Vec::new();
    let run = run_and_check(scenario, deaths, |_, _| None, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    run
}

/// Runs a scenario like [`run`], and then inspects the world.
fn run_and_check(
    scenario: &Scenario,
    deaths: &[u64],
    check: impl Fn(&World, OperationId) -> Option<String>,
    wrong: &mut Vec<String>,
) -> (Witness, Option<ApplicationInventory>, u64, u64) {
    let mut world = World::new(SimConfig::default());
    for sync in &scenario.setup_syncs {
        world.run(sync);
    }
    world.next_operation();
    let operation = OperationId(Uuid::from_u128(u128::try_from(scenario.setup_syncs.len()).unwrap() + 1));
    let mut script = scenario.actions.clone();
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = CrashPoints::crash_at(deaths.next().unwrap_or(0));
        match world.run_process(&scenario.sync, &mut script, &points) {
            ProcessEnd::Finished(view) => {
                let request = &scenario.sync.request;
                let (cluster, application) = (cluster_identity(&request.destination), &request.application);
                let known = world.log.inventory(&cluster.unwrap(), application).unwrap();
                if let Some(known) = &known {
                    inventory_is_complete(&world.cluster, application, known);
                }
                // Crashes must not cause gaps or repetitions in the event numbers.
                let told_wrongly = world.find_event_error(operation);
                wrong.extend(
                    check(&world, operation)
                        .or(told_wrongly)
                        .map(|reason| format!("{} dying at {:?}: {reason}", scenario.name, points.passed())),
                );
                return (collect_witness(&world.cluster, operation, &view), known, points.passed(), died);
            }
            ProcessEnd::Crashed => died += 1,
        }
    }
}

/// Describes a failed comparison.
fn difference(expected: &Witness, found: &Witness) -> Option<String> {
    macro_rules! compare {
        ($($field:ident),*) => {
            $(if expected.$field != found.$field {
                return Some(format!(concat!(stringify!($field), " differ\nexpected {:#?}\nfound    {:#?}"), expected.$field, found.$field));
            })*
        };
    }
    compare!(creations, deletions, order, objects, phase, message, results);
    None
}

/// Interval of crash points with a crash during the recovery too, in the quick form.
const QUICK_RECOVERY_INTERVAL: u64 = 8;

/// Runs a golden operation with a crash at every point. Returns the number of crashes, and the errors.
fn crash_at_every_point(scenario: &Scenario) -> (u64, Vec<String>) {
    let (mut tried, mut wrong) = (0_u64, Vec::new());
    let (expected, inventory, points, _) = run(scenario, &[]);
    let mut try_deaths = |deaths: &[u64]| {
        let (found, known, points, died) = run(scenario, deaths);
        tried += died;
        if known != inventory {
            wrong.push(format!(
                "{} dying at {deaths:?}: inventory {known:?} instead of {inventory:?}",
                scenario.name
            ));
        }
        if let Some(difference) = difference(&expected, &found) {
            wrong.push(format!("{} dying at {deaths:?}: {difference}", scenario.name));
        }
        points
    };
    for point in 1..=points {
        let recovery = try_deaths(&[point]);
        if effort::is_long() || point % QUICK_RECOVERY_INTERVAL == 0 {
            // The recovery crashes as well, at a point that differs between runs.
            let second = point * 7 % recovery.max(1) + 1;
            try_deaths(&[point, second]);
            try_deaths(&[point, 1, second]);
        }
    }
    (tried, wrong)
}

#[test]
fn a_crash_at_any_point_changes_nothing() {
    let only = std::env::var("TIDEGATE_CRASH_SCENARIO").ok();
    let mut scenarios = scenario::all();
    scenarios.retain(|one| only.as_deref().is_none_or(|only| only == one.name));
    let (mut tried, mut wrong) = (0, Vec::new());
    for (deaths, differences) in effort::on_all_cores(&scenarios, crash_at_every_point) {
        tried += deaths;
        wrong.extend(differences);
    }
    println!("{tried} crash points tried");
    let least = if effort::is_long() { 3000 } else { 1000 };
    assert!(only.is_some() || tried > least, "only {tried} crash points were tried");
    report_failures(tried, &wrong);
}

fn report_failures(tried: u64, wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} of {tried} differ; the first:\n{}",
        wrong.len(),
        wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n")
    );
}

/// Compares a claim with the audit log: the claim must be acquired before the first write and released after
/// the last write.
fn find_claim_violation(world: &World, operation: OperationId) -> Option<String> {
    let audit = world.cluster.audit();
    let own: Vec<_> = audit
        .iter()
        .filter(|entry| entry.operation_id == Some(operation) && !entry.dry_run && entry.code < 300)
        .collect();
    let taken = own.iter().position(|entry| entry.kind == "Lease");
    let first = own.iter().position(|entry| entry.kind != "Lease");
    if first.is_some() && (taken.is_none() || taken > first) {
        return Some(format!("written before the claim was taken: {own:#?}"));
    }
    let leases: Vec<_> =
        world.cluster.objects().into_iter().filter(|object| object.kind() == "Lease").collect();
    let [lease] = leases.as_slice() else { return Some(format!("{} claims", leases.len())) };
    let holder = lease.text("/spec/holderIdentity");
    // A process that crashes after the end of the operation leaves a claim behind, which expires.
    if !holder.is_empty() && holder != operation.to_string() {
        return Some(format!("held by {holder:?}"));
    }
    (lease.integer("/spec/leaseTransitions") != Some(1)).then(|| format!("taken more than once: {lease:?}"))
}

/// Reduces a witness to the operation's own writes and to objects that aren't being deleted, because
/// controllers keep running during the release of the claim.
fn settled_witness(mut witness: Witness) -> Witness {
    witness.objects.retain(|_, object| {
        let text = object.to_string();
        text.contains("tracking-id") && !text.contains("foregroundDeletion")
    });
    witness
}

/// The claim must not change the writes, must be acquired once, and must survive every crash.
#[test]
fn a_crash_at_any_point_keeps_the_claim() {
    let (mut tried, mut wrong) = (0_u64, Vec::new());
    for name in ["hooks", "retry", "terminate"] {
        let mut scenario =
            scenario::all().into_iter().find(|one| one.name.contains(name)).expect("a scenario of this name");
        scenario.setup_syncs.clear();
        let (without, ..) = run(&scenario, &[]);
        let without = settled_witness(without);
        scenario.sync.request.claim = Some(ClaimRequest::default());
        let (expected, _, points, _) = run(&scenario, &[]);
        let expected = settled_witness(expected);
        assert_eq!(difference(&without, &expected), None, "{name}: a claim changes what is written");
        for point in 1..=points {
            // The recovery crashes as well.
            let again = (effort::is_long() || point % QUICK_RECOVERY_INTERVAL == 0)
                .then(|| vec![point, point % 11 + 1]);
            for deaths in std::iter::once(vec![point]).chain(again) {
                let (found, _, _, died) = run_and_check(&scenario, &deaths, find_claim_violation, &mut wrong);
                tried += died;
                if let Some(difference) = difference(&expected, &settled_witness(found)) {
                    wrong.push(format!("{} dying at {deaths:?}: {difference}", scenario.name));
                }
            }
        }
    }
    println!("{tried} crash points tried");
    assert!(tried > 200, "only {tried} crash points were tried");
    report_failures(tried, &wrong);
}

/// Runs a scenario with a stored plan. `meddle` is a concurrent sync.
fn run_stored_plan(scenario: &Scenario, deaths: &[u64], meddle: Option<&SyncSpec>) -> StoredPlanRun {
    let mut world = World::new(SimConfig::default());
    for sync in &scenario.setup_syncs {
        world.run(sync);
    }
    let plan = world.store_plan(&scenario.sync);
    if let Some(other) = meddle {
        world.clear_stored_plan();
        world.run(other);
        world.use_stored_plan(&plan);
    }
    world.next_operation();
    let operation = OperationId(Uuid::from_u128(world.operation_number()));
    let mut script = scenario.actions.clone();
    let mut deaths = deaths.iter().copied();
    let mut crashes = 0;
    loop {
        let points = CrashPoints::crash_at(deaths.next().unwrap_or(0));
        match world.run_process(&scenario.sync, &mut script, &points) {
            ProcessEnd::Finished(view) => {
                let events = world.log.recorded_events(operation).unwrap();
                let witness = collect_witness(&world.cluster, operation, &view);
                let written = world.cluster.audit();
                let writes = written.iter().filter(|entry| {
                    entry.operation_id == Some(operation) && !entry.dry_run && entry.code < 300
                });
                let bundles = events.iter().filter_map(|event| match event {
                    OperationEvent::Planned { bundle, .. } => Some(world.log.blob(*bundle).unwrap()),
                    _ => None,
                });
                return StoredPlanRun {
                    writes: writes.count(),
                    bundles: bundles.collect(),
                    taken: events
                        .iter()
                        .filter(|event| matches!(event, OperationEvent::StoredPlanUsed { .. }))
                        .count(),
                    manifests: serde_json::to_vec(&plan.manifests).unwrap(),
                    crash_points: points.passed(),
                    witness,
                    crashes,
                };
            }
            ProcessEnd::Crashed => crashes += 1,
        }
    }
}

struct StoredPlanRun {
    witness: Witness,
    writes: usize,
    /// Manifests that the operation wrote, according to its log.
    bundles: Vec<Vec<u8>>,
    /// Manifests of the plan.
    manifests: Vec<u8>,
    taken: usize,
    crash_points: u64,
    crashes: u64,
}

/// A stored and approved plan must be executed exactly once and byte for byte, with the same writes as a plan
/// that isn't stored.
#[test]
fn a_stored_plan_is_executed_byte_for_byte_after_any_crash() {
    let (mut tried, mut wrong) = (0_u64, Vec::new());
    for name in ["hooks", "waves", "prune"] {
        let is_it =
            |one: &Scenario| one.name.contains(name) && one.expected_phase == OperationPhase::Succeeded;
        let scenario = scenario::all().into_iter().find(is_it).expect("a scenario of this name");
        let (without, ..) = run(&scenario, &[]);
        let expected = run_stored_plan(&scenario, &[], None);
        assert_eq!(
            difference(&without, &expected.witness),
            None,
            "{name}: a stored plan writes something else"
        );
        for point in 1..=expected.crash_points {
            let again = (effort::is_long() || point % QUICK_RECOVERY_INTERVAL == 0)
                .then(|| vec![point, point % 11 + 1]);
            for deaths in std::iter::once(vec![point]).chain(again) {
                let found = run_stored_plan(&scenario, &deaths, None);
                tried += found.crashes;
                if let Some(difference) = difference(&expected.witness, &found.witness) {
                    wrong.push(format!("{name} dying at {deaths:?}: {difference}"));
                }
                if found.taken != 1 || found.bundles != [found.manifests] {
                    wrong.push(format!("{name} dying at {deaths:?}: not the manifests of the plan"));
                }
            }
        }
    }
    println!("{tried} crash points tried");
    assert!(tried > 150, "only {tried} crash points were tried");
    report_failures(tried, &wrong);
}

/// If the cluster has changed, the operation must not write to it.
#[test]
fn an_outdated_stored_plan_writes_nothing_after_any_crash() {
    let is_it =
        |one: &Scenario| one.name.contains("hooks") && one.expected_phase == OperationPhase::Succeeded;
    let scenario = scenario::all().into_iter().find(is_it).unwrap();
    // The same sync runs concurrently, so the planned objects already exist.
    let expected = run_stored_plan(&scenario, &[], Some(&scenario.sync));
    assert_eq!((expected.witness.phase, expected.writes), (OperationPhase::Error, 0));
    let says = &expected.witness.message;
    assert!(says.contains("is no longer valid") && says.contains("it now exists"), "{says}");
    for point in 1..=expected.crash_points {
        let found = run_stored_plan(&scenario, &[point], Some(&scenario.sync));
        assert_eq!((found.writes, &found.witness.message), (0, says), "dying at {point}");
    }
    assert!(expected.crash_points > 3, "{}", expected.crash_points);
}

/// Runs a chain of operations. Returns each operation's writes, and the chain's events.
fn run_chain(
    syncs: &[(OperationId, SyncSpec)],
    deaths: &[u64],
) -> (Vec<Witness>, Vec<chain::ChainEvent>, u64, u64) {
    let world = World::new(SimConfig::default());
    let stored_events = chain::StoredEvents::default();
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = CrashPoints::crash_at(deaths.next().unwrap_or(0));
        let end = world.run_engine(&points, async |engine| {
            let (syncs, stored_events, points) =
                (syncs.to_vec(), Arc::clone(&stored_events), Arc::clone(&points));
            let chain = chain::run_chain(engine.clone(), syncs.clone(), stored_events, points).await;
            chain.map_err(|_| EngineError::Stopped)?;
            let mut views = Vec::new();
            for (id, _) in syncs {
                views.extend(engine.inspect(id).await.ok().map(|(view, _)| view));
            }
            Ok(views)
        });
        if let Some(views) = end {
            let witnesses = views.iter().map(|view| collect_witness(&world.cluster, view.id, view)).collect();
            let events = stored_events.lock().unwrap().clone();
            return (witnesses, events, points.passed(), died);
        }
        died += 1;
    }
}

/// Returns the sync of the first matching scenario, without its preceding operations and user actions.
fn plain_sync(is_it: impl Fn(&Scenario) -> bool) -> SyncSpec {
    let is_plain = |one: &Scenario| one.setup_syncs.is_empty() && one.actions.is_empty();
    scenario::all().into_iter().find(|one| is_plain(one) && is_it(one)).unwrap().sync
}

fn sync_named(name: &str) -> SyncSpec {
    plain_sync(|one| one.name.contains(name))
}

fn with_ids(children: impl IntoIterator<Item = SyncSpec>) -> Vec<(OperationId, SyncSpec)> {
    (1..).map(|number| OperationId(Uuid::from_u128(number))).zip(children).collect()
}

#[test]
fn a_crash_at_any_point_of_a_chain_changes_nothing() {
    let fails = plain_sync(|one| one.expected_phase == OperationPhase::Failed);
    // Operations after the failed one never start.
    let syncs = with_ids([sync_named("hooks"), fails, sync_named("waves")]);
    let (expected, events, points, _) = run_chain(&syncs, &[]);
    assert!(matches!(events.last(), Some(chain::ChainEvent::Finished(false))), "{events:?}");
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in 1..=points {
        // The recovery crashes as well.
        let again =
            (effort::is_long() || point % QUICK_RECOVERY_INTERVAL == 0).then(|| vec![point, point % 13 + 1]);
        for deaths in std::iter::once(vec![point]).chain(again) {
            let (found, recorded, _, died) = run_chain(&syncs, &deaths);
            tried += died;
            if recorded != events || found.len() != expected.len() {
                wrong.push(format!("dying at {deaths:?}: {recorded:?} instead of {events:?}"));
            }
            for (expected, found) in expected.iter().zip(&found) {
                wrong.extend(
                    difference(expected, found).map(|reason| format!("dying at {deaths:?}: {reason}")),
                );
            }
        }
    }
    println!("{tried} crash points of {points} tried, {} operations", expected.len());
    assert!(tried > 100, "only {tried} crash points were tried");
    report_failures(tried, &wrong);
}

/// A shutdown must not be reported as the end of the running operation, because the next process continues
/// it.
#[test]
fn a_chain_continues_after_a_clean_shutdown() {
    let syncs = with_ids([sync_named("hooks"), sync_named("waves")]);
    let (expected, events, ..) = run_chain(&syncs, &[]);
    let (world, stored_events) = (World::new(SimConfig::default()), chain::StoredEvents::default());
    let drive = |engine| {
        chain::run_chain(engine, syncs.clone(), Arc::clone(&stored_events), CrashPoints::crash_at(0))
    };
    world.run_engine(&CrashPoints::crash_at(0), async |engine| {
        let first = syncs[0].0;
        let stop = async {
            while engine.inspect(first).await.is_err() {
                tokio::task::yield_now().await;
            }
            engine.shutdown().await;
        };
        let (ended, ()) = tokio::join!(drive(engine.clone()), stop);
        assert!(ended.is_err(), "the chain continues without an engine");
        Ok(())
    });
    assert_eq!(stored_events.lock().unwrap().len(), 1, "nothing has ended yet");

    let views = world.run_engine(&CrashPoints::crash_at(0), async |engine| {
        drive(engine.clone()).await.map_err(|_| EngineError::Stopped)?;
        let mut views = Vec::new();
        for (id, _) in &syncs {
            views.push(engine.inspect(*id).await?.0);
        }
        Ok(views)
    });
    assert_eq!(*stored_events.lock().unwrap(), events);
    for (expected, view) in expected.iter().zip(views.unwrap()) {
        assert_eq!(difference(expected, &collect_witness(&world.cluster, view.id, &view)), None);
    }
}
