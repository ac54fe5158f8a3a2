//! Objects whose deletion or pruning a user must confirm.

use std::collections::BTreeMap;

use tidegate_model::{Object, ObjectKey, SyncOptions};
use tidegate_planner::requires_confirmation;

/// Objects whose deletion or pruning a user must confirm (`Delete=confirm`, `Prune=confirm`).
pub(super) struct Confirmations<'a> {
    options: &'a SyncOptions,
    /// Manifests by group, kind and name.
    manifests: BTreeMap<(&'a str, &'a str, &'a str), Vec<&'a Object>>,
}

impl<'a> Confirmations<'a> {
    /// Creates the lookup from an Application's sync options and manifests.
    pub fn new(options: &'a SyncOptions, wanted: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut by_name = BTreeMap::<_, Vec<&'a Object>>::new();
        for object in wanted {
            by_name.entry((object.group(), object.kind(), object.name())).or_default().push(object);
        }
        Self { options, manifests: by_name }
    }

    /// Returns true if an object's deletion must be confirmed, according to its manifest or to the live
    /// object.
    pub fn is_required(&self, key: &ObjectKey, live: Option<&Object>) -> bool {
        let named = self.manifests.get(&(key.group.as_str(), key.kind.as_str(), key.name.as_str()));
        // If several manifests match, the last wins. A manifest without a namespace may be for this object.
        let last = |is_it: &dyn Fn(&str) -> bool| {
            named.into_iter().flatten().rev().copied().find(|object| is_it(object.namespace()))
        };
        let wanted = last(&|namespace| namespace == key.namespace)
            .or_else(|| last(&|namespace| namespace.is_empty() || key.namespace.is_empty()));
        wanted.into_iter().chain(live).any(|object| requires_confirmation(object, self.options))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletions_that_need_a_confirmation_are_detected() {
        let object = |namespace: &str, value: &str| {
            Object::try_from(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": "a", "namespace": namespace, "annotations": {"argocd.argoproj.io/sync-options": value},
                },
            }))
            .unwrap()
        };
        let key = ObjectKey::new("", "ConfigMap", "web", "a");
        // Columns: the Application's options, the manifests' options by namespace, and the live object's
        // options.
        for (flags, wanted, live, expected) in [
            (&[][..], &[][..], None, false),
            (&[], &[("web", "")], Some(""), false),
            (&[], &[("web", "Prune=confirm")], None, true),
            (&[], &[("web", "Validate=false , Delete=confirm")], None, true),
            (&[], &[("web", "Delete=true,Delete=confirm")], None, false),
            // The live object's options apply until the next sync, and also if the object is no longer in the
            // manifests.
            (&[], &[("web", "Prune=true")], Some("Prune=confirm"), true),
            (&[], &[], Some("Delete=confirm"), true),
            (&[], &[], Some("Prune=false"), false),
            // An annotation overrides each of the Application's two options separately.
            (&["Delete=confirm"], &[("web", "")], None, true),
            (&["Delete=confirm"], &[("web", "Delete=true")], Some("Delete=false"), false),
            (&["Delete=confirm"], &[("web", "Prune=true")], None, true),
            (&["Prune=false", "Prune=confirm"], &[], Some(""), false),
            // A manifest without a namespace may be for this object.
            (&[], &[("", "Prune=confirm")], None, true),
            (&[], &[("other", "Prune=confirm")], None, false),
            (&[], &[("", "Prune=confirm"), ("web", "")], None, false),
            (&[], &[("web", "Prune=confirm"), ("web", "")], None, false),
        ] {
            let options = SyncOptions {
                flags: flags.iter().map(|flag: &&str| (*flag).to_owned()).collect(),
                ..SyncOptions::default()
            };
            let objects: Vec<Object> =
                wanted.iter().map(|(namespace, value)| object(namespace, value)).collect();
            let live = live.map(|value| object("web", value));
            let confirmations = Confirmations::new(&options, &objects);
            let found = confirmations.is_required(&key, live.as_ref());
            assert_eq!(found, expected, "{flags:?} {wanted:?} {live:?}");
        }
    }
}
