use std::collections::{BTreeMap, BTreeSet};

use crate::GroupKind;
use crate::built_in_kinds::BUILT_IN_KINDS;

/// Discovery information about a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Served versions, preferred first.
    pub versions: Vec<String>,
    /// True if objects of the kind are namespaced.
    pub namespaced: bool,
}

/// Kinds that a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Information about each kind, independent of version.
    pub kinds: BTreeMap<GroupKind, KindInfo>,
    /// Groups and versions of aggregated API servers that don't respond, so their kinds are unknown.
    pub unavailable_versions: BTreeSet<(String, String)>,
}

impl Discovery {
    /// Returns the kinds that every Kubernetes cluster serves, for use when no cluster is available.
    pub fn built_in() -> Self {
        let kinds = BUILT_IN_KINDS
            .iter()
            .map(|(group, versions, kind, namespaced)| {
                let versions = versions.split(',').map(str::to_owned).collect();
                (GroupKind::new(*group, *kind), KindInfo { versions, namespaced: *namespaced })
            })
            .collect();
        Self { kinds, unavailable_versions: BTreeSet::new() }
    }

    /// Returns the discovery information about a kind.
    pub fn get(&self, kind: &GroupKind) -> Option<&KindInfo> {
        self.kinds.get(kind)
    }

    /// Returns true if objects of the kind are namespaced; `None` if the kind is unknown.
    pub fn namespaced(&self, kind: &GroupKind) -> Option<bool> {
        self.get(kind).map(|info| info.namespaced)
    }
}
