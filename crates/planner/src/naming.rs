//! What are hooks called that only have a prefix for their name?

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Object, Phase, SyncRequest, Timestamp};

use crate::hooks::{self, Role, generated_name};
use crate::kinds::Kinds;
use crate::manifests::Target;
use crate::targets::scope;

/// The names of one plan. Several hooks of one prefix, kind and phase get names of their own, whatever the order of the
/// input: the first by content has the usual name, the others a number behind it. Equal ones are one.
#[derive(Debug)]
pub(crate) struct Names<'r> {
    revision: &'r str,
    started_at: Timestamp,
    /// By place in the input and phase, from 0. Hooks with a prefix of their own are not in it.
    turns: BTreeMap<(usize, Phase), usize>,
}

impl<'r> Names<'r> {
    /// Finds the hooks that would get one name.
    pub fn new(
        request: &'r SyncRequest,
        targets: &[Target],
        kinds: &Kinds<'_>,
        started_at: Timestamp,
    ) -> Self {
        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, target) in targets.iter().enumerate() {
            let object = &target.object;
            if !object.name().is_empty() {
                continue;
            }
            let Role::Hook(phases) = hooks::role_for(request, object) else { continue };
            let namespace = scope(object, kinds, &request.namespace).namespace;
            for phase in phases {
                let key = (object.group(), object.kind(), namespace, object.generate_name(), phase);
                alike.entry(key).or_default().push(place);
            }
        }
        let mut turns = BTreeMap::new();
        for ((.., phase), places) in alike.into_iter().filter(|(_, places)| places.len() > 1) {
            let content =
                |place: &usize| targets.get(*place).map(|target| target.object.as_value().to_string());
            let contents: BTreeSet<_> = places.iter().map(content).collect();
            for place in places {
                let turn = contents.iter().position(|other| *other == content(&place)).unwrap_or_default();
                turns.insert((place, phase), turn);
            }
        }
        Self { revision: &request.revision, started_at, turns }
    }

    /// The name of the hook at this place in the input, from 0.
    pub fn name(&self, place: usize, object: &Object, phase: Phase) -> String {
        let name = generated_name(object.generate_name(), self.revision, phase, self.started_at);
        match self.turns.get(&(place, phase)).copied().unwrap_or_default() {
            0 => name,
            turn => format!("{name}-{}", turn.saturating_add(1)),
        }
    }
}
