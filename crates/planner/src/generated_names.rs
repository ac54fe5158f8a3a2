//! Names for hooks that have only a name prefix.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Object, Phase, SyncRequest, Timestamp};

use crate::hooks::{self, SyncRole, generated_hook_name};
use crate::known_kinds::KnownKinds;
use crate::manifests::Target;
use crate::object_scope::object_scope;

/// Generated hook names in a plan. Hooks with the same prefix, kind and phase get distinct names that don't
/// depend on the input order: the hook whose content sorts first gets the plain name, the others a numeric
/// suffix. Identical hooks count once.
#[derive(Debug)]
pub(crate) struct GeneratedNames<'r> {
    revision: &'r str,
    started_at: Timestamp,
    /// The number in each hook's suffix, by the hook's position in the input (from 0) and phase. Hooks with a
    /// unique prefix aren't listed.
    suffix_numbers: BTreeMap<(usize, Phase), usize>,
}

impl<'r> GeneratedNames<'r> {
    /// Finds the hooks whose names would clash.
    pub fn new(
        request: &'r SyncRequest,
        targets: &[Target],
        kinds: &KnownKinds<'_>,
        started_at: Timestamp,
    ) -> Self {
        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, target) in targets.iter().enumerate() {
            let object = &target.object;
            if !object.name().is_empty() {
                continue;
            }
            let SyncRole::Hook(phases) = hooks::role_in_operation(request, object) else { continue };
            let namespace = object_scope(object, kinds, &request.namespace).namespace;
            for phase in phases {
                let key = (object.group(), object.kind(), namespace, object.generate_name(), phase);
                alike.entry(key).or_default().push(place);
            }
        }
        let mut suffix_numbers = BTreeMap::new();
        for ((.., phase), places) in alike.into_iter().filter(|(_, places)| places.len() > 1) {
            let content =
                |place: &usize| targets.get(*place).map(|target| target.object.as_value().to_string());
            let contents: BTreeSet<_> = places.iter().map(content).collect();
            for place in places {
                let suffix = contents.iter().position(|other| *other == content(&place)).unwrap_or_default();
                suffix_numbers.insert((place, phase), suffix);
            }
        }
        Self { revision: &request.revision, started_at, suffix_numbers }
    }

    /// Returns the generated name of the hook at a position in the input (from 0).
    pub fn name_for(&self, place: usize, object: &Object, phase: Phase) -> String {
        let name = generated_hook_name(object.generate_name(), self.revision, phase, self.started_at);
        match self.suffix_numbers.get(&(place, phase)).copied().unwrap_or_default() {
            0 => name,
            suffix => format!("{name}-{}", suffix.saturating_add(1)),
        }
    }
}
