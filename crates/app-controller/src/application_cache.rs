//! Cache of each Application's current state, for readers and for restarted actors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::AppKey;
use tidegate_application::machine::Deployments;
use tidegate_applicationset::ownership::{log_key, owning_appset};
use tidegate_model::ObjectKey;
use tidegate_model::argo::Application;
use tokio::sync::broadcast;

use crate::resource_cache;

/// Cache of each Application's current state, for readers and for restarted actors.
#[derive(Default)]
pub struct ApplicationCache {
    entries: resource_cache::ResourceCache<(Arc<Application>, Arc<Deployments>)>,
    /// Applications that each ApplicationSet owns.
    owned_applications: Mutex<OwnedApplications>,
    /// Health rules of objects whose annotations select a rule other than the default for their kind.
    own_rules: Mutex<BTreeMap<AppKey, OwnRules>>,
}

/// Health rule for each object. The text is empty if no rule applies.
pub type OwnRules = BTreeMap<ObjectKey, Box<str>>;

/// Names of Applications, by ApplicationSet. An ApplicationSet and its Applications are always in the same
/// namespace.
#[derive(Default)]
struct OwnedApplications(BTreeMap<AppKey, BTreeSet<String>>);

impl OwnedApplications {
    fn set(&mut self, key: &AppKey, before: Option<&Application>, now: Option<&Application>) {
        let set = |name: &str| AppKey { namespace: key.namespace.clone(), name: name.to_owned() };
        let (before, now) = (before.and_then(owning_appset), now.and_then(owning_appset));
        if before == now {
            return;
        }
        if let Some(before) = before.map(set)
            && let Some(names) = self.0.get_mut(&before)
        {
            names.remove(&key.name);
            if names.is_empty() {
                self.0.remove(&before);
            }
        }
        if let Some(now) = now.map(set) {
            self.0.entry(now).or_default().insert(key.name.clone());
        }
    }
}

/// Result of a search for Applications.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// Applications, sorted by name.
    pub applications: Vec<Arc<Application>>,
    /// Errors in unreadable files or resources that can't be attributed to an Application.
    pub problems: Vec<String>,
}

impl ApplicationCache {
    /// Publishes an Application's state. Returns the previous state.
    pub(super) fn publish(
        &self,
        key: &AppKey,
        application: Arc<Application>,
        deployments: Deployments,
    ) -> Option<Arc<Application>> {
        // Hold the lock during the update, so that the owners always match the published state.
        let mut owned = self.owned_applications();
        let before = self.entries.insert(key, (Arc::clone(&application), Arc::new(deployments)));
        let before = before.map(|(before, _)| before);
        owned.set(key, before.as_deref(), Some(&application));
        before
    }

    pub(super) fn remove(&self, key: &AppKey) {
        let mut owned = self.owned_applications();
        let before = self.get(key);
        self.entries.remove(key);
        self.set_own_rules(key, OwnRules::new());
        owned.set(key, before.as_deref(), None);
    }

    /// Sets the objects that have their own health rules, based on an Application's last comparison.
    pub(super) fn set_own_rules(&self, key: &AppKey, rules: OwnRules) {
        let mut all = self.own_rules.lock().unwrap_or_else(PoisonError::into_inner);
        match rules.is_empty() {
            true => drop(all.remove(key)),
            false => drop(all.insert(key.clone(), rules)),
        }
    }

    /// Returns an Application's objects that have their own health rules.
    pub fn own_rules(&self, key: &AppKey) -> OwnRules {
        let all = self.own_rules.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).cloned().unwrap_or_default()
    }

    /// Returns the key that determines an Application's shard in the operation log.
    pub fn log_key(&self, key: &AppKey) -> String {
        match self.get(key) {
            Some(application) => log_key(&application.metadata),
            None => key.instance_name(),
        }
    }

    fn owned_applications(&self) -> MutexGuard<'_, OwnedApplications> {
        self.owned_applications.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the Applications that an ApplicationSet owns.
    pub fn owned_by(&self, set: &AppKey) -> BTreeSet<String> {
        self.owned_applications().0.get(set).cloned().unwrap_or_default()
    }

    pub(super) fn set_problems(&self, problems: Vec<String>) {
        self.entries.set_problems(problems);
    }

    /// Returns an Application as it was last published.
    pub fn get(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.entries.get(key).map(|(application, _)| application)
    }

    /// Returns a consistent snapshot of an Application and its deployments.
    pub fn get_with_deployments(&self, key: &AppKey) -> Option<(Arc<Application>, Arc<Deployments>)> {
        self.entries.get(key)
    }

    /// Notifies subscribers as if the Application had changed.
    pub fn notify(&self, key: &AppKey) {
        self.entries.notify_unchanged(key);
    }

    /// Subscribes to the keys of Applications that change from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<AppKey> {
        self.entries.subscribe()
    }

    /// Returns all Applications.
    pub fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.entries.all().into_iter().map(|(key, (application, _))| (key, application)).collect()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.entries.problem_messages()
    }

    /// Returns the Applications that match `text`, or all Applications if `text` is `None`.
    pub fn find(&self, text: Option<&str>) -> SearchResult {
        let (found, problems) = self.entries.find_matching(text);
        SearchResult {
            applications: found.into_iter().map(|(application, _)| application).collect(),
            problems,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn application(set: Option<&str>) -> Arc<Application> {
        let owner = set.map(|name| {
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": name, "controller": true})
        });
        let mut application = testing::application("web");
        let owners: Vec<_> = owner.into_iter().collect();
        application.metadata.rest.insert("ownerReferences".to_owned(), json!(owners));
        Arc::new(application)
    }

    #[test]
    fn the_owner_of_each_application_is_current() {
        let key = |name: &str| AppKey { namespace: "argocd".to_owned(), name: name.to_owned() };
        let cache = ApplicationCache::default();
        let owned = |set: &str| cache.owned_by(&key(set)).into_iter().collect::<Vec<_>>();
        let post =
            |name: &str, set| drop(cache.publish(&key(name), application(set), Deployments::default()));
        post("a", Some("fleet"));
        post("b", Some("fleet"));
        post("c", None);
        assert_eq!((owned("fleet"), owned("other")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        let elsewhere = AppKey { namespace: "other".to_owned(), name: "fleet".to_owned() };
        assert!(cache.owned_by(&elsewhere).is_empty());
        post("a", Some("other"));
        post("b", None);
        post("c", Some("fleet"));
        assert_eq!((owned("fleet"), owned("other")), (vec!["c".to_owned()], vec!["a".to_owned()]));
        cache.remove(&key("c"));
        cache.remove(&key("a"));
        assert_eq!((owned("fleet"), owned("other")), (vec![], vec![]));
        assert!(cache.owned_applications().0.is_empty());
    }
}
