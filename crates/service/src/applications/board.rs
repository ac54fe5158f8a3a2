//! How each application stands now: for those who ask, and for the actors that begin anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::running::Deployed;
use tidegate_applicationset::ownership::set_of;
use tidegate_model::ObjectKey;
use tidegate_model::argo::Application;
use tokio::sync::broadcast;

use super::store::AppKey;
use crate::board;

/// How each application stands.
#[derive(Default)]
pub struct Board {
    posted: board::Board<(Arc<Application>, Arc<Deployments>)>,
    /// The Applications of each ApplicationSet.
    owned: Mutex<Owned>,
    /// The rules that judge objects of theirs whose annotations make that others than their kinds have.
    own_rules: Mutex<BTreeMap<AppKey, OwnRules>>,
}

/// By which rule objects are judged; an empty one is none.
pub(crate) type OwnRules = BTreeMap<ObjectKey, Box<str>>;

/// By the set, which is beside its Applications.
#[derive(Default)]
struct Owned(BTreeMap<AppKey, BTreeSet<String>>);

impl Owned {
    fn set(&mut self, key: &AppKey, before: Option<&Application>, now: Option<&Application>) {
        let set = |name: &str| AppKey { namespace: key.namespace.clone(), name: name.to_owned() };
        let (before, now) = (before.and_then(set_of), now.and_then(set_of));
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

/// What is known of how an application came to be as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deployments {
    /// The newest operation that has deployed all of it.
    pub newest: Option<Deployed>,
    /// The newest of those that were over before the comparison began which is shown: what is shown is seen after it.
    pub evidence: Option<Deployed>,
    /// Whether what is shown was compared by this process.
    pub is_compared: bool,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The applications, by name.
    pub applications: Vec<Arc<Application>>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

impl Board {
    /// Returns what was there before.
    pub(super) fn post(
        &self,
        key: &AppKey,
        application: Arc<Application>,
        deployments: Deployments,
    ) -> Option<Arc<Application>> {
        // Held meanwhile, so that it says what is posted.
        let mut owned = self.owned();
        let before = self.posted.post(key, (Arc::clone(&application), Arc::new(deployments)));
        let before = before.map(|(before, _)| before);
        owned.set(key, before.as_deref(), Some(&application));
        before
    }

    pub(super) fn remove(&self, key: &AppKey) {
        let mut owned = self.owned();
        let before = self.get(key);
        self.posted.remove(key);
        self.judged(key, OwnRules::new());
        owned.set(key, before.as_deref(), None);
    }

    /// The last comparison of an application has found that these objects are judged by rules of their own.
    pub(super) fn judged(&self, key: &AppKey, rules: OwnRules) {
        let mut all = self.own_rules.lock().unwrap_or_else(PoisonError::into_inner);
        match rules.is_empty() {
            true => drop(all.remove(key)),
            false => drop(all.insert(key.clone(), rules)),
        }
    }

    /// The rules of the objects of an application that have others than their kinds.
    pub(crate) fn own_rules(&self, key: &AppKey) -> OwnRules {
        let all = self.own_rules.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).cloned().unwrap_or_default()
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the Applications that an ApplicationSet owns.
    pub(crate) fn owned_by(&self, set: &AppKey) -> BTreeSet<String> {
        self.owned().0.get(set).cloned().unwrap_or_default()
    }

    pub(super) fn set_problems(&self, problems: Vec<String>) {
        self.posted.set_problems(problems);
    }

    pub(crate) fn get(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.posted.get(key).map(|(application, _)| application)
    }

    /// An application, and how it came to be as it is shown: both of one moment.
    pub(crate) fn sight(&self, key: &AppKey) -> Option<(Arc<Application>, Arc<Deployments>)> {
        self.posted.get(key)
    }

    /// Those that change from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.posted.changes()
    }

    pub(crate) fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.posted.all().into_iter().map(|(key, (application, _))| (key, application)).collect()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.posted.problems()
    }

    /// All, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> Found {
        let (found, problems) = self.posted.find(text);
        Found { applications: found.into_iter().map(|(application, _)| application).collect(), problems }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::applications::testing;

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
    fn it_knows_whose_each_application_is_now() {
        let key = |name: &str| AppKey { namespace: "argocd".to_owned(), name: name.to_owned() };
        let board = Board::default();
        let owned = |set: &str| board.owned_by(&key(set)).into_iter().collect::<Vec<_>>();
        let post = |name: &str, set| drop(board.post(&key(name), application(set), Deployments::default()));
        post("a", Some("fleet"));
        post("b", Some("fleet"));
        post("c", None);
        assert_eq!((owned("fleet"), owned("other")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        let elsewhere = AppKey { namespace: "other".to_owned(), name: "fleet".to_owned() };
        assert!(board.owned_by(&elsewhere).is_empty());
        post("a", Some("other"));
        post("b", None);
        post("c", Some("fleet"));
        assert_eq!((owned("fleet"), owned("other")), (vec!["c".to_owned()], vec!["a".to_owned()]));
        board.remove(&key("c"));
        board.remove(&key("a"));
        assert_eq!((owned("fleet"), owned("other")), (vec![], vec![]));
        assert!(board.owned().0.is_empty());
    }
}
