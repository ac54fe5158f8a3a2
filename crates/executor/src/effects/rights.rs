//! The rights an operation needs, so that those it lacks are named together, before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, LiveQuery, MissingRight, Right};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, DeletePolicy, Plan, Severity, SyncRequest, Task, Warning};

use super::call_error;

/// Adds to a plan which rights it needs and the user lacks, as far as the cluster tells. They keep it from running, unless
/// it begins without a dry run: then some may come with it.
pub async fn review(cluster: &dyn Cluster, request: &SyncRequest, plan: &mut Plan) {
    let rights: BTreeSet<Right> = plan.tasks.iter().flat_map(needed).collect();
    if rights.is_empty() {
        return;
    }
    // A cluster that does not answer now is asked again by whatever comes next.
    let missing = cluster.missing_rights(&rights).await.unwrap_or_default();
    if missing.is_empty() {
        return;
    }
    let trial = request.options.dry_run || !request.options.skip_dry_run;
    plan.warnings.push(Warning {
        severity: if trial { Severity::Error } else { Severity::Warning },
        code: "missing-rights".to_owned(),
        object: None,
        origin: None,
        message: match trial {
            true => {
                format!("forbidden, so nothing is written: these rights are missing: {}", words(&missing))
            }
            false => format!("these rights are missing, unless they come with it: {}", words(&missing)),
        },
    });
}

/// What a task does to its object. What comes with the operation, a kind or a namespace, may bring rights along.
fn needed(task: &Task) -> Vec<Right> {
    let runs_elsewhere = task.hook.as_ref().is_some_and(|hook| hook.runner.is_some());
    if task.options.dry_run_at_wave || runs_elsewhere {
        return Vec::new();
    }
    let replaces_hook = task.live.is_some()
        && task.hook.as_ref().is_some_and(|hook| hook.deletes(DeletePolicy::BeforeHookCreation));
    let verbs: &[&'static str] = match task.action {
        Action::Create if !task.options.server_side => &["create"],
        Action::Create => &["create", "patch"],
        Action::Apply => &["patch"],
        Action::Replace if task.options.force => &["delete", "create"],
        Action::Replace => &["update"],
        Action::Prune => &["delete"],
        Action::PruneSkipped | Action::Unchanged => &[],
    };
    let verbs = verbs.iter().chain(replaces_hook.then_some(&"delete"));
    let right =
        |verb: &&'static str| Right { verb, gvk: task.gvk.clone(), namespace: task.namespace.clone() };
    verbs.map(right).collect()
}

/// Why the cluster cannot be read for a plan. Where it is forbidden, with all that is missing beside it.
pub(super) async fn beside(cluster: &dyn Cluster, query: &LiveQuery, error: &ClusterError) -> CallError {
    let mut failure = call_error(error);
    if error.kind != ErrorKind::Forbidden {
        return failure;
    }
    let all = query.named.iter().flat_map(|(gvk, namespace, _)| {
        ["get", "create", "patch"].map(|verb| Right { verb, gvk: gvk.clone(), namespace: namespace.clone() })
    });
    let missing = cluster.missing_rights(&all.collect()).await.unwrap_or_default();
    if !missing.is_empty() {
        failure.message = format!("{}; these rights are missing: {}", failure.message, words(&missing));
    }
    failure
}

/// `get, patch configmaps in namespace shop; create namespaces`
fn words(missing: &BTreeSet<MissingRight>) -> String {
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
