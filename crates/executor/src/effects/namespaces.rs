//! Namespaces on their way out: whatever is put into one goes with it.

use std::collections::BTreeSet;

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{Operation, State};
use tidegate_model::{Gvk, Object};

/// How many namespaces one operation looks at; few deploy to more.
const LOOKS_MAX: usize = 64;

/// Namespaces are of this kind.
pub(crate) fn kind() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

/// Which of these namespaces are being deleted, as far as that can be seen: whoever may not see one is not told. One call
/// at a time: whoever asks has one place among the calls under way.
pub async fn terminating(cluster: &dyn Cluster, names: impl IntoIterator<Item = &str>) -> BTreeSet<String> {
    look(cluster, names, |_, found| found.is_some_and(Object::is_deleting)).await
}

/// The same at the end of an operation, where one that was `written` into may also have gone meanwhile, while nobody was
/// there to see it.
pub async fn lost(
    cluster: &dyn Cluster,
    names: impl IntoIterator<Item = &str>,
    written: &BTreeSet<String>,
) -> BTreeSet<String> {
    look(cluster, names, |name, found| found.map_or(written.contains(name), Object::is_deleting)).await
}

async fn look(
    cluster: &dyn Cluster,
    names: impl IntoIterator<Item = &str>,
    is_meant: impl Fn(&str, Option<&Object>) -> bool,
) -> BTreeSet<String> {
    let mut meant = BTreeSet::new();
    for name in names.into_iter().filter(|name| !name.is_empty()).take(LOOKS_MAX) {
        if let Ok(found) = cluster.get(&kind(), "", name).await
            && is_meant(name, found.as_ref())
        {
            meant.insert(name.to_owned());
        }
    }
    meant
}

/// The namespaces that an operation has written into.
pub fn written(state: &State) -> BTreeSet<String> {
    let tasks = state.operation().into_iter().flat_map(Operation::all_tasks);
    let done = tasks.filter(|(_, _, state)| state.applied.is_some());
    done.map(|(_, task, _)| task.namespace.clone()).collect()
}
