//! The Applications of a set, as the board has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_applicationset::changes::Generated;
use tidegate_model::argo::{Application, ApplicationSet};

use super::key_of;
use super::shared::SetShared;
use super::standing::member;

/// Those in the namespace of a set that it owns, or has generated the names of.
pub(crate) fn of(
    shared: &SetShared,
    set: &ApplicationSet,
    generated: Option<&Generated>,
) -> BTreeMap<String, Arc<Application>> {
    let board = &shared.applications.board;
    let key = key_of(set);
    let mut names = board.owned_by(&key);
    if let Some(generated) = generated {
        names.extend(generated.applications.keys().chain(generated.refused.keys()).cloned());
    }
    let find = |name: String| Some((name.clone(), board.get(&member(&key, &name))?));
    names.into_iter().filter_map(find).collect()
}

/// The same, to be compared with what is generated.
pub(crate) fn existing(
    shared: &SetShared,
    set: &ApplicationSet,
    generated: Option<&Generated>,
) -> Vec<Application> {
    of(shared, set, generated).into_values().map(|one| one.as_ref().clone()).collect()
}
