//! The rights that an operation needs. All missing rights are reported together, before any write.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{Cluster, ClusterError, MissingRight, Right};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, Plan, Severity, SyncRequest, Task, Warning};
use tidegate_planner::role_bindings::is_role_binding;

use super::call_errors::call_error;

/// Adds the user's missing rights to a plan, if the cluster reports them. They block the operation unless it
/// starts without a dry run: it may then create some of the rights itself. `writer` is set if writes are made
/// as another user.
pub async fn add_missing_rights(cluster: &dyn Cluster, request: &SyncRequest, writer: &str, plan: &mut Plan) {
    let needed = collect_rights(&plan.tasks, required_verbs);
    if needed.is_empty() {
        return;
    }
    // If the cluster isn't responding, the next call reports the error.
    let mut missing = cluster.missing_rights(&needed).await.unwrap_or_default();
    if missing.is_empty() {
        return;
    }
    // List them all, so that the administrator has to grant rights only once.
    let useful = &collect_rights(&plan.tasks, optional_verbs) - &needed;
    missing.extend(cluster.missing_rights(&useful).await.unwrap_or_default());
    let missing = describe_missing_rights(missing, writer);
    let trial = request.options.dry_run || !request.options.skip_dry_run;
    plan.warnings.push(Warning {
        severity: if trial { Severity::Error } else { Severity::Warning },
        code: "missing-rights".to_owned(),
        object: None,
        origin: None,
        message: match trial {
            true => {
                format!("forbidden: nothing will be written; missing permissions: {missing}")
            }
            false => format!("missing permissions, unless the operation itself grants them: {missing}"),
        },
    });
}

/// Returns the rights for all tasks with an existing kind and namespace. An operation that creates a kind or
/// namespace may also create the rights for it.
fn collect_rights(tasks: &[Task], verbs: impl Fn(&Task) -> Vec<&'static str>) -> BTreeSet<Right> {
    let runs_elsewhere = |task: &&Task| task.hook.as_ref().is_some_and(|hook| hook.runner.is_some());
    let ours = tasks.iter().filter(|task| !(task.options.dry_run_at_wave || runs_elsewhere(task)));
    let rights = ours.flat_map(|task| {
        let right = |verb| Right {
            verb,
            gvk: task.gvk.clone(),
            namespace: task.namespace.clone(),
            name: String::new(),
        };
        verbs(task).into_iter().map(right)
    });
    rights.collect()
}

/// Returns the verbs that a task requires.
fn required_verbs(task: &Task) -> Vec<&'static str> {
    let writes: &[_] = match (task.action, task.options.server_side) {
        (Action::Create, _) if task.options.replace => &["create", "get"],
        (Action::Create, true) => &["create", "patch"],
        (Action::Create, false) => &["create", "get"],
        (Action::Apply, true) if !task.options.take_over.is_empty() => &["get", "patch"],
        (Action::Apply, true) => &["patch"],
        (Action::Apply, false) => &["get", "patch"],
        (Action::Replace, _) if task.options.force => &["create", "delete", "get"],
        (Action::Replace, _) => &["get", "update"],
        (Action::Prune, _) => &["delete"],
        (Action::PruneSkipped | Action::Unchanged, _) => &[],
    };
    // A hook is read before its finalizer is removed. Its policy, another attempt, a termination or a timeout
    // may also delete the hook, which isn't known in advance.
    let hooks: &[_] = if task.is_hook() { &["create", "delete", "get", "patch"] } else { &[] };
    [writes, hooks].concat()
}

/// Returns the verbs that a task can use but doesn't need. With `watch`, changes are observed immediately
/// rather than at the next poll. With `create` and `delete`, objects with immutable changes can be recreated.
fn optional_verbs(task: &Task) -> Vec<&'static str> {
    let Task { action, options, gvk, .. } = task;
    let recreated = options.force || is_role_binding(gvk);
    let sees = ["get", "list", "watch"].into_iter().filter(|_| *action != Action::PruneSkipped);
    let recreates = ["create", "delete"].into_iter().filter(|_| *action == Action::Apply && recreated);
    sees.chain(recreates).collect()
}

/// Converts an error from reading the cluster during planning. For a forbidden read, adds all other missing
/// rights. `tasks` are the tasks of a plan for an empty cluster.
pub(super) async fn forbidden_read_error(
    cluster: &dyn Cluster,
    tasks: &[Task],
    error: &ClusterError,
) -> CallError {
    let mut failure = call_error(error);
    // The plan for an empty cluster only creates objects, so add the verb for changing them.
    let changes = |task: &Task| if task.options.replace { "update" } else { "patch" };
    let verbs = |task: &Task| [required_verbs(task), optional_verbs(task), vec![changes(task)]].concat();
    let missing = cluster.missing_rights(&collect_rights(tasks, verbs)).await.unwrap_or_default();
    if missing.iter().any(|right| failure.message.contains(&right.resource)) {
        // Report only the set of missing rights, which doesn't depend on the call that was refused first.
        failure.message = format!("forbidden: missing permissions: {}", format_rights(&missing));
    } else if !missing.is_empty() {
        failure.message = format!("{}; missing permissions: {}", failure.message, format_rights(&missing));
    }
    failure
}

/// Describes the missing rights, and names the user if writes are made as another user.
fn describe_missing_rights(missing: BTreeSet<MissingRight>, writer: &str) -> String {
    if writer.is_empty() {
        return format_rights(&missing);
    }
    let (own, of_writer): (BTreeSet<_>, BTreeSet<_>) = missing.into_iter().partition(MissingRight::is_read);
    let of_writer = (!of_writer.is_empty()).then(|| format!("of {writer}: {}", format_rights(&of_writer)));
    let own = (!own.is_empty()).then(|| format_rights(&own));
    own.into_iter().chain(of_writer).collect::<Vec<_>>().join("; ")
}

/// Formats rights, such as `get, patch configmaps in namespace shop; create namespaces`.
pub(crate) fn format_rights(missing: &BTreeSet<MissingRight>) -> String {
    let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for MissingRight { namespace, resource, verb } in missing {
        verbs.entry((namespace, resource)).or_default().push(verb);
    }
    let phrases = verbs.iter().map(|((namespace, resource), verbs)| match *namespace {
        "" => format!("{} {resource}", verbs.join(", ")),
        _ => format!("{} {resource} in namespace {namespace}", verbs.join(", ")),
    });
    phrases.collect::<Vec<_>>().join("; ")
}
