//! Which kinds does the cluster serve, and which come with this operation?

use std::collections::BTreeMap;

use tidegate_model::{Discovery, GroupKind, Gvk, Object};

/// How a cluster serves a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served<'d> {
    /// In the version asked for.
    Yes,
    /// In these versions only.
    OtherVersions(&'d [String]),
    /// Not at all.
    No,
}

/// What the cluster serves, and the kinds that the CRDs among the manifests declare.
#[derive(Debug)]
pub(crate) struct Kinds<'d> {
    discovery: &'d Discovery,
    declared: BTreeMap<GroupKind, bool>,
}

impl<'d> Kinds<'d> {
    /// Collects what is known of kinds.
    pub fn new<'o>(discovery: &'d Discovery, objects: impl Iterator<Item = &'o Object>) -> Self {
        let declared = objects
            .filter_map(|object| Some((declared_kind(object)?, object.text("/spec/scope") != "Cluster")))
            .collect();
        Self { discovery, declared }
    }

    /// Whether objects of a kind live in a namespace; `None` when nobody knows.
    pub fn namespaced(&self, kind: &GroupKind) -> Option<bool> {
        self.discovery.namespaced(kind).or_else(|| self.declared.get(kind).copied())
    }

    /// Whether the cluster serves a kind.
    pub fn served(&self, gvk: &Gvk) -> Served<'d> {
        match self.discovery.get(&gvk.group_kind()) {
            Some(info) if info.versions.contains(&gvk.version) => Served::Yes,
            Some(info) => Served::OtherVersions(&info.versions),
            None => Served::No,
        }
    }
}

/// Whether a kind is the kind of CRDs.
pub(crate) fn is_crd(group: &str, kind: &str) -> bool {
    group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition"
}

/// The kind a CRD declares; `None` for anything else.
pub(crate) fn declared_kind(object: &Object) -> Option<GroupKind> {
    if !is_crd(object.group(), object.kind()) {
        return None;
    }
    let (group, kind) = (object.text("/spec/group"), object.text("/spec/names/kind"));
    (!group.is_empty() && !kind.is_empty()).then(|| GroupKind::new(group, kind))
}
