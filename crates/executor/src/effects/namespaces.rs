//! Namespaces on their way out: whatever is put into one goes with it.

use std::collections::BTreeSet;

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::Gvk;

use super::Errand;

/// How many namespaces one plan looks at; few operations deploy to more.
const LOOKS_MAX: usize = 64;

/// Which of these namespaces are being deleted, as far as that can be seen. One
/// call at a time: a plan has one place among the calls under way.
pub(super) async fn terminating(cluster: &dyn Cluster, namespaces: BTreeSet<String>) -> BTreeSet<String> {
    let mut terminating = BTreeSet::new();
    for name in namespaces.into_iter().filter(|name| !name.is_empty()).take(LOOKS_MAX) {
        if is_terminating(cluster, &name).await {
            terminating.insert(name);
        }
    }
    terminating
}

/// Whether a namespace is being deleted. Whoever may not see it is not told.
async fn is_terminating(cluster: &dyn Cluster, name: &str) -> bool {
    let found = cluster.get(&Gvk::new("", "v1", "Namespace"), "", name).await;
    found.is_ok_and(|found| found.is_some_and(|namespace| namespace.is_deleting()))
}

/// After the last object of a namespace was written: fails when the namespace has begun to go meanwhile, and everything
/// that was put there with it. Servers go on changing what is in such a namespace.
pub(super) async fn still_there(cluster: &dyn Cluster, errand: &Errand<'_>) -> Result<(), CallError> {
    let name = &errand.task.namespace;
    if errand.is_last_in_namespace && !name.is_empty() && is_terminating(cluster, name).await {
        return Err(CallError::permanent(format!(
            "namespace {name} is being deleted, and with it all that this operation put there; sync again when it is gone"
        )));
    }
    Ok(())
}
