//! Which application depends on which, as far as they say so: whoever changes tells those it has to do with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::dependencies::Name;
use tidegate_model::argo::Application;

use super::board::Board;
use super::store::AppKey;

/// On whom each application depends, and who depends on it. Those without either are not in it.
#[derive(Default)]
pub(crate) struct Depending(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// All applications there are have been asked on whom they depend.
    is_whole: bool,
    on: BTreeMap<AppKey, BTreeSet<AppKey>>,
    of: BTreeMap<AppKey, BTreeSet<AppKey>>,
}

impl Known {
    /// All that an application depends on, and what those depend on.
    fn needed_by(&self, key: &AppKey) -> BTreeSet<AppKey> {
        let (mut all, mut next) = (BTreeSet::new(), vec![key]);
        while let Some(one) = next.pop() {
            let wanted = self.of.get(one).into_iter().flatten();
            next.extend(wanted.filter(|wanted| all.insert((*wanted).clone())));
        }
        all
    }
}

impl Depending {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An application depends on these now. Where that is news: all whom it has begun or ceased to depend on.
    pub fn set(&self, key: &AppKey, wanted: BTreeSet<AppKey>) -> BTreeSet<AppKey> {
        let mut known = self.known();
        let before = known.of.remove(key).unwrap_or_default();
        let news = before.symmetric_difference(&wanted).cloned().collect();
        for one in before.difference(&wanted) {
            let is_last = known.on.get_mut(one).is_some_and(|all| all.remove(key) && all.is_empty());
            if is_last {
                known.on.remove(one);
            }
        }
        for one in &wanted {
            known.on.entry(one.clone()).or_default().insert(key.clone());
        }
        if !wanted.is_empty() {
            known.of.insert(key.clone(), wanted);
        }
        news
    }

    /// All applications there are have said on whom they depend.
    pub fn set_whole(&self) {
        self.known().is_whole = true;
    }

    /// Those that depend on an application; nothing before all have said on whom they depend.
    fn on(&self, key: &AppKey) -> Option<BTreeSet<AppKey>> {
        let known = self.known();
        known.is_whole.then(|| known.on.get(key).cloned().unwrap_or_default())
    }

    /// Those that are still there and keep an application from going, as they depend on it; nothing before all have said on whom
    /// they depend. Those of a cycle keep none of each other: they would wait for ever.
    pub fn keep(&self, key: &AppKey, board: &Board) -> Option<Vec<(AppKey, Arc<Application>)>> {
        let own = name(key);
        // Nobody keeps what belongs to others from going.
        let needed = self.known().needed_by(key);
        let heard = self.on(key)?.into_iter();
        let heard = heard.filter(|other| name(other).is_heard_by(&own) && !needed.contains(other));
        Some(heard.filter_map(|other| board.get(&other).map(|found| (other, found))).collect())
    }

    /// Those that depend on an application, and those it depends on.
    pub fn related(&self, key: &AppKey) -> BTreeSet<AppKey> {
        let known = self.known();
        let both = [known.on.get(key), known.of.get(key)];
        both.into_iter().flatten().flatten().cloned().collect()
    }
}

/// The same names, as the store has them.
pub(crate) fn key(name: &Name) -> AppKey {
    AppKey { namespace: name.namespace.clone(), name: name.name.clone() }
}

/// And back.
pub(crate) fn name(key: &AppKey) -> Name {
    Name { namespace: key.namespace.clone(), name: key.name.clone() }
}
