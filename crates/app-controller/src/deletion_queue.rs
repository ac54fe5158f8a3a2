//! Order in which an ApplicationSet's Applications are deleted.
//!
//! A deleted Application keeps its objects until its turn comes, regardless of which client deleted it. The
//! Kubernetes garbage collector, for example, deletes all Applications at once if their ApplicationSet is
//! deleted in the foreground.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_applicationset::ownership::owning_appset;
use tidegate_model::argo::Application;

use tidegate_application::AppKey;

/// Applications whose deletion may proceed, by ApplicationSet.
#[derive(Default)]
pub struct DeletionQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    /// True once all ApplicationSets have been processed.
    is_settled: bool,
    appsets: BTreeMap<AppKey, ReleasedApplications>,
}

/// Applications whose deletion may proceed now.
struct ReleasedApplications {
    /// UID of the ApplicationSet.
    appset_uid: String,
    /// UIDs of the Applications.
    application_uids: BTreeSet<String>,
}

impl DeletionQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that all ApplicationSets have been processed. Applications that aren't part of a known order
    /// stop waiting.
    pub fn mark_settled(&self) {
        self.state().is_settled = true;
    }

    /// Sets the Applications of an ApplicationSet that may be deleted now. Returns true if they have changed.
    pub fn set_released(&self, key: &AppKey, set: &str, application_uids: BTreeSet<String>) -> bool {
        let mut state = self.state();
        let before = state.appsets.get(key);
        let is_news = before
            .is_none_or(|before| before.appset_uid != set || before.application_uids != application_uids);
        state
            .appsets
            .insert(key.clone(), ReleasedApplications { appset_uid: set.to_owned(), application_uids });
        is_news
    }

    /// Removes an ApplicationSet's order, for example because the ApplicationSet is gone. Returns true if
    /// there was an order.
    pub fn remove_appset(&self, key: &AppKey, set: &str) -> bool {
        let mut state = self.state();
        // A new ApplicationSet with the same name may have been created.
        let is_known = state.appsets.get(key).is_some_and(|entry| entry.appset_uid == set);
        is_known && state.appsets.remove(key).is_some()
    }

    /// Returns the reason why an Application's deletion must wait.
    pub fn wait_reason(&self, application: &Application) -> Option<String> {
        let namespace = application.metadata.namespace_or_default().to_owned();
        let set = AppKey { namespace, name: owning_appset(application)?.to_owned() };
        let state = self.state();
        match state.appsets.get(&set) {
            Some(called) if called.application_uids.contains(&application.metadata.uid) => None,
            Some(_) => Some(format!("its turn: ApplicationSet {set} determines the order of deletion")),
            None if state.is_settled => None,
            None => Some(format!("ApplicationSet {set}, which has not been processed yet")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn application_of(set: &str, uid: &str) -> Application {
        let owner = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": set, "uid": "1", "controller": true,
        });
        let metadata = json!({"name": uid, "namespace": "argocd", "uid": uid, "ownerReferences": [owner]});
        let spec = json!({"project": "default", "destination": {}});
        let resource = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec,
        });
        serde_json::from_value(resource).unwrap()
    }

    #[test]
    fn an_application_waits_until_its_applicationset_releases_it() {
        let queue = DeletionQueue::default();
        let key = AppKey { namespace: "argocd".into(), name: "fleet".into() };
        let uids = |all: &[&str]| all.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
        let waits = |set: &str, uid: &str| queue.wait_reason(&application_of(set, uid)).is_some();
        assert!(waits("fleet", "a") && waits("other", "a"), "no ApplicationSet has been read yet");
        assert!(queue.set_released(&key, "1", uids(&["a"])) && !queue.set_released(&key, "1", uids(&["a"])));
        assert_eq!((waits("fleet", "a"), waits("fleet", "b"), waits("other", "a")), (false, true, true));
        queue.mark_settled();
        assert_eq!((waits("fleet", "b"), waits("other", "a")), (true, false));
        assert!(queue.set_released(&key, "2", uids(&["a"])), "created again under the same name");
        assert!(!queue.remove_appset(&key, "1") && waits("fleet", "b"));
        assert!(queue.remove_appset(&key, "2") && !waits("fleet", "b"));
        let mut nobodys = application_of("fleet", "b");
        nobodys.metadata.rest.clear();
        assert_eq!(DeletionQueue::default().wait_reason(&nobodys), None);
    }
}
