//! An ApplicationSet's Applications in the cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::AppKey;
use tidegate_applicationset::changes::AppSetOutput;
use tidegate_model::argo::{Application, ApplicationSet};

use super::member_status::member_key;
use super::shared::AppSetShared;

/// Returns the cached Applications that an ApplicationSet owns or whose names it generates. All are in the
/// ApplicationSet's namespace.
pub fn cached_members(
    shared: &AppSetShared,
    set: &ApplicationSet,
    generated: Option<&AppSetOutput>,
) -> BTreeMap<String, Arc<Application>> {
    let cache = &shared.applications.application_cache;
    let key = AppKey::of_appset(set);
    let mut names = cache.owned_by(&key);
    if let Some(generated) = generated {
        names.extend(generated.applications.keys().chain(generated.rejected.keys()).cloned());
    }
    let find = |name: String| Some((name.clone(), cache.get(&member_key(&key, &name))?));
    names.into_iter().filter_map(find).collect()
}

/// Returns copies of the Applications, to compare them with the generated ones.
pub fn existing_members(
    shared: &AppSetShared,
    set: &ApplicationSet,
    generated: Option<&AppSetOutput>,
) -> Vec<Application> {
    cached_members(shared, set, generated).into_values().map(|one| one.as_ref().clone()).collect()
}
