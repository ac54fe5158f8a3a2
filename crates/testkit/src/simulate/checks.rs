//! What must hold whatever happens. A broken rule panics with the rule's name; the caller adds the seed.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::sim::{AuditEntry, SimCluster, Verb};
use tidegate_lifecycle::operation::Fact;
use tidegate_lifecycle::operation::{Command, Operation, Progress, State, evolve, pending, view};
use tidegate_model::{Action, OperationId, OperationPhase, Phase, ResultCode, Timestamp, annotations};
use tidegate_oplog::Known;

/// The fold over what is durable.
pub fn fold(facts: &[Fact]) -> State {
    facts.iter().fold(State::New, step)
}

/// The fold over one more fact.
pub fn step(state: State, fact: &Fact) -> State {
    evolve(state, fact).unwrap_or_else(|illegal| panic!("the log must fold: {illegal}"))
}

/// Intent before effect: a command that goes out is owed by what is durable. Within a step the durable state may be
/// behind (an earlier kind group, a call that failed), but the step itself is durable before anything is done in it.
pub fn command_is_owed(durable: &State, known: &State, command: &Command, now: Timestamp) {
    let stage =
        |state: &State| state.operation().map(|operation| (operation.attempt, operation.stage.clone()));
    let owed = pending(durable, now).commands;
    assert!(
        owed.contains(command) || (stage(durable).is_some() && stage(durable) == stage(known)),
        "a command without durable intent: {command:?}\nowed: {owed:?}"
    );
}

/// Rules about what the cluster saw of one operation.
pub fn audit(cluster: &SimCluster, id: OperationId, state: &State) {
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
    waves_in_order(operation, &entries);
    hooks_once(operation, &entries);
    nothing_deleted_twice(&entries);
}

fn place(entry: &AuditEntry) -> (String, String, String) {
    (entry.kind.clone(), entry.namespace.clone(), entry.name.clone())
}

/// Positions of the waves that hold an object; several for a hook of several phases.
fn waves_of(operation: &Operation) -> BTreeMap<(String, String, String), BTreeSet<usize>> {
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

/// No wave begins before the one before it has passed; and SyncFail hooks run only after a failure.
fn waves_in_order(operation: &Operation, entries: &[AuditEntry]) {
    let waves = waves_of(operation);
    let opened = |index: usize| operation.waves[index].opened_at.is_some();
    // An attempt that starts from the first wave forgets what earlier attempts had opened.
    let restarts = operation.plan.restart_on_retry || operation.header.request.retry.restart;
    let forgot = operation.attempt > 1 && restarts;
    for entry in
        entries.iter().filter(|entry| matches!(entry.verb, Verb::Apply | Verb::Create | Verb::Update))
    {
        let Some(indices) = waves.get(&place(entry)) else {
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
                    operation.is_passed_over(id) || task.is_some_and(|task| task.action == Action::Unchanged)
                });
                assert!(
                    idle || times.passed_at.is_some(),
                    "wave {index} was opened before an earlier one had passed"
                );
            }
        }
    }
}

/// Every hook is created at most once per attempt and phase.
fn hooks_once(operation: &Operation, entries: &[AuditEntry]) {
    let attempts = usize::try_from(operation.attempt).unwrap();
    let mut created: BTreeMap<_, usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.code == 201) {
        *created.entry(place(entry)).or_default() += 1;
    }
    let waves = waves_of(operation);
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

/// Between two deletions of an object it was created again.
fn nothing_deleted_twice(entries: &[AuditEntry]) {
    let mut deleted = BTreeSet::new();
    for entry in entries {
        if entry.verb == Verb::Delete {
            assert!(deleted.insert(place(entry)), "deleted twice: {entry:?}");
        } else if entry.code == 201 {
            deleted.remove(&place(entry));
        }
    }
}

/// Rules about an operation that is over.
pub fn ending(cluster: &SimCluster, state: &State) {
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
        converged(cluster, operation);
    }
    // A hook that is over does not keep its finalizer.
    for (_, task, task_state) in operation.all_tasks() {
        assert!(
            view.phase == OperationPhase::Error || !task_state.awaits_release(),
            "hook {} keeps its finalizer",
            task.name
        );
    }
}

/// Whatever the application has in the cluster, the inventory knows the place: one log has put it all there.
pub fn inventory(cluster: &SimCluster, application: &str, known: &Known) {
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
            "{} is the application's and not in its inventory",
            object.key()
        );
    }
}

/// After a successful operation everything that was applied is in the cluster.
fn converged(cluster: &SimCluster, operation: &Operation) {
    if operation.header.request.options.dry_run {
        return;
    }
    let objects = cluster.objects();
    // Of what a person has had it go on without nothing is known.
    let done = operation.all_tasks().filter(|(id, _, _)| !operation.is_passed_over(*id));
    for (_, task, state) in done {
        let is_there = objects.iter().any(|object| object.key() == task.key());
        let applied = task.action.writes() && task.phase != Phase::SyncFail && !task.is_hook();
        assert!(!applied || is_there, "{} was applied and is not in the cluster", task.key());
        let recreated =
            operation.plan.tasks.iter().any(|other| other.action.writes() && other.key() == task.key());
        if task.action == Action::Prune && !recreated {
            let is_pruned = state.progress == Progress::Done && state.status == Some(ResultCode::Pruned);
            assert!(is_pruned && !is_there, "{} was not pruned, or is still there", task.key());
        }
    }
}
