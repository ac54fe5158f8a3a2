//! The Applications of a set, as the board has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_applicationset::changes::Generated;
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_model::argo::{Application, ApplicationSet};

use super::shared::SetShared;
use crate::applications::store::AppKey;

/// Those in the namespace of a set that it owns, or has generated the names of.
pub(crate) fn of(
    shared: &SetShared,
    set: &ApplicationSet,
    generated: Option<&Generated>,
) -> BTreeMap<String, Arc<Application>> {
    let home = set.metadata.home();
    let is_named = |name: &str| {
        generated.is_some_and(|all| all.applications.contains_key(name) || all.refused.contains_key(name))
    };
    let is_meant = |key: &AppKey, one: &Application| {
        key.namespace == home && (is_named(&key.name) || owner(set, one) == Owner::Set)
    };
    let all = shared.applications.board.all().into_iter();
    all.filter(|(key, one)| is_meant(key, one)).map(|(key, one)| (key.name, one)).collect()
}

/// The same, to be compared with what is generated.
pub(crate) fn existing(
    shared: &SetShared,
    set: &ApplicationSet,
    generated: Option<&Generated>,
) -> Vec<Application> {
    of(shared, set, generated).into_values().map(|one| one.as_ref().clone()).collect()
}
