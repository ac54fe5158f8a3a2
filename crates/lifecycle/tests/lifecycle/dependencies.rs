//! Dependencies between the tasks of a wave.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_lifecycle::operation::{
    Command, Input, OperationEvent, Progress, Scope, Stage, WaveStep, explain,
};
use tidegate_model::{
    Action, ClaimHolder, HealthStatus, OperationPhase, Override, Phase, Plan, SafePoint, Task,
    TaskDependency, TaskId,
};

use crate::build::*;
use crate::world::{Behavior, EvidenceKind, Reply, World, executed_dependencies, health_of, label_of};

/// Checks in recorded events that each task starts after all of its dependencies have succeeded. Knows nothing
/// about the state of the operation, except whether retries repeat all tasks (`restarts`).
pub fn check_order(plan: &Plan, events: &[OperationEvent], restarts: bool) {
    let mut satisfied: BTreeSet<TaskId> = BTreeSet::new();
    let mut passed_over: BTreeSet<TaskId> = BTreeSet::new();
    let is_prune = |id: &TaskId| plan.task(*id).unwrap().action == Action::Prune;
    let mut leaving: BTreeSet<TaskId> = BTreeSet::new();
    for event in events {
        let started = match event {
            OperationEvent::Applied { task, .. }
            | OperationEvent::RunnerStarted { task, .. }
            | OperationEvent::HookSuspended { task, .. }
            | OperationEvent::HookCleared { task, .. }
            | OperationEvent::ObjectDeleted { task }
            | OperationEvent::DeletionStarted { task } => Some(*task),
            _ => None,
        };
        if let Some(started) = started {
            let mut open = executed_dependencies(plan, started);
            while let Some(id) = open.pop() {
                assert!(satisfied.contains(&id), "{event:?} before {id:?}");
                if passed_over.contains(&id) {
                    open.extend(executed_dependencies(plan, id));
                }
            }
        }
        match event {
            OperationEvent::DeletionStarted { task } => drop(leaving.insert(*task)),
            // A deletion that was never requested leaves the object alone.
            OperationEvent::TaskCompleted { task, .. } if is_prune(task) && !leaving.contains(task) => {}
            OperationEvent::Overridden { task, what: Override::Skip, .. } if is_prune(task) => {}
            OperationEvent::Overridden { task, what: Override::Skip | Override::MarkDone, .. } => {
                satisfied.insert(*task);
                passed_over.insert(*task);
            }
            OperationEvent::Overridden { task, what: Override::Retry, .. } => {
                passed_over.remove(task);
                satisfied.remove(task);
            }
            OperationEvent::RetryStarted { .. } if restarts => {
                satisfied.retain(|id| passed_over.contains(id))
            }
            OperationEvent::ReplanStarted { .. } => satisfied.clear(),
            OperationEvent::TaskCompleted { task, phase: OperationPhase::Succeeded, .. }
            | OperationEvent::Applied { task, done: true, .. }
            | OperationEvent::ObjectDeleted { task }
            | OperationEvent::HookStopped { task, .. }
            | OperationEvent::HookFinalizerRemoved { task }
            | OperationEvent::DeletionCompleted { task } => {
                satisfied.insert(*task);
            }
            _ => {}
        }
    }
}

/// Returns the times at which the manifests were written.
pub fn start_times(world: &World) -> BTreeMap<String, i64> {
    let mut starts = BTreeMap::new();
    for event in &world.durable {
        let (task, at) = match event {
            OperationEvent::Applied { task, applied, .. } => (task, applied.at),
            OperationEvent::RunnerStarted { task, at } => (task, *at),
            _ => continue,
        };
        starts.entry(label_of(world.plan.task(*task).unwrap())).or_insert(at.as_millis());
    }
    starts
}

/// Draft of a task in a random graph.
#[derive(Clone, Debug)]
struct Node {
    kind: usize,
    wave: i64,
    /// Time in milliseconds until the object is healthy.
    delay: i64,
    role: u8,
    evidence: u8,
}

const KINDS: [&str; 5] = ["ConfigMap", "CustomResourceDefinition", "Deployment", "Job", "Widget"];

impl Node {
    fn is_hook(&self) -> bool {
        self.role == 0
    }

    fn is_unchanged(&self) -> bool {
        self.role == 1
    }

    fn evidence(&self) -> EvidenceKind {
        match self.evidence {
            0 => EvidenceKind::Nothing,
            1 => EvidenceKind::Identity,
            _ => EvidenceKind::Generation,
        }
    }

    /// Returns the time from the write to the evidence of success.
    fn duration(&self) -> i64 {
        match (KINDS[self.kind], self.is_hook()) {
            _ if self.is_unchanged() => 0,
            ("ConfigMap", _) => 0,
            (_, false) if self.evidence() == EvidenceKind::Nothing => self.delay.max(2000),
            _ => self.delay,
        }
    }
}

fn any_graph() -> impl Strategy<Value = (Vec<Node>, Vec<(usize, usize)>)> {
    let node = (0_usize..5, 0_i64..2, 10_i64..9000, 0_u8..6, 0_u8..4)
        .prop_map(|(kind, wave, delay, role, evidence)| Node { kind, wave, delay, role, evidence });
    let nodes = proptest::collection::vec(node, 1..16);
    (nodes, proptest::collection::vec((0_usize..16, 0_usize..16), 0..40))
}

fn name(nodes: &[Node], number: usize) -> String {
    format!("{}/t{number}", KINDS[nodes[number].kind])
}

fn random_world(nodes: &[Node], pairs: &[(usize, usize)]) -> World {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|number| (nodes[*number].wave, nodes[*number].kind, *number));
    let task = |number: &usize| -> Task {
        let node = &nodes[*number];
        match node.is_hook() {
            true => hook_task(Phase::Sync, node.wave, &name(nodes, *number)),
            false if node.is_unchanged() => {
                resource(node.wave, &name(nodes, *number)).with_action(Action::Unchanged).with_live_object()
            }
            false => resource(node.wave, &name(nodes, *number)),
        }
    };
    let mut plan = plan(order.iter().map(task));
    let pairs: BTreeSet<(usize, usize)> = edges(nodes, pairs).collect();
    for (dependent, dependency) in pairs {
        plan = plan.with_dependency(&name(nodes, dependent), &name(nodes, dependency));
    }
    let mut world = World::new(plan, request());
    for (number, node) in nodes.iter().enumerate() {
        world.configure(&name(nodes, number), |fate| {
            fate.evidence = node.evidence();
            if !fate.health.is_empty() {
                fate.health = vec![
                    (0, health_of(HealthStatus::Progressing, "starting")),
                    (node.delay, health_of(HealthStatus::Healthy, "")),
                ];
            }
        });
    }
    world
}

/// Returns the pairs that are dependencies: within a wave, and on lower numbers, so that there are no cycles.
fn edges(nodes: &[Node], pairs: &[(usize, usize)]) -> impl Iterator<Item = (usize, usize)> {
    let is_edge = |(a, b): &(usize, usize)| b < a && *a < nodes.len() && nodes[*a].wave == nodes[*b].wave;
    pairs.iter().copied().filter(is_edge)
}

/// Computes when each manifest is written, from the times when the waves start to apply. Independent of the
/// machine: works on numbers and names only.
fn expected_starts(
    nodes: &[Node],
    pairs: &[(usize, usize)],
    wave_starts: &BTreeMap<i64, i64>,
) -> BTreeMap<String, i64> {
    let pairs: Vec<(usize, usize)> = edges(nodes, pairs).collect();
    // An unchanged object is never written. It only passes on what its own dependencies say.
    let mut is_dependent = vec![false; nodes.len()];
    for number in 0..nodes.len() {
        let mut dependencies = pairs.iter().filter(|(dependent, _)| *dependent == number);
        is_dependent[number] = dependencies.any(|(_, on)| !nodes[*on].is_unchanged() || is_dependent[*on]);
    }
    let mut starts: Vec<i64> = Vec::new();
    // Definitions without dependencies delay all later kinds until they are established. Their own kind is the
    // second of the list, so only the first one can't be delayed.
    for node in nodes {
        starts.push(wave_starts.get(&node.wave).copied().unwrap_or_default());
    }
    let established = |wave: i64, starts: &[i64]| {
        let definitions = (0..nodes.len()).filter(|number| {
            KINDS[nodes[*number].kind] == "CustomResourceDefinition"
                && nodes[*number].wave == wave
                && !nodes[*number].is_unchanged()
                && !is_dependent[*number]
        });
        definitions.map(|number| starts[number] + nodes[number].delay).max().unwrap_or(0)
    };
    for number in 0..nodes.len() {
        let node = &nodes[number];
        let mut start = starts[number];
        if node.kind > 1 && !node.is_unchanged() {
            start = start.max(established(node.wave, &starts));
        }
        for (_, dependency) in pairs.iter().filter(|(dependent, _)| *dependent == number) {
            start = start.max(starts[*dependency] + nodes[*dependency].duration());
        }
        starts[number] = start;
    }
    let written = (0..nodes.len()).filter(|number| !nodes[*number].is_unchanged());
    written.map(|number| (name(nodes, number), starts[number])).collect()
}

fn wave_starts(world: &World) -> BTreeMap<i64, i64> {
    let mut starts = BTreeMap::new();
    for event in &world.durable {
        if let OperationEvent::StageChanged { to: Stage::Wave { index, step: WaveStep::Applying }, at } =
            event
        {
            starts.entry(world.plan.waves[*index as usize].wave).or_insert(at.as_millis());
        }
    }
    starts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each object is applied once its dependencies are healthy, and no later.
    #[test]
    fn tasks_start_exactly_when_their_dependencies_are_healthy((nodes, pairs) in any_graph()) {
        let mut world = random_world(&nodes, &pairs);
        world.run();
        world.check_replay();
        check_order(&world.plan, &world.durable, false);
        let outcome = world.operation().outcome.clone().unwrap();
        prop_assert_eq!(outcome.phase, OperationPhase::Succeeded, "{}", outcome.message);
        let starts = wave_starts(&world);
        prop_assert_eq!(start_times(&world), expected_starts(&nodes, &pairs, &starts));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// A crash at any point changes neither the writes nor the results.
    #[test]
    fn a_crash_at_any_point_changes_nothing((nodes, pairs) in any_graph()) {
        let mut calm = random_world(&nodes, &pairs);
        calm.run();
        let changes = |world: &World| {
            let mut all: Vec<String> = world.cluster.writes.iter().map(|write| format!("{write:?}")).collect();
            all.sort();
            all
        };
        let statuses = |world: &World| -> Vec<_> {
            world.operation().tasks.iter().map(|task| (task.progress.clone(), task.status, task.phase)).collect()
        };
        for point in 1.. {
            let mut world = random_world(&nodes, &pairs);
            world.crash_before = Some(point);
            world.run();
            if world.crash_before.is_some() {
                break;
            }
            world.check_replay();
            check_order(&world.plan, &world.durable, false);
            prop_assert_eq!(changes(&world), changes(&calm), "crash before event {}", point);
            prop_assert_eq!(statuses(&world), statuses(&calm), "crash before event {}", point);
        }
    }
}

fn shop() -> Plan {
    plan([
        resource(0, "ConfigMap/settings"),
        resource(0, "Deployment/api"),
        resource(0, "Deployment/database"),
        resource(0, "Deployment/other"),
        hook_task(Phase::Sync, 0, "Job/migrate"),
    ])
    .with_dependency("ConfigMap/settings", "Deployment/database")
    .with_dependency("Job/migrate", "Deployment/database")
    .with_dependency("Deployment/api", "Job/migrate")
}

fn phases(world: &World) -> Vec<(String, Option<OperationPhase>)> {
    let tasks = world.operation().all_tasks();
    tasks.map(|(_, task, state)| (label_of(task), state.phase)).collect()
}

pub fn begun(world: &World) -> Vec<String> {
    let tasks = world.operation().all_tasks().filter(|(_, _, state)| state.progress != Progress::Waiting);
    tasks.map(|(_, task, _)| label_of(task)).collect()
}

pub fn set_health(world: &mut World, object: &str, after: i64, status: HealthStatus) {
    world.configure(object, |fate: &mut Behavior| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "starting")),
            (after, health_of(status, "decided")),
        ];
    });
}

pub fn overridden(object: &str, what: Override) -> Input {
    let scope = Scope::Task(object.parse().unwrap());
    Input::Override { what, scope, by: "ann".into(), reason: "known".into() }
}

#[test]
fn an_object_waits_only_for_its_own_dependencies() {
    let mut world = World::new(shop(), request());
    set_health(&mut world, "Deployment/database", 5000, HealthStatus::Healthy);
    set_health(&mut world, "Deployment/other", 60_000, HealthStatus::Healthy);
    world.run_until(4999);
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"]);
    let state = world.runner.state().clone();
    assert_eq!(state.message(), "waiting for healthy state of apps/Deployment/database");
    let explained = explain(&state, at(4999));
    let awaited: Vec<String> =
        explained.awaited.iter().map(|one| format!("{}: {}", one.what, one.why)).collect();
    assert_eq!(awaited, ["Deployment shop/database: starting; needed by ConfigMap shop/settings and 1 more"]);
    world.run();
    let starts = start_times(&world);
    let times: Vec<i64> = ["Deployment/other", "ConfigMap/settings", "Job/migrate", "Deployment/api"]
        .iter()
        .map(|object| starts[*object])
        .collect();
    assert_eq!(times, [0, 5000, 5000, 6000]);
}

#[test]
fn a_failed_dependency_blocks_only_its_dependents_and_a_retry_continues() {
    let mut world = World::new(shop(), request_with_retries(1));
    world.configure("Job/migrate", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);
    assert_eq!(world.operation().attempt, 2);
    check_order(&world.plan, &world.durable, false);

    let mut world = World::new(shop(), request());
    set_health(&mut world, "Deployment/database", 1000, HealthStatus::Degraded);
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Failed);
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"]);
}

#[test]
fn a_rejected_dependency_fails_the_wave_without_its_dependents() {
    let mut world = World::new(shop(), request());
    world.configure("Deployment/database", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Failed);
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"]);
}

#[test]
fn a_skipped_dependency_releases_its_dependents() {
    for what in [Override::Skip, Override::MarkDone] {
        let mut world = World::new(shop(), request());
        set_health(&mut world, "Deployment/database", i64::MAX / 4, HealthStatus::Healthy);
        world.schedule_input(7000, overridden("Deployment/database", what));
        world.run();
        assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);
        assert_eq!(start_times(&world)["ConfigMap/settings"], 7000, "{what:?}");
    }
}

#[test]
fn a_skipped_dependency_cannot_be_retried_while_a_dependent_is_being_applied() {
    let mut world = World::new(shop(), request());
    set_health(&mut world, "Deployment/database", i64::MAX / 4, HealthStatus::Healthy);
    world.configure("ConfigMap/settings", |fate| fate.write.extend([Reply::RetryAfter(9000)]));
    world.schedule_input(1000, overridden("Deployment/database", Override::Skip));
    world.schedule_input(2000, overridden("Deployment/database", Override::Retry));
    world.run();
    let refused = world.transcript.iter().find(|line| line.starts_with('!')).unwrap();
    assert_eq!(
        refused,
        "! Deployment shop/database cannot be retried now: ConfigMap shop/settings, which depends on it, is being \
         applied; try again once it is applied"
    );
}

#[test]
fn a_pause_holds_released_tasks_back() {
    let mut world = World::new(shop(), request());
    world.schedule_input(500, Input::Pause { by: "ann".into(), reason: "lunch".into() });
    world.schedule_input(9000, Input::Unpause { by: "ann".into() });
    world.run_until(8000);
    let message = world.runner.state().message();
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"], "{message}");
    world.run();
    assert_eq!(start_times(&world)["ConfigMap/settings"], 9000);
}

#[test]
fn a_termination_starts_no_dependents() {
    let mut world = World::new(shop(), request());
    world.schedule_input(500, Input::Terminate { by: "ann".into() });
    world.run();
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"]);
    assert_eq!(world.operation().outcome.as_ref().unwrap().message, "Operation terminated");
}

/// A newer commit supersedes an operation that only waits for a dependency, but not one that applies objects.
#[test]
fn an_operation_that_awaits_a_dependency_can_be_superseded() {
    let by = ClaimHolder { operation: "next".into(), who: "ann".into(), revision: "2".into(), since: None };
    let supersede = || Input::Supersede { by: by.clone(), when: SafePoint::Waiting };
    let mut world = World::new(shop(), request());
    world.schedule_input(500, supersede());
    world.run();
    assert_eq!(begun(&world), ["Deployment/database", "Deployment/other"]);
    let message = &world.operation().outcome.as_ref().unwrap().message;
    assert!(message.starts_with("Operation terminated, superseded"), "{message}");

    let mut world = World::new(shop(), request());
    world.configure("Deployment/other", |fate| fate.write.extend([Reply::RetryAfter(9000)]));
    world.schedule_input(500, supersede());
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);
}

#[test]
fn a_late_dependency_fails_at_the_deadline_of_the_wave() {
    let mut world = World::new(shop().with_wave_timeout(0, 3), request());
    set_health(&mut world, "Deployment/database", 60_000, HealthStatus::Healthy);
    world.run();
    let message = &world.operation().outcome.as_ref().unwrap().message;
    assert!(message.contains("wave 0 of Sync did not complete within 3 s: waiting for healthy state of apps/Deployment/database"), "{message}");
    let failed = phases(&world).into_iter().filter(|(_, phase)| *phase == Some(OperationPhase::Failed));
    assert_eq!(failed.map(|(object, _)| object).collect::<Vec<_>>(), ["Deployment/database"]);
}

#[test]
fn prunes_wait_for_the_deletion_of_their_dependents() {
    let pruned = || {
        plan([
            prune_task(0, "Deployment/api"),
            prune_task(0, "Deployment/database"),
            prune_task(0, "Secret/password"),
        ])
        .with_dependency("Deployment/database", "Deployment/api")
        .with_dependency("Secret/password", "Deployment/database")
    };
    let mut world = World::new(pruned(), request());
    world.configure("Deployment/api", |fate| fate.deletion_delay = 4000);
    world.configure("Deployment/database", |fate| fate.deletion_delay = 3000);
    world.run_until(3999);
    assert_eq!(begun(&world), ["Deployment/api"]);
    assert_eq!(world.runner.state().message(), "waiting for deletion of apps/Deployment/api");
    world.run();
    let deleted: Vec<String> =
        world.cluster.writes.iter().map(|write| label_of(world.plan.task(write.task).unwrap())).collect();
    assert_eq!(deleted, ["Deployment/api", "Deployment/database", "Secret/password"]);
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);

    let mut world = World::new(pruned(), request());
    world.configure("Deployment/database", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Failed);
    assert_eq!(begun(&world), ["Deployment/api", "Deployment/database"]);
}

#[test]
fn an_unchanged_object_satisfies_its_dependents() {
    let unchanged = resource(0, "Deployment/database").with_action(Action::Unchanged).with_live_object();
    let plan = plan([resource(0, "Deployment/api"), unchanged])
        .with_dependency("Deployment/api", "Deployment/database");
    let mut world = World::new(plan, request());
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);
    assert_eq!(start_times(&world)["Deployment/api"], 0);
}

#[test]
fn a_runner_starts_after_the_dependencies_of_its_hook() {
    let plan = plan([
        resource(0, "Deployment/database"),
        hook_task(Phase::Sync, 0, "Job/migrate").with_runner("sql"),
    ])
    .with_dependency("Job/migrate", "Deployment/database");
    let mut world = World::new(plan, request());
    world.run();
    assert_eq!(start_times(&world)["Job/migrate"], 1000);
}

/// In the last wave, only objects with dependents are observed.
#[test]
fn the_last_wave_does_not_wait_for_objects_without_dependents() {
    let plan = plan([resource(0, "Deployment/api"), resource(0, "Deployment/database")])
        .with_dependency("Deployment/api", "Deployment/database");
    let mut world = World::new(plan, request());
    set_health(&mut world, "Deployment/api", i64::MAX / 4, HealthStatus::Healthy);
    world.run();
    assert_eq!(world.now, 1000);
    let api = world.task_id("Deployment/api");
    assert!(!world.runner.has_subscription(&Command::Observe { task: api }));
}

#[test]
fn a_plan_with_a_cycle_is_inconsistent() {
    let mut cyclic = shop();
    let (database, api) = (TaskId(2), TaskId(1));
    cyclic.dependencies.push(TaskDependency { dependent: database, dependency: api });
    cyclic.dependencies.sort_unstable();
    let mut world = World::new(cyclic, request());
    world.run();
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Error);
    assert!(world.cluster.writes.is_empty());
}
