//! Namespaces on their way out: whatever is put into one goes with it.

use std::collections::BTreeSet;

use tidegate_cluster::Cluster;
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
    let mut terminating = BTreeSet::new();
    for name in names.into_iter().filter(|name| !name.is_empty()).take(LOOKS_MAX) {
        let found = cluster.get(&kind(), "", name).await.ok().flatten();
        if found.as_ref().is_some_and(Object::is_deleting) {
            terminating.insert(name.to_owned());
        }
    }
    terminating
}
