//! Declared dependencies between Applications. When an Application changes, its dependencies and dependents
//! are notified.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::AppKey;
use tidegate_application::dependencies::affects;
use tidegate_model::argo::Application;

use super::application_cache::ApplicationCache;

/// Dependencies and dependents of each Application. Applications that have neither aren't stored.
#[derive(Default)]
pub struct DependencyGraph(Mutex<GraphState>);

#[derive(Default)]
struct GraphState {
    /// True once the dependencies of all Applications have been loaded.
    is_complete: bool,
    dependents: BTreeMap<AppKey, BTreeSet<AppKey>>,
    dependencies: BTreeMap<AppKey, BTreeSet<AppKey>>,
}

impl GraphState {
    /// Returns all of an Application's direct and transitive dependencies.
    fn all_dependencies(&self, key: &AppKey) -> BTreeSet<AppKey> {
        let (mut all, mut next) = (BTreeSet::new(), vec![key]);
        while let Some(one) = next.pop() {
            let dependencies = self.dependencies.get(one).into_iter().flatten();
            next.extend(dependencies.filter(|dependency| all.insert((*dependency).clone())));
        }
        all
    }
}

impl DependencyGraph {
    fn state(&self) -> MutexGuard<'_, GraphState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an Application's dependencies. Returns the dependencies that were added or removed.
    pub fn set_dependencies(&self, key: &AppKey, dependencies: BTreeSet<AppKey>) -> BTreeSet<AppKey> {
        let mut state = self.state();
        let before = state.dependencies.remove(key).unwrap_or_default();
        let news = before.symmetric_difference(&dependencies).cloned().collect();
        for one in before.difference(&dependencies) {
            let is_last = state.dependents.get_mut(one).is_some_and(|all| all.remove(key) && all.is_empty());
            if is_last {
                state.dependents.remove(one);
            }
        }
        for one in &dependencies {
            state.dependents.entry(one.clone()).or_default().insert(key.clone());
        }
        if !dependencies.is_empty() {
            state.dependencies.insert(key.clone(), dependencies);
        }
        news
    }

    /// Records that the dependencies of all Applications have been loaded.
    pub fn mark_complete(&self) {
        self.state().is_complete = true;
    }

    /// Returns an Application's dependents, or `None` until all dependencies have been loaded.
    fn dependents(&self, key: &AppKey) -> Option<BTreeSet<AppKey>> {
        let state = self.state();
        state.is_complete.then(|| state.dependents.get(key).cloned().unwrap_or_default())
    }

    /// Returns the existing dependents that block an Application's deletion, or `None` until all dependencies
    /// have been loaded. Applications in a cycle don't block each other, because they would wait forever.
    pub fn blocking_dependents(
        &self,
        key: &AppKey,
        cache: &ApplicationCache,
    ) -> Option<Vec<(AppKey, Arc<Application>)>> {
        // A dependent outside the control plane's namespace blocks only Applications in its own namespace.
        let needed = self.state().all_dependencies(key);
        let heard = self.dependents(key)?.into_iter();
        let heard = heard.filter(|other| affects(other, key) && !needed.contains(other));
        Some(heard.filter_map(|other| cache.get(&other).map(|found| (other, found))).collect())
    }

    /// Returns an Application's dependents and dependencies.
    pub fn related(&self, key: &AppKey) -> BTreeSet<AppKey> {
        let state = self.state();
        let both = [state.dependents.get(key), state.dependencies.get(key)];
        both.into_iter().flatten().flatten().cloned().collect()
    }
}
