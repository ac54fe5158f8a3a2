//! Kinds that the cluster serves: built-in kinds, and custom kinds with an established definition.

use std::collections::BTreeMap;

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo, Object, ObjectKey};

use super::json::{has_condition, list_at};

/// A custom kind served by the cluster.
#[derive(Clone, Debug, PartialEq)]
struct CustomKind {
    definition: ObjectKey,
    /// True if only controllers write the status.
    has_status_subresource: bool,
}

/// Custom kinds, by definition. Derived from the definitions in the cluster and never stored on disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kinds {
    discovery: Discovery,
    custom: BTreeMap<GroupKind, CustomKind>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { discovery: Discovery::built_in(), custom: BTreeMap::new() }
    }
}

/// Returns the group and kind of a definition.
fn defined_kind(definition: &Object) -> GroupKind {
    GroupKind::new(definition.text("/spec/group"), definition.text("/spec/names/kind"))
}

/// Returns true if an object defines a kind.
pub(crate) fn is_definition(key: &ObjectKey) -> bool {
    key.kind == "CustomResourceDefinition" && key.group == "apiextensions.k8s.io"
}

impl Kinds {
    pub(crate) fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Returns true if objects of the kind are namespaced. `None` if this version is not served.
    pub(crate) fn is_namespaced(&self, gvk: &Gvk) -> Option<bool> {
        let info = self.discovery.get(&gvk.group_kind())?;
        info.versions.contains(&gvk.version).then_some(info.namespaced)
    }

    /// Returns true if the kind is not built in.
    pub(crate) fn is_custom(&self, kind: &GroupKind) -> bool {
        self.custom.contains_key(kind)
    }

    /// Returns true if the `status` in a manifest is ignored because only controllers write it.
    pub(crate) fn has_status_subresource(&self, kind: &GroupKind) -> bool {
        self.custom.get(kind).is_none_or(|custom| custom.has_status_subresource)
    }

    /// Returns the definition of a custom kind.
    pub(crate) fn definition(&self, kind: &GroupKind) -> Option<ObjectKey> {
        self.custom.get(kind).map(|custom| custom.definition.clone())
    }

    /// Returns the kind served by a definition.
    pub(crate) fn kind_served_by(&self, definition: &ObjectKey) -> Option<GroupKind> {
        let found = self.custom.iter().find(|(_, custom)| custom.definition == *definition);
        found.map(|(kind, _)| kind.clone())
    }

    /// Starts serving the kind of an established definition. Built-in kinds cannot be redefined.
    pub(crate) fn register(&mut self, definition: &Object) {
        let kind = defined_kind(definition);
        if !has_condition(definition, "Established", "True")
            || (self.discovery.get(&kind).is_some() && !self.custom.contains_key(&kind))
        {
            return;
        }
        let served =
            list_at(definition, "/spec/versions").iter().filter(|version| version["served"] != false);
        let served: Vec<_> = served.collect();
        let versions =
            served.iter().filter_map(|version| version["name"].as_str()).map(str::to_owned).collect();
        let namespaced = definition.text("/spec/scope") == "Namespaced";
        let has_status_subresource =
            served.iter().any(|version| version.pointer("/subresources/status").is_some());
        self.discovery.kinds.insert(kind.clone(), KindInfo { versions, namespaced });
        self.custom.insert(kind, CustomKind { definition: definition.key(), has_status_subresource });
    }

    /// Stops serving the kind of a deleted definition.
    pub(crate) fn unregister(&mut self, key: &ObjectKey) {
        if is_definition(key) {
            let gone = |custom: &CustomKind| custom.definition == *key;
            let kinds: Vec<_> =
                self.custom.iter().filter(|(_, custom)| gone(custom)).map(|(kind, _)| kind.clone()).collect();
            for kind in kinds {
                self.custom.remove(&kind);
                self.discovery.kinds.remove(&kind);
            }
        }
    }
}
