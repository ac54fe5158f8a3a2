use std::collections::{BTreeMap, BTreeSet};

use crate::GroupKind;
use crate::kinds::BUILT_IN;

/// What a cluster says of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Served versions, preferred first.
    pub versions: Vec<String>,
    /// Whether objects of the kind live in a namespace.
    pub namespaced: bool,
}

/// The kinds a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// What is known of each kind, whatever its versions.
    pub kinds: BTreeMap<GroupKind, KindInfo>,
    /// Groups and versions that are served by somebody who does not answer: their kinds are not known now.
    pub silent: BTreeSet<(String, String)>,
}

impl Discovery {
    /// The kinds every Kubernetes cluster serves. Used where there is no cluster to ask.
    pub fn built_in() -> Self {
        let kinds = BUILT_IN
            .iter()
            .map(|(group, versions, kind, namespaced)| {
                let versions = versions.split(',').map(str::to_owned).collect();
                (GroupKind::new(*group, *kind), KindInfo { versions, namespaced: *namespaced })
            })
            .collect();
        Self { kinds, silent: BTreeSet::new() }
    }

    /// What is known of a kind.
    pub fn get(&self, kind: &GroupKind) -> Option<&KindInfo> {
        self.kinds.get(kind)
    }

    /// Whether objects of the kind live in a namespace; `None` when the kind is not known.
    pub fn namespaced(&self, kind: &GroupKind) -> Option<bool> {
        self.get(kind).map(|info| info.namespaced)
    }
}
