//! The rights an operation needs, so that those it lacks are named together, before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{Cluster, ClusterError, MissingRight, Right};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, Plan, Severity, SyncRequest, Task, Warning};
use tidegate_planner::bindings::is_binding;

use super::failures::call_error;

/// Adds to a plan which rights it needs and the user lacks, as far as the cluster tells. They keep it from running, unless
/// it begins without a dry run: then some may come with it. `writer` is who writes, if that is somebody else.
pub async fn review(cluster: &dyn Cluster, request: &SyncRequest, writer: &str, plan: &mut Plan) {
    let needed = all(&plan.tasks, needed);
    if needed.is_empty() {
        return;
    }
    // A cluster that does not answer now is asked again by whatever comes next.
    let mut missing = cluster.missing_rights(&needed).await.unwrap_or_default();
    if missing.is_empty() {
        return;
    }
    // Whoever grants them wants to do so once.
    let useful = &all(&plan.tasks, useful) - &needed;
    missing.extend(cluster.missing_rights(&useful).await.unwrap_or_default());
    let missing = whose(missing, writer);
    let trial = request.options.dry_run || !request.options.skip_dry_run;
    plan.warnings.push(Warning {
        severity: if trial { Severity::Error } else { Severity::Warning },
        code: "missing-rights".to_owned(),
        object: None,
        origin: None,
        message: match trial {
            true => {
                format!("forbidden, so nothing is written: these rights are missing: {missing}")
            }
            false => format!("these rights are missing, unless they come with it: {missing}"),
        },
    });
}

/// The rights of all tasks whose objects the cluster has. What comes with the operation, a kind or a namespace, may bring
/// rights along.
fn all(tasks: &[Task], verbs: impl Fn(&Task) -> Vec<&'static str>) -> BTreeSet<Right> {
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

/// What a task cannot be carried out without.
fn needed(task: &Task) -> Vec<&'static str> {
    let writes: &[_] = match (task.action, task.options.server_side) {
        (Action::Create, _) if task.options.replace => &["create", "get"],
        (Action::Create, true) => &["create", "patch"],
        (Action::Create, false) => &["create", "get"],
        (Action::Apply, true) => &["patch"],
        (Action::Apply, false) => &["get", "patch"],
        (Action::Replace, _) if task.options.force => &["create", "delete", "get"],
        (Action::Replace, _) => &["get", "update"],
        (Action::Prune, _) => &["delete"],
        (Action::PruneSkipped | Action::Unchanged, _) => &[],
    };
    // One is looked at before its finalizer is taken off, and deleted by its policy, for another attempt, or when it is
    // terminated or late, which nobody knows before.
    let hooks: &[_] = if task.is_hook() { &["create", "delete", "get", "patch"] } else { &[] };
    [writes, hooks].concat()
}

/// What makes a task go better, or may become needed: what is awaited is seen at once and not at the next look; what
/// cannot be changed is made anew.
fn useful(task: &Task) -> Vec<&'static str> {
    let Task { action, options, gvk, .. } = task;
    let recreated = options.force || is_binding(gvk);
    let sees = ["get", "list", "watch"].into_iter().filter(|_| *action != Action::PruneSkipped);
    let recreates = ["create", "delete"].into_iter().filter(|_| *action == Action::Apply && recreated);
    sees.chain(recreates).collect()
}

/// Why the cluster cannot be read for a plan. Where it is forbidden, with all that is missing beside it: `tasks` are those
/// of a plan that takes the cluster for empty.
pub(super) async fn beside(cluster: &dyn Cluster, tasks: &[Task], error: &ClusterError) -> CallError {
    let mut failure = call_error(error);
    // What is there is changed.
    let changes = |task: &Task| if task.options.replace { "update" } else { "patch" };
    let verbs = |task: &Task| [needed(task), useful(task), vec![changes(task)]].concat();
    let missing = cluster.missing_rights(&all(tasks, verbs)).await.unwrap_or_default();
    if missing.iter().any(|right| failure.message.contains(&right.resource)) {
        // Which refusal came first is chance; what is missing is the same each time.
        failure.message = format!("forbidden: these rights are missing: {}", words(&missing));
    } else if !missing.is_empty() {
        failure.message = format!("{}; these rights are missing: {}", failure.message, words(&missing));
    }
    failure
}

/// What is missing, and who lacks it where that is somebody else.
fn whose(missing: BTreeSet<MissingRight>, writer: &str) -> String {
    if writer.is_empty() {
        return words(&missing);
    }
    let (own, of_writer): (BTreeSet<_>, BTreeSet<_>) = missing.into_iter().partition(MissingRight::is_read);
    let of_writer = (!of_writer.is_empty()).then(|| format!("of {writer}: {}", words(&of_writer)));
    let own = (!own.is_empty()).then(|| words(&own));
    own.into_iter().chain(of_writer).collect::<Vec<_>>().join("; ")
}

/// `get, patch configmaps in namespace shop; create namespaces`
pub(crate) fn words(missing: &BTreeSet<MissingRight>) -> String {
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
