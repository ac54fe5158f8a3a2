//! Whose turn it is, of the Applications of an ApplicationSet that are deleted in an order.
//!
//! Whoever deletes one, its objects are deleted when its turn has come: Kubernetes' garbage collector, for one, deletes all
//! Applications of a set at once where somebody deletes the set in the foreground.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_applicationset::ownership::set_of;
use tidegate_model::argo::Application;

use super::store::AppKey;

/// What the sets say of their Applications.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// All sets there are have said it once.
    is_settled: bool,
    sets: BTreeMap<AppKey, Called>,
}

/// Whose turn has come.
struct Called {
    /// The UID of the set.
    set: String,
    /// Those of the Applications.
    applications: BTreeSet<String>,
}

impl Turns {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All sets there are have been looked at: what no set has said anything of waits no longer.
    pub fn settle(&self) {
        self.known().is_settled = true;
    }

    /// The turn of these Applications of a set has come, and of no others. Says whether that is news.
    pub fn call(&self, key: &AppKey, set: &str, applications: BTreeSet<String>) -> bool {
        let mut known = self.known();
        let before = known.sets.get(key);
        let is_news = before.is_none_or(|before| before.set != set || before.applications != applications);
        known.sets.insert(key.clone(), Called { set: set.to_owned(), applications });
        is_news
    }

    /// A set has no order any more, or is gone. Says whether that is news.
    pub fn end(&self, key: &AppKey, set: &str) -> bool {
        let mut known = self.known();
        // There may be another one of its name by now.
        let is_known = known.sets.get(key).is_some_and(|known| known.set == set);
        is_known && known.sets.remove(key).is_some()
    }

    /// What an Application that is to be deleted waits for.
    pub fn awaited(&self, application: &Application) -> Option<String> {
        let namespace = application.metadata.home().to_owned();
        let set = AppKey { namespace, name: set_of(application)?.to_owned() };
        let known = self.known();
        match known.sets.get(&set) {
            Some(called) if called.applications.contains(&application.metadata.uid) => None,
            Some(_) => Some(format!("its turn: ApplicationSet {set} says in which order they are deleted")),
            None if known.is_settled => None,
            None => Some(format!("ApplicationSet {set}, which was not looked at yet")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(set: &str, uid: &str) -> Application {
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
    fn an_application_waits_until_its_set_calls_it() {
        let turns = Turns::default();
        let key = AppKey { namespace: "argocd".into(), name: "fleet".into() };
        let uids = |all: &[&str]| all.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
        let waits = |set: &str, uid: &str| turns.awaited(&of(set, uid)).is_some();
        assert!(waits("fleet", "a") && waits("other", "a"), "nothing is known of any set yet");
        assert!(turns.call(&key, "1", uids(&["a"])) && !turns.call(&key, "1", uids(&["a"])));
        assert_eq!((waits("fleet", "a"), waits("fleet", "b"), waits("other", "a")), (false, true, true));
        turns.settle();
        assert_eq!((waits("fleet", "b"), waits("other", "a")), (true, false));
        assert!(turns.call(&key, "2", uids(&["a"])), "made again under its name");
        assert!(!turns.end(&key, "1") && waits("fleet", "b"));
        assert!(turns.end(&key, "2") && !waits("fleet", "b"));
        let mut nobodys = of("fleet", "b");
        nobodys.metadata.rest.clear();
        assert_eq!(Turns::default().awaited(&nobodys), None);
    }
}
