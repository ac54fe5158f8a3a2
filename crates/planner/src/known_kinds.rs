//! Kinds that the cluster serves or this operation defines.

use std::collections::{BTreeMap, HashMap};

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo, Object};

/// Availability of a kind in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindAvailability<'d> {
    /// Available in the requested version.
    Available,
    /// Available only in these versions.
    OtherVersions(&'d [String]),
    /// Neither served by the cluster nor defined by a CRD in the manifests.
    Unavailable,
}

/// Kinds that the cluster serves or that CRDs in the manifests define.
#[derive(Debug)]
pub(crate) struct KnownKinds<'d> {
    served: HashMap<(&'d str, &'d str), &'d KindInfo>,
    from_crds: BTreeMap<GroupKind, bool>,
}

impl<'d> KnownKinds<'d> {
    /// Collects the kinds from discovery and from the CRDs among the objects.
    pub fn new<'o>(discovery: &'d Discovery, objects: impl Iterator<Item = &'o Object>) -> Self {
        let declared = objects
            .filter_map(|object| Some((crd_kind(object)?, object.text("/spec/scope") != "Cluster")))
            .collect();
        let served = discovery.kinds.iter().map(|(kind, info)| ((&*kind.group, &*kind.kind), info)).collect();
        Self { served, from_crds: declared }
    }

    /// Returns true if a kind is namespaced, or `None` if its scope is unknown.
    pub fn is_namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        match self.served.get(&(group, kind)) {
            Some(info) => Some(info.namespaced),
            None => self.from_crds.get(&GroupKind::new(group, kind)).copied(),
        }
    }

    /// Returns the availability of a kind.
    pub fn availability(&self, gvk: &Gvk) -> KindAvailability<'d> {
        match self.served.get(&(&*gvk.group, &*gvk.kind)).copied() {
            Some(info) if info.versions.contains(&gvk.version) => KindAvailability::Available,
            Some(info) => KindAvailability::OtherVersions(&info.versions),
            None => KindAvailability::Unavailable,
        }
    }
}

/// Returns true if a kind is CustomResourceDefinition.
pub(crate) fn is_crd(group: &str, kind: &str) -> bool {
    group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition"
}

/// Returns true for Argo CD's Application.
pub(crate) fn is_application(group: &str, kind: &str) -> bool {
    group == "argoproj.io" && kind == "Application"
}

/// Returns the kind that a CRD defines, or `None` for any other object.
pub(crate) fn crd_kind(object: &Object) -> Option<GroupKind> {
    if !is_crd(object.group(), object.kind()) {
        return None;
    }
    let (group, kind) = (object.text("/spec/group"), object.text("/spec/names/kind"));
    (!group.is_empty() && !kind.is_empty()).then(|| GroupKind::new(group, kind))
}
