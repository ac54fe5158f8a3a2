//! Which kinds does the cluster serve, and which come with this operation?

use std::collections::{BTreeMap, HashMap};

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo, Object};

/// How a cluster serves a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served<'d> {
    /// In the version asked for.
    Yes,
    /// In these versions only.
    OtherVersions(&'d [String]),
    /// In no version: neither the cluster nor a CRD of the manifests has it.
    No,
}

/// What the cluster serves, and the kinds that the CRDs among the manifests declare.
#[derive(Debug)]
pub(crate) struct Kinds<'d> {
    served: HashMap<(&'d str, &'d str), &'d KindInfo>,
    declared: BTreeMap<GroupKind, bool>,
}

impl<'d> Kinds<'d> {
    /// Collects what is known of kinds.
    pub fn new<'o>(discovery: &'d Discovery, objects: impl Iterator<Item = &'o Object>) -> Self {
        let declared = objects
            .filter_map(|object| Some((declared_kind(object)?, object.text("/spec/scope") != "Cluster")))
            .collect();
        let served = discovery.kinds.iter().map(|(kind, info)| ((&*kind.group, &*kind.kind), info)).collect();
        Self { served, declared }
    }

    /// Whether objects of a kind live in a namespace; `None` when nobody knows.
    pub fn namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        match self.served.get(&(group, kind)) {
            Some(info) => Some(info.namespaced),
            None => self.declared.get(&GroupKind::new(group, kind)).copied(),
        }
    }

    /// Whether the cluster serves a kind.
    pub fn served(&self, gvk: &Gvk) -> Served<'d> {
        match self.served.get(&(&*gvk.group, &*gvk.kind)).copied() {
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

/// Whether a kind is that of Argo CD's Applications.
pub(crate) fn is_application(group: &str, kind: &str) -> bool {
    group == "argoproj.io" && kind == "Application"
}

/// The kind a CRD declares; `None` for anything else.
pub(crate) fn declared_kind(object: &Object) -> Option<GroupKind> {
    if !is_crd(object.group(), object.kind()) {
        return None;
    }
    let (group, kind) = (object.text("/spec/group"), object.text("/spec/names/kind"));
    (!group.is_empty() && !kind.is_empty()).then(|| GroupKind::new(group, kind))
}
