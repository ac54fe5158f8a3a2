//! Which objects of an application are not pruned or deleted before somebody has confirmed it.

use std::collections::BTreeMap;

use tidegate_model::{Object, ObjectKey, SyncOptions};
use tidegate_planner::asks_for_confirmation;

/// Which objects a person has to confirm the deletion of (`Delete=confirm`, `Prune=confirm`).
pub(super) struct Confirmations<'a> {
    options: &'a SyncOptions,
    /// The manifests, by group, kind and name.
    wanted: BTreeMap<(&'a str, &'a str, &'a str), Vec<&'a Object>>,
}

impl<'a> Confirmations<'a> {
    /// As the application and its manifests have them.
    pub fn of(options: &'a SyncOptions, wanted: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut by_name = BTreeMap::<_, Vec<&'a Object>>::new();
        for object in wanted {
            by_name.entry((object.group(), object.kind(), object.name())).or_default().push(object);
        }
        Self { options, wanted: by_name }
    }

    /// Whether the deletion of an object has to be confirmed, by its manifest or as the cluster has it.
    pub fn are_asked_for(&self, key: &ObjectKey, live: Option<&Object>) -> bool {
        let named = self.wanted.get(&(key.group.as_str(), key.kind.as_str(), key.name.as_str()));
        // The last of several counts, and those that name no namespace may mean this one.
        let last = |is_it: &dyn Fn(&str) -> bool| {
            named.into_iter().flatten().rev().copied().find(|object| is_it(object.namespace()))
        };
        let wanted = last(&|namespace| namespace == key.namespace)
            .or_else(|| last(&|namespace| namespace.is_empty() || key.namespace.is_empty()));
        wanted.into_iter().chain(live).any(|object| asks_for_confirmation(object, self.options))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whose_deletion_has_to_be_confirmed() {
        let object = |namespace: &str, said: &str| {
            Object::try_from(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": "a", "namespace": namespace, "annotations": {"argocd.argoproj.io/sync-options": said},
                },
            }))
            .unwrap()
        };
        let key = ObjectKey::new("", "ConfigMap", "web", "a");
        // Options of the application, of manifests by their namespaces, and of the live object.
        for (flags, wanted, live, expected) in [
            (&[][..], &[][..], None, false),
            (&[], &[("web", "")], Some(""), false),
            (&[], &[("web", "Prune=confirm")], None, true),
            (&[], &[("web", "Validate=false , Delete=confirm")], None, true),
            (&[], &[("web", "Delete=true,Delete=confirm")], None, false),
            // In the cluster it is so until the next sync, and of what is no longer wanted.
            (&[], &[("web", "Prune=true")], Some("Prune=confirm"), true),
            (&[], &[], Some("Delete=confirm"), true),
            (&[], &[], Some("Prune=false"), false),
            // An annotation goes before the application, for each of the two by itself.
            (&["Delete=confirm"], &[("web", "")], None, true),
            (&["Delete=confirm"], &[("web", "Delete=true")], Some("Delete=false"), false),
            (&["Delete=confirm"], &[("web", "Prune=true")], None, true),
            (&["Prune=false", "Prune=confirm"], &[], Some(""), false),
            // It is the manifest of this one.
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
                wanted.iter().map(|(namespace, said)| object(namespace, said)).collect();
            let live = live.map(|said| object("web", said));
            let confirmations = Confirmations::of(&options, &objects);
            let found = confirmations.are_asked_for(&key, live.as_ref());
            assert_eq!(found, expected, "{flags:?} {wanted:?} {live:?}");
        }
    }
}
