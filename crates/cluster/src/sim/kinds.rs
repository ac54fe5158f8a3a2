//! Which kinds the cluster serves: the built-in ones, and those whose definition is established.

use std::collections::BTreeMap;

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo, Object, ObjectKey};

use super::json::{has_condition, list_at};
use super::{SimState, refuse};
use crate::ClusterError;

/// A served custom kind.
#[derive(Clone, Debug, PartialEq)]
struct Custom {
    definition: ObjectKey,
    /// Its status can only be written by a controller.
    status_apart: bool,
}

/// Derived from the definitions in the cluster, and never kept on disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kinds {
    served: Discovery,
    custom: BTreeMap<GroupKind, Custom>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { served: Discovery::built_in(), custom: BTreeMap::new() }
    }
}

/// The group and kind a definition defines.
fn defined(definition: &Object) -> GroupKind {
    GroupKind::new(definition.text("/spec/group"), definition.text("/spec/names/kind"))
}

/// Whether an object defines a kind.
pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.kind == "CustomResourceDefinition" && key.group == "apiextensions.k8s.io"
}

impl Kinds {
    pub(crate) fn discovery(&self) -> &Discovery {
        &self.served
    }

    /// Whether objects of the kind live in a namespace; `None` when this version of it is not served.
    pub(crate) fn namespaced(&self, gvk: &Gvk) -> Option<bool> {
        let info = self.served.get(&gvk.group_kind())?;
        info.versions.contains(&gvk.version).then_some(info.namespaced)
    }

    /// Whether the kind is not built in.
    pub(crate) fn is_custom(&self, kind: &GroupKind) -> bool {
        self.custom.contains_key(kind)
    }

    /// Whether `status` in a manifest is ignored, because only controllers write it.
    pub(crate) fn status_is_apart(&self, kind: &GroupKind) -> bool {
        self.custom.get(kind).is_none_or(|custom| custom.status_apart)
    }

    /// The definition of a custom kind.
    pub(crate) fn definition(&self, kind: &GroupKind) -> Option<ObjectKey> {
        self.custom.get(kind).map(|custom| custom.definition.clone())
    }

    /// Serves what an established definition defines. A built-in kind cannot be redefined.
    pub(crate) fn learn(&mut self, definition: &Object) {
        let kind = defined(definition);
        if !has_condition(definition, "Established", "True")
            || (self.served.get(&kind).is_some() && !self.custom.contains_key(&kind))
        {
            return;
        }
        let served =
            list_at(definition, "/spec/versions").iter().filter(|version| version["served"] != false);
        let served: Vec<_> = served.collect();
        let versions =
            served.iter().filter_map(|version| version["name"].as_str()).map(str::to_owned).collect();
        let namespaced = definition.text("/spec/scope") == "Namespaced";
        let status_apart = served.iter().any(|version| version.pointer("/subresources/status").is_some());
        self.served.kinds.insert(kind.clone(), KindInfo { versions, namespaced });
        self.custom.insert(kind, Custom { definition: definition.key(), status_apart });
    }

    /// Stops serving what a definition defined, once the definition is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        if is_definition(key) {
            let gone = |custom: &Custom| custom.definition == *key;
            let kinds: Vec<_> =
                self.custom.iter().filter(|(_, custom)| gone(custom)).map(|(kind, _)| kind.clone()).collect();
            for kind in kinds {
                self.custom.remove(&kind);
                self.served.kinds.remove(&kind);
            }
        }
    }
}

impl SimState {
    /// Whether objects of the kind live in a namespace.
    pub(crate) fn namespaced(&self, gvk: &Gvk) -> Result<bool, ClusterError> {
        self.kinds.namespaced(gvk).ok_or_else(|| refuse::unknown_kind(gvk))
    }

    /// The key under which an object of this kind, namespace and name is kept.
    pub(crate) fn key_of(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<ObjectKey, ClusterError> {
        let namespace = if self.namespaced(gvk)? { namespace } else { "" };
        Ok(ObjectKey::new(&gvk.group, &gvk.kind, namespace, name))
    }

    /// The kinds that a definition defines and this cluster serves because of it.
    pub(crate) fn served_by(&self, definition: &ObjectKey) -> Option<GroupKind> {
        let found = self.kinds.custom.iter().find(|(_, custom)| custom.definition == *definition);
        found.map(|(kind, _)| kind.clone())
    }
}
