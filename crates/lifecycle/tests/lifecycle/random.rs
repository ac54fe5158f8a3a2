//! Random plans in random worlds, with invariants that hold for all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_lifecycle::operation::{Input, OperationEvent, Outcome, Verdict};
use tidegate_model::{
    Action, Backoff, DeletePolicy, HealthStatus, OperationPhase, Override, Phase, Plan, RetryPolicy,
    SyncOptions, SyncRequest, Task, TaskDependency, TaskId, WaitFor,
};

use crate::build::*;
use crate::world::{Behavior, Change, Disturbances, EvidenceKind, Reply, Rng, World, health_of, label_of};

/// Draft of a task and its behavior. All fields are numbers, so that proptest can shrink a failing case.
#[derive(Clone, Debug)]
struct TaskDraft {
    phase: Phase,
    wave: i64,
    kind: usize,
    role: u8,
    policies: u8,
    options: u8,
    fate: u64,
}

fn any_task_draft() -> impl Strategy<Value = TaskDraft> {
    let phase = prop_oneof![
        2 => Just(Phase::PreSync),
        6 => Just(Phase::Sync),
        2 => Just(Phase::PostSync),
        2 => Just(Phase::SyncFail),
    ];
    (phase, 0_i64..3, 0_usize..5, 0_u8..10, 0_u8..8, any::<u8>(), any::<u64>()).prop_map(
        |(phase, wave, kind, role, policies, options, fate)| TaskDraft {
            phase,
            wave,
            kind,
            role,
            policies,
            options,
            fate,
        },
    )
}

const KINDS: [&str; 5] = ["CustomResourceDefinition", "ConfigMap", "Deployment", "Job", "Widget"];

fn task_of(number: usize, draft: &TaskDraft) -> Task {
    let object = format!("{}/t{number}", KINDS[draft.kind]);
    let only_hooks = draft.phase != Phase::Sync;
    let mut task = match draft.role {
        0..=3 if !only_hooks => resource(draft.wave, &object),
        4 if !only_hooks => resource(draft.wave, &object).with_action(Action::Apply).with_live_object(),
        5 | 6 if !only_hooks => prune_task(draft.wave, &object),
        7 if !only_hooks => resource(draft.wave, &object).with_action(Action::Unchanged).with_live_object(),
        8 if !only_hooks => prune_task(draft.wave, &object).with_action(Action::PruneSkipped),
        _ => hook_task(draft.phase, draft.wave, &object),
    };
    if draft.options & 1 == 1 && task.action.writes_manifest() {
        task = task.with_late_check();
    }
    if draft.options & 6 == 6 && task.action == Action::Prune {
        task = task.with_confirmation();
    }
    let Some(hook) = &mut task.hook else { return task };
    if draft.options & 8 == 8 {
        hook.timeout = Some(seconds(4));
    }
    if draft.options & 48 == 48 {
        hook.runner = Some("runner".into());
    }
    use DeletePolicy as P;
    hook.delete_policies = [P::BeforeHookCreation, P::HookSucceeded, P::HookFailed]
        .into_iter()
        .zip([1, 2, 4])
        .filter(|(_, bit)| draft.policies & bit > 0)
        .map(|(policy, _)| policy)
        .collect();
    if hook.delete_policies.is_empty() {
        hook.delete_policies.push(P::BeforeHookCreation);
    }
    if draft.options & 64 == 64 { task.with_live_object() } else { task }
}

/// Changes the behavior of an object. No problem lasts forever, so every operation can end.
fn randomize_behavior(fate: &mut Behavior, number: u64) {
    let mut dice = Rng(number);
    let replies = |dice: &mut Rng| {
        let mut replies = Vec::new();
        while dice.chance(15) {
            replies.push(match dice.below(5) {
                0 => Reply::RetryAfter(2500),
                1 => Reply::Rejected("no".into()),
                _ => Reply::Busy,
            });
        }
        replies.into_iter().collect()
    };
    fate.check = replies(&mut dice);
    fate.write = replies(&mut dice);
    fate.end = replies(&mut dice);
    fate.evidence =
        [EvidenceKind::Generation, EvidenceKind::Identity, EvidenceKind::Nothing][dice.below(3) as usize % 3];
    fate.deletion_delay = [0, 0, 1500, 20_000][dice.below(4) as usize % 4];
    fate.runner_succeeds = dice.chance(80);
    if dice.chance(5) {
        fate.deleted_after = Some(700);
    }
    let mut rivals = Rng(!number);
    while rivals.chance(20) {
        fate.rivals.push_back(rivals.below(5000) as i64);
    }
    fate.starts_suspended = Rng(number.rotate_left(17)).chance(50);
    if fate.health.is_empty() {
        return;
    }
    let middle =
        [HealthStatus::Progressing, HealthStatus::Suspended, HealthStatus::Missing, HealthStatus::Unknown];
    let end = if dice.chance(15) { HealthStatus::Degraded } else { HealthStatus::Healthy };
    fate.health = vec![
        (0, health_of(middle[dice.below(4) as usize % 4], "begins")),
        (1 + dice.below(6000) as i64, health_of(end, "ends")),
    ];
}

#[derive(Clone, Debug)]
struct Scenario {
    drafts: Vec<TaskDraft>,
    request: SyncRequest,
    gates: u64,
    timeouts: u64,
    /// Seed of the dependencies. Half of the plans have none.
    dependencies: u64,
    weather: Disturbances,
}

fn any_request() -> impl Strategy<Value = SyncRequest> {
    let retry = (0_i64..3, any::<bool>());
    let flags = (0_u8..8, any::<bool>(), any::<bool>());
    (retry, flags, proptest::option::weighted(0.2, 0_u64..4), proptest::option::weighted(0.2, 5_u64..60))
        .prop_map(|((limit, restart), (dry_run, skip_dry_run, healthy), delay, deadline)| SyncRequest {
            options: SyncOptions { dry_run: dry_run == 0, skip_dry_run, ..SyncOptions::default() },
            retry: RetryPolicy { limit, restart, backoff: Backoff::default() },
            wait: if healthy { WaitFor::Healthy } else { WaitFor::Synced },
            wave_delay: delay.map(seconds),
            deadline: deadline.map(seconds),
            ..request()
        })
}

fn any_disturbances() -> impl Strategy<Value = Disturbances> {
    (any::<u64>(), 0_u64..300, 0_u64..30, 0_u64..30, 0_u64..6, 0_u64..4, any::<bool>()).prop_map(
        |(seed, max_delay, repeat_chance, distortion_chance, crash_chance, request_chance, can_terminate)| {
            Disturbances {
                rng: Rng(seed),
                max_delay,
                repeat_chance,
                distortion_chance,
                crash_chance,
                request_chance,
                can_terminate,
            }
        },
    )
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let drafts = proptest::collection::vec(any_task_draft(), 1..14);
    (drafts, any_request(), any::<[u64; 3]>(), any_disturbances()).prop_map(
        |(drafts, request, [gates, timeouts, dependencies], weather)| Scenario {
            drafts,
            request,
            gates,
            timeouts,
            dependencies,
            weather,
        },
    )
}

/// Returns random dependencies within the waves. A task depends only on tasks with lower numbers, which may be of
/// any kind, so there are no cycles.
fn random_dependencies(plan: &Plan, numbers: &[usize], mut dice: Rng) -> Vec<TaskDependency> {
    let mut dependencies = Vec::new();
    if dice.chance(50) {
        return dependencies;
    }
    for (dependent, task) in plan.tasks_with_ids() {
        for (dependency, other) in plan.tasks_with_ids() {
            let is_possible = (task.phase, task.wave) == (other.phase, other.wave)
                && task.action.is_prune() == other.action.is_prune()
                && numbers[dependency.index()] < numbers[dependent.index()];
            if is_possible && dice.chance(40) {
                dependencies.push(TaskDependency { dependent, dependency });
            }
        }
    }
    dependencies
}

fn plan_of(scene: &Scenario) -> Plan {
    let mut tasks: Vec<(usize, Task)> =
        scene.drafts.iter().enumerate().map(|(number, draft)| (number, task_of(number, draft))).collect();
    tasks.sort_by_key(|(number, task)| {
        (task.phase, task.wave, KINDS.iter().position(|kind| *kind == task.gvk.kind), *number)
    });
    let numbers: Vec<usize> = tasks.iter().map(|(number, _)| *number).collect();
    let mut plan = plan(tasks.into_iter().map(|(_, task)| task));
    plan.dependencies = random_dependencies(&plan, &numbers, Rng(scene.dependencies));
    let mut dice = Rng(scene.gates);
    for wave in &mut plan.waves {
        if dice.chance(20) {
            wave.gates.push("gate".into());
        }
        if dice.chance(20) {
            wave.gates.push("concurrency:g".into());
        }
    }
    let mut dice = Rng(scene.timeouts);
    for wave in &mut plan.waves {
        if dice.chance(20) {
            wave.timeout = Some(seconds(1 + dice.below(8)));
        }
    }
    plan
}

fn world_of(scene: &Scenario) -> World {
    let plan = plan_of(scene);
    let mut world = World::new(plan, scene.request.clone());
    for (number, draft) in scene.drafts.iter().enumerate() {
        let object = format!("{}/t{number}", KINDS[draft.kind]);
        world.configure(&object, |fate| randomize_behavior(fate, draft.fate));
    }
    let mut dice = Rng(scene.gates);
    while dice.chance(50) {
        let closed = Verdict::Closed { reason: "not yet".into(), ask_again_after: seconds(dice.below(3)) };
        let gate = if dice.chance(70) { "gate" } else { "concurrency:g" };
        world.gates.entry(gate.into()).or_default().push_back(closed);
    }
    // Confirm and unpause requests are repeated, because a crash can lose a request.
    for round in 1..60 {
        world.schedule_input(round * 20_000, Input::ConfirmPrune { by: "ann".into() });
        world.schedule_input(round * 20_000, Input::Unpause { by: "ann".into() });
    }
    world.disturbances = scene.weather.clone();
    world
}

/// Checks the invariants of a finished operation.
fn check_end(world: &World, stubborn: &[TaskId]) {
    let operation = world.operation();
    let Outcome { phase, message, .. } = operation.outcome.clone().unwrap();
    assert!(phase.is_completed());
    let only_tries = operation.header.request.options.dry_run;
    if only_tries {
        assert!(
            world.cluster.writes.is_empty(),
            "a dry run must not write to the cluster: {:?}",
            world.cluster.writes
        );
    }
    for (id, task, state) in operation.all_tasks() {
        let name = label_of(task);
        if phase == OperationPhase::Succeeded {
            let kept = state.message.starts_with("failed to delete resource");
            assert!(!state.is_unsuccessful() || kept, "{name} failed in a successful operation");
            let due = task.action != Action::Unchanged && task.phase != Phase::SyncFail;
            assert!(!due || state.order > 0, "{name} has no result");
            let ran =
                task.phase == Phase::SyncFail && state.order > 0 && !operation.overrides.contains_key(&id);
            assert!(
                !ran || only_tries || kept,
                "{name} is a SyncFail hook and must run only after a failure"
            );
        }
        let object = world.cluster.objects.get(&id).filter(|object| object.created_in_attempt.is_some());
        if let (true, Some(object)) = (task.is_hook(), object) {
            let freed = !object.has_finalizer || stubborn.contains(&id);
            assert!(freed, "{name} still has its finalizer after: {message}");
        }
    }
}

fn operation_restarts(world: &World) -> bool {
    world.plan.restart_on_retry || world.operation().header.request.retry.restart
}

/// Checks the invariants of all writes and events.
fn check_history(world: &World) {
    let mut created: BTreeMap<(TaskId, u32), u32> = BTreeMap::new();
    let mut started: BTreeMap<(TaskId, u32), u32> = BTreeMap::new();
    let mut deleted: BTreeMap<&String, u32> = BTreeMap::new();
    for write in &world.cluster.writes {
        match &write.change {
            Change::Created if world.plan.task(write.task).unwrap().is_hook() => {
                *created.entry((write.task, write.attempt)).or_default() += 1;
            }
            Change::Deleted(uid) => *deleted.entry(uid).or_default() += 1,
            Change::Started => *started.entry((write.task, write.attempt)).or_default() += 1,
            Change::Created | Change::Updated => {}
        }
    }
    let mut wanted: BTreeMap<(TaskId, u32), u32> = BTreeMap::new();
    let mut during = 1;
    for event in &world.durable {
        match event {
            OperationEvent::RetryStarted { attempt, .. } | OperationEvent::ReplanStarted { attempt, .. } => {
                during = *attempt
            }
            OperationEvent::Overridden { task, what: Override::Retry, .. } => {
                *wanted.entry((*task, during)).or_default() += 1;
            }
            _ => {}
        }
    }
    let allowed = |key: &(TaskId, u32)| 1 + wanted.get(key).copied().unwrap_or_default();
    let vanished = |id: &TaskId| world.cluster.behaviors[id].deleted_after.is_some();
    let is_fine = |(key, n): (&(TaskId, u32), &u32)| *n <= allowed(key) || vanished(&key.0);
    assert!(created.iter().all(is_fine), "a hook ran twice: {created:?}");
    assert!(started.iter().all(is_fine), "a suspended hook started twice: {started:?}");
    assert!(deleted.values().all(|n| *n == 1), "an object was deleted twice: {deleted:?}");
    let mut applied = BTreeMap::new();
    let mut attempt = 1;
    let mut failed = false;
    for event in &world.durable {
        match event {
            OperationEvent::RetryStarted { attempt: next, .. }
            | OperationEvent::ReplanStarted { attempt: next, .. } => (attempt, failed) = (*next, false),
            OperationEvent::AttemptFailed { .. } => failed = true,
            OperationEvent::Applied { task, .. } | OperationEvent::RunnerStarted { task, .. } => {
                *applied.entry((*task, attempt)).or_insert(0) += 1;
                let phase = world.plan.task(*task).unwrap().phase;
                assert_eq!(
                    phase == Phase::SyncFail,
                    failed,
                    "SyncFail tasks, and only they, must run after a failure: {task}"
                );
            }
            _ => {}
        }
    }
    let restarts = operation_restarts(world);
    crate::dependencies::check_order(&world.plan, &world.durable, restarts);
    assert!(applied.iter().all(|(key, n)| *n <= allowed(key)), "applied twice in one attempt: {applied:?}");
}

fn check_scenario(scene: &Scenario) {
    let mut world = world_of(scene);
    let refuses = |fate: &Behavior| fate.end.iter().any(|reply| matches!(reply, Reply::Rejected(_)));
    let stubborn: Vec<TaskId> =
        world.cluster.behaviors.iter().filter(|(_, fate)| refuses(fate)).map(|(id, _)| *id).collect();
    world.run();
    assert!(
        world.driver().state().is_finished(),
        "stuck in {}: {}",
        world.driver().state().name(),
        world.driver().state().message()
    );
    world.check_replay();
    world.event_consumer.check(&world.durable);
    check_end(&world, &stubborn);
    check_history(&world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_ends_and_keeps_the_invariants(scene in any_scenario()) {
        check_scenario(&scene);
    }
}
