//! Invariants of operations. A violated check panics with a description, and the caller adds the seed.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::sim::{AuditEntry, SimCluster, Verb};
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_lifecycle::operation::{Command, Operation, Progress, State, apply, outstanding, view};
use tidegate_model::{Action, OperationId, OperationPhase, Phase, ResultCode, Timestamp, annotations};
use tidegate_oplog::ApplicationInventory;

/// Applies all durable events.
pub fn apply_all(events: &[OperationEvent]) -> State {
    events.iter().fold(State::New, apply_event)
}

/// Applies one more event.
pub fn apply_event(state: State, event: &OperationEvent) -> State {
    apply(state, event).unwrap_or_else(|illegal| panic!("the events must be applicable: {illegal}"))
}

/// Checks that a command is recorded before it takes effect: a sent command must be outstanding in the
/// durable state. Within a step, the durable state may lag behind, for example after a failed call. The step
/// itself must be durable before any of its effects.
pub fn check_command_is_outstanding(durable: &State, known: &State, command: &Command, now: Timestamp) {
    let stage =
        |state: &State| state.operation().map(|operation| (operation.attempt, operation.stage.clone()));
    let commands = outstanding(durable, now).commands;
    assert!(
        commands.contains(command) || (stage(durable).is_some() && stage(durable) == stage(known)),
        "a command without durable intent: {command:?}\noutstanding: {commands:?}"
    );
}

/// Checks an operation's writes in the cluster.
pub fn check_writes(cluster: &SimCluster, id: OperationId, state: &State) {
    let Some(operation) = state.operation() else { return };
    let entries: Vec<AuditEntry> = cluster
        .audit()
        .into_iter()
        .filter(|entry| entry.operation_id == Some(id) && !entry.dry_run && entry.code < 300)
        .collect();
    assert!(
        !operation.header.request.options.dry_run || entries.is_empty(),
        "a dry run writes nothing, but the cluster saw {entries:?}"
    );
    check_wave_order(operation, &entries);
    check_hooks_run_once(operation, &entries);
    check_no_double_deletion(&entries);
}

fn object_location(entry: &AuditEntry) -> (String, String, String) {
    (entry.kind.clone(), entry.namespace.clone(), entry.name.clone())
}

/// Returns the positions of the waves with each object. A hook with several phases has several.
fn waves_by_object(operation: &Operation) -> BTreeMap<(String, String, String), BTreeSet<usize>> {
    let mut waves: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
    for (index, wave) in operation.plan.waves.iter().enumerate() {
        for task in operation.plan.tasks_of(wave) {
            waves
                .entry((task.gvk.kind.clone(), task.namespace.clone(), task.name.clone()))
                .or_default()
                .insert(index);
        }
    }
    waves
}

/// Checks that a wave never starts before the previous one has passed, and that SyncFail hooks run only after
/// a failure.
fn check_wave_order(operation: &Operation, entries: &[AuditEntry]) {
    let waves = waves_by_object(operation);
    let opened = |index: usize| operation.waves[index].opened_at.is_some();
    // If a retry starts from the first wave, the waves of earlier attempts don't count.
    let restarts = operation.plan.restart_on_retry || operation.header.request.retry.restart;
    let forgot = operation.attempt > 1 && restarts;
    for entry in
        entries.iter().filter(|entry| matches!(entry.verb, Verb::Apply | Verb::Create | Verb::Update))
    {
        let Some(indices) = waves.get(&object_location(entry)) else {
            panic!("a write to an object that is not in the plan: {entry:?}");
        };
        assert!(
            forgot || indices.iter().any(|index| opened(*index)),
            "a write before its wave was opened: {entry:?}"
        );
    }
    for (index, wave) in operation.plan.waves.iter().enumerate() {
        if wave.phase == Phase::SyncFail {
            let failed = operation.failure.is_some();
            assert!(!opened(index) || failed, "a SyncFail wave without a failure");
        } else if opened(index) {
            let earlier = operation.plan.waves[..index].iter().zip(&operation.waves);
            for (earlier, times) in earlier {
                let idle = earlier.task_ids().all(|id| {
                    let task = operation.plan.task(id);
                    operation.is_overridden_as_done(id)
                        || task.is_some_and(|task| task.action == Action::Unchanged)
                });
                assert!(
                    idle || times.passed_at.is_some(),
                    "wave {index} was opened before an earlier one had passed"
                );
            }
        }
    }
}

/// Checks that every hook is created at most once per attempt and phase.
fn check_hooks_run_once(operation: &Operation, entries: &[AuditEntry]) {
    let attempts = usize::try_from(operation.attempt).unwrap();
    let mut created: BTreeMap<_, usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.code == 201) {
        *created.entry(object_location(entry)).or_default() += 1;
    }
    let waves = waves_by_object(operation);
    for task in operation.plan.tasks.iter().filter(|task| task.is_hook()) {
        let place = (task.gvk.kind.clone(), task.namespace.clone(), task.name.clone());
        let times = created.get(&place).copied().unwrap_or(0);
        let phases = waves[&place].len();
        assert!(
            times <= attempts * phases,
            "hook {} was created {times} times in {attempts} attempts",
            task.name
        );
    }
}

/// Checks that an object is recreated between two deletions.
fn check_no_double_deletion(entries: &[AuditEntry]) {
    let mut deleted = BTreeSet::new();
    for entry in entries {
        if entry.verb == Verb::Delete {
            assert!(deleted.insert(object_location(entry)), "deleted twice: {entry:?}");
        } else if entry.code == 201 {
            deleted.remove(&object_location(entry));
        }
    }
}

/// Checks a finished operation.
pub fn check_end(cluster: &SimCluster, state: &State) {
    let Some(operation) = state.operation() else { return };
    let view = view(state).expect("a finished operation has a view");
    let orders: Vec<u32> = view.resources.iter().map(|result| result.order).collect();
    assert!(
        orders.iter().copied().eq(1..=u32::try_from(orders.len()).unwrap()),
        "order numbers are not dense: {orders:?}"
    );
    if view.phase == OperationPhase::Succeeded {
        assert!(
            view.resources
                .iter()
                .all(|result| !result.hook_phase.is_some_and(OperationPhase::is_unsuccessful)
                    || result.hook_type.is_some() && result.message.starts_with("failed to delete")),
            "succeeded with a failed task: {:?}",
            view.resources
        );
        check_convergence(cluster, operation);
    }
    // A finished hook must not have its finalizer anymore.
    for (_, task, task_state) in operation.all_tasks() {
        assert!(
            view.phase == OperationPhase::Error || !task_state.needs_release(),
            "hook {} keeps its finalizer",
            task.name
        );
    }
}

/// Checks that the inventory has the location of every object of the application. They were all recorded in a
/// single log, so none may be missing.
pub fn check_inventory(cluster: &SimCluster, application: &str, known: &ApplicationInventory) {
    let known: BTreeSet<_> =
        known.places.iter().map(|(gvk, namespace, name)| (&gvk.kind, namespace, name)).collect();
    for object in cluster.objects() {
        let ours = object
            .annotation(annotations::TRACKING_ID)
            .is_some_and(|id| id.split_once(':').is_some_and(|(of, _)| of == application));
        let hook = object.annotation(annotations::OPERATION_ID).is_some();
        let gvk = object.gvk();
        let place = (&gvk.kind, &object.namespace().to_owned(), &object.name().to_owned());
        assert!(
            !ours || hook || object.has_owner() || known.contains(&place),
            "{} belongs to the application but is not in its inventory",
            object.key()
        );
    }
}

/// Checks that all applied objects are in the cluster after a successful operation.
fn check_convergence(cluster: &SimCluster, operation: &Operation) {
    if operation.header.request.options.dry_run {
        return;
    }
    let objects = cluster.objects();
    // The objects of skipped tasks may be in any state.
    let done = operation.all_tasks().filter(|(id, _, _)| !operation.is_overridden_as_done(*id));
    for (_, task, state) in done {
        let is_there = objects.iter().any(|object| object.key() == task.key());
        let applied = task.action.writes_manifest() && task.phase != Phase::SyncFail && !task.is_hook();
        assert!(!applied || is_there, "{} was applied but is not in the cluster", task.key());
        let recreated = operation
            .plan
            .tasks
            .iter()
            .any(|other| other.action.writes_manifest() && other.key() == task.key());
        if task.action == Action::Prune && !recreated {
            let is_pruned = state.progress == Progress::Done && state.status == Some(ResultCode::Pruned);
            assert!(is_pruned && !is_there, "{} was not pruned, or still exists", task.key());
        }
    }
}
