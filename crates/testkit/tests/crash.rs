//! Crash at every point: each golden operation is run once per point with the process dying there, and again with a
//! second death during the recovery; in the quick form that is at every eighth point. Whatever happens, the cluster must have seen the same writes in the same order,
//! every hook created exactly once, nothing deleted twice, and the operation ends the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::sync::Arc;
use tidegate_cluster::sim::SimConfig;

use tidegate_executor::EngineError;
use tidegate_executor::effects::cluster_of;
use tidegate_lifecycle::operation::Fact;
use tidegate_model::{ClaimRequest, OperationId, OperationPhase};
use tidegate_oplog::{Blobs as _, Inventories as _, Known};
use tidegate_testkit::chain;
use tidegate_testkit::crash::Points;
use tidegate_testkit::effort;
use tidegate_testkit::process::{End, World};
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::{self, Scenario, Sync};
use tidegate_testkit::simulate::inventory_is_complete;
use tidegate_testkit::witness::{Witness, witness};
use uuid::Uuid;

/// Runs a scenario with a process that dies at each of `deaths` in turn; 0 lives on.
/// What it leaves in the log is found by the next operation.
fn run(scenario: &Scenario, deaths: &[u64]) -> (Witness, Option<Known>, u64, u64) {
    let mut wrong = Vec::new();
    let run = run_and(scenario, deaths, |_, _| None, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    run
}

/// The same, with another look at the world at the end.
fn run_and(
    scenario: &Scenario,
    deaths: &[u64],
    check: impl Fn(&World, OperationId) -> Option<String>,
    wrong: &mut Vec<String>,
) -> (Witness, Option<Known>, u64, u64) {
    let mut world = World::new(SimConfig::default());
    for sync in &scenario.before {
        world.run(sync);
    }
    world.next_operation();
    let operation = OperationId(Uuid::from_u128(u128::try_from(scenario.before.len()).unwrap() + 1));
    let mut script = scenario.script.clone();
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = Points::dying_at(deaths.next().unwrap_or(0));
        match world.process(&scenario.sync, &mut script, &points) {
            End::Finished(view) => {
                let request = &scenario.sync.request;
                let (cluster, application) = (cluster_of(&request.destination), &request.application);
                let known = world.log.inventory(&cluster.unwrap(), application).unwrap();
                if let Some(known) = &known {
                    inventory_is_complete(&world.cluster, application, known);
                }
                // Events are numbered without gap and repetition, whatever died.
                let told_wrongly = world.told_wrongly(operation);
                wrong.extend(
                    check(&world, operation)
                        .or(told_wrongly)
                        .map(|why| format!("{} dying at {:?}: {why}", scenario.name, points.passed())),
                );
                return (witness(&world.cluster, operation, &view), known, points.passed(), died);
            }
            End::Died => died += 1,
        }
    }
}

/// A failed comparison, in words.
fn difference(expected: &Witness, found: &Witness) -> Option<String> {
    macro_rules! compare {
        ($($field:ident),*) => {
            $(if expected.$field != found.$field {
                return Some(format!(concat!(stringify!($field), " differ\nexpected {:#?}\nfound    {:#?}"), expected.$field, found.$field));
            })*
        };
    }
    compare!(created, deleted, order, objects, phase, message, results);
    None
}

/// In the quick form the recovery dies as well at one point of so many.
const QUICK: u64 = 8;

/// A golden operation, dying at every point. How many deaths there were, and what was wrong.
fn die_everywhere(scenario: &Scenario) -> (u64, Vec<String>) {
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
        if effort::is_long() || point % QUICK == 0 {
            // The recovery dies as well, at a point that differs from run to run.
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
    for (deaths, differences) in effort::on_all_cores(&scenarios, die_everywhere) {
        tried += deaths;
        wrong.extend(differences);
    }
    println!("{tried} crash points tried");
    let least = if effort::is_long() { 3000 } else { 1000 };
    assert!(only.is_some() || tried > least, "only {tried} crash points were tried");
    report(tried, &wrong);
}

fn report(tried: u64, wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} of {tried} differ; the first:\n{}",
        wrong.len(),
        wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n")
    );
}

/// What the audit says of a claim: it was taken before the first write and given back after the last one.
fn claim_is_wrong(world: &World, operation: OperationId) -> Option<String> {
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
    // A process that dies after the operation is over leaves a claim that runs out.
    if !holder.is_empty() && holder != operation.to_string() {
        return Some(format!("held by {holder:?}"));
    }
    (lease.integer("/spec/leaseTransitions") != Some(1)).then(|| format!("taken more than once: {lease:?}"))
}

/// To give a claim back takes some time, in which controllers go on: only what the operation itself wrote, and what is
/// not on its way out, is compared.
fn settled(mut witness: Witness) -> Witness {
    witness.objects.retain(|_, object| {
        let text = object.to_string();
        text.contains("tracking-id") && !text.contains("foregroundDeletion")
    });
    witness
}

/// The same with a claim: it changes nothing about the writes, is taken once, and kept through every crash.
#[test]
fn a_crash_at_any_point_keeps_the_claim() {
    let (mut tried, mut wrong) = (0_u64, Vec::new());
    for name in ["hooks", "retry", "terminate"] {
        let mut scenario =
            scenario::all().into_iter().find(|one| one.name.contains(name)).expect("a scenario of this name");
        scenario.before.clear();
        let (without, ..) = run(&scenario, &[]);
        let without = settled(without);
        scenario.sync.request.claim = Some(ClaimRequest::default());
        let (expected, _, points, _) = run(&scenario, &[]);
        let expected = settled(expected);
        assert_eq!(difference(&without, &expected), None, "{name}: a claim changes what is written");
        for point in 1..=points {
            // The recovery dies as well.
            let again = (effort::is_long() || point % QUICK == 0).then(|| vec![point, point % 11 + 1]);
            for deaths in std::iter::once(vec![point]).chain(again) {
                let (found, _, _, died) = run_and(&scenario, &deaths, claim_is_wrong, &mut wrong);
                tried += died;
                if let Some(difference) = difference(&expected, &settled(found)) {
                    wrong.push(format!("{} dying at {deaths:?}: {difference}", scenario.name));
                }
            }
        }
    }
    println!("{tried} crash points tried");
    assert!(tried > 200, "only {tried} crash points were tried");
    report(tried, &wrong);
}

/// A scenario whose operation carries out a plan that was kept before; `meddle`: what somebody does in between.
fn run_kept(scenario: &Scenario, deaths: &[u64], meddle: Option<&Sync>) -> Kept {
    let mut world = World::new(SimConfig::default());
    for sync in &scenario.before {
        world.run(sync);
    }
    let plan = world.keep_plan(&scenario.sync);
    if let Some(other) = meddle {
        world.forget_plan();
        world.run(other);
        world.keep(&plan);
    }
    world.next_operation();
    let operation = OperationId(Uuid::from_u128(world.submitted()));
    let mut script = scenario.script.clone();
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = Points::dying_at(deaths.next().unwrap_or(0));
        match world.process(&scenario.sync, &mut script, &points) {
            End::Finished(view) => {
                let facts = world.log.facts(operation).unwrap();
                let witness = witness(&world.cluster, operation, &view);
                let written = world.cluster.audit();
                let writes = written.iter().filter(|entry| {
                    entry.operation_id == Some(operation) && !entry.dry_run && entry.code < 300
                });
                let bundles = facts.iter().filter_map(|fact| match fact {
                    Fact::Planned { bundle, .. } => Some(world.log.blob(*bundle).unwrap()),
                    _ => None,
                });
                return Kept {
                    writes: writes.count(),
                    bundles: bundles.collect(),
                    taken: facts.iter().filter(|fact| matches!(fact, Fact::PlanTaken { .. })).count(),
                    manifests: serde_json::to_vec(&plan.manifests).unwrap(),
                    points: points.passed(),
                    witness,
                    died,
                };
            }
            End::Died => died += 1,
        }
    }
}

struct Kept {
    witness: Witness,
    writes: usize,
    /// The manifests that the operation wrote, as its log has them.
    bundles: Vec<Vec<u8>>,
    /// Those of the plan.
    manifests: Vec<u8>,
    taken: usize,
    points: u64,
    died: u64,
}

/// A plan that was kept and approved is carried out byte for byte, wherever the process dies: with the same writes as without a
/// plan, and once.
#[test]
fn a_kept_plan_is_carried_out_byte_for_byte_wherever_it_dies() {
    let (mut tried, mut wrong) = (0_u64, Vec::new());
    for name in ["hooks", "waves", "prune"] {
        let is_it = |one: &Scenario| one.name.contains(name) && one.ends == OperationPhase::Succeeded;
        let scenario = scenario::all().into_iter().find(is_it).expect("a scenario of this name");
        let (without, ..) = run(&scenario, &[]);
        let expected = run_kept(&scenario, &[], None);
        assert_eq!(
            difference(&without, &expected.witness),
            None,
            "{name}: a kept plan writes something else"
        );
        for point in 1..=expected.points {
            let again = (effort::is_long() || point % QUICK == 0).then(|| vec![point, point % 11 + 1]);
            for deaths in std::iter::once(vec![point]).chain(again) {
                let found = run_kept(&scenario, &deaths, None);
                tried += found.died;
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
    report(tried, &wrong);
}

/// Where the cluster has moved, nothing is written, wherever the process dies.
#[test]
fn a_kept_plan_that_does_not_fit_any_more_writes_nothing_wherever_it_dies() {
    let is_it = |one: &Scenario| one.name.contains("hooks") && one.ends == OperationPhase::Succeeded;
    let scenario = scenario::all().into_iter().find(is_it).unwrap();
    // Somebody syncs the same in between: what was to be created is there.
    let expected = run_kept(&scenario, &[], Some(&scenario.sync));
    assert_eq!((expected.witness.phase, expected.writes), (OperationPhase::Error, 0));
    let says = &expected.witness.message;
    assert!(
        says.contains("does not fit any more") && says.contains("it was not there, and is now"),
        "{says}"
    );
    for point in 1..=expected.points {
        let found = run_kept(&scenario, &[point], Some(&scenario.sync));
        assert_eq!((found.writes, &found.witness.message), (0, says), "dying at {point}");
    }
    assert!(expected.points > 3, "{}", expected.points);
}

/// A chain of operations, driven by the same shell as they are: what each of them wrote, and what the chain has recorded.
fn run_chain(syncs: &[(OperationId, Sync)], deaths: &[u64]) -> (Vec<Witness>, Vec<chain::Fact>, u64, u64) {
    let world = World::new(SimConfig::default());
    let kept = chain::Kept::default();
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = Points::dying_at(deaths.next().unwrap_or(0));
        let end = world.live(&points, async |engine| {
            let (syncs, kept, points) = (syncs.to_vec(), Arc::clone(&kept), Arc::clone(&points));
            let chain = chain::drive(engine.clone(), syncs.clone(), kept, points).await;
            chain.map_err(|_| EngineError::Stopped)?;
            let mut views = Vec::new();
            for (id, _) in syncs {
                views.extend(engine.inspect(id).await.ok().map(|(view, _)| view));
            }
            Ok(views)
        });
        if let Some(views) = end {
            let witnesses = views.iter().map(|view| witness(&world.cluster, view.id, view)).collect();
            let facts = kept.lock().unwrap().clone();
            return (witnesses, facts, points.passed(), died);
        }
        died += 1;
    }
}

/// The sync of the first such scenario that nothing comes before, and that nobody does anything in.
fn plain(is_it: impl Fn(&Scenario) -> bool) -> Sync {
    let is_plain = |one: &Scenario| one.before.is_empty() && one.script.is_empty();
    scenario::all().into_iter().find(|one| is_plain(one) && is_it(one)).unwrap().sync
}

fn named(name: &str) -> Sync {
    plain(|one| one.name.contains(name))
}

fn numbered(children: impl IntoIterator<Item = Sync>) -> Vec<(OperationId, Sync)> {
    (1..).map(|number| OperationId(Uuid::from_u128(number))).zip(children).collect()
}

#[test]
fn a_crash_at_any_point_of_a_chain_changes_nothing() {
    let fails = plain(|one| one.ends == OperationPhase::Failed);
    // What would come after the one that fails never begins.
    let syncs = numbered([named("hooks"), fails, named("waves")]);
    let (expected, facts, points, _) = run_chain(&syncs, &[]);
    assert!(matches!(facts.last(), Some(chain::Fact::Finished(false))), "{facts:?}");
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in 1..=points {
        // The recovery dies as well.
        let again = (effort::is_long() || point % QUICK == 0).then(|| vec![point, point % 13 + 1]);
        for deaths in std::iter::once(vec![point]).chain(again) {
            let (found, recorded, _, died) = run_chain(&syncs, &deaths);
            tried += died;
            if recorded != facts || found.len() != expected.len() {
                wrong.push(format!("dying at {deaths:?}: {recorded:?} instead of {facts:?}"));
            }
            for (expected, found) in expected.iter().zip(&found) {
                wrong.extend(difference(expected, found).map(|why| format!("dying at {deaths:?}: {why}")));
            }
        }
    }
    println!("{tried} crash points of {points} tried, {} operations", expected.len());
    assert!(tried > 100, "only {tried} crash points were tried");
    report(tried, &wrong);
}

/// A stop says nothing of the operation that was at work: the next process goes on with it.
#[test]
fn a_chain_goes_on_after_an_orderly_stop() {
    let syncs = numbered([named("hooks"), named("waves")]);
    let (expected, facts, ..) = run_chain(&syncs, &[]);
    let (world, kept) = (World::new(SimConfig::default()), chain::Kept::default());
    let drive = |engine| chain::drive(engine, syncs.clone(), Arc::clone(&kept), Points::dying_at(0));
    world.live(&Points::dying_at(0), async |engine| {
        let first = syncs[0].0;
        let stop = async {
            while engine.inspect(first).await.is_err() {
                tokio::task::yield_now().await;
            }
            engine.shutdown().await;
        };
        let (ended, ()) = tokio::join!(drive(engine.clone()), stop);
        assert!(ended.is_err(), "the chain goes on without an engine");
        Ok(())
    });
    assert_eq!(kept.lock().unwrap().len(), 1, "nothing has ended yet");

    let views = world.live(&Points::dying_at(0), async |engine| {
        drive(engine.clone()).await.map_err(|_| EngineError::Stopped)?;
        let mut views = Vec::new();
        for (id, _) in &syncs {
            views.push(engine.inspect(*id).await?.0);
        }
        Ok(views)
    });
    assert_eq!(*kept.lock().unwrap(), facts);
    for (expected, view) in expected.iter().zip(views.unwrap()) {
        assert_eq!(difference(expected, &witness(&world.cluster, view.id, &view)), None);
    }
}
