//! Pushes that servers of repositories tell of: each repository is looked at at once, and then the applications are compared
//! that a push is about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use tidegate_application::pushes::{PATHS_ANNOTATION, Push};
use tidegate_application::refresh::Level;
use tidegate_model::argo::Application;
use tidegate_source::{Address, Used, allows, is_touched};

use super::board::Board;
use super::manifests::Manifests;
use super::messages::SupervisorMessage;
use super::store::AppKey;

/// The repositories that are being looked at, and who is to be compared after the next look at them. What comes while a
/// repository is looked at waits for one more look, however much comes.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<BTreeMap<Address, BTreeSet<AppKey>>>>);

impl Looks {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Address, BTreeSet<AppKey>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a repository, and has these applications compared.
    pub fn begin(
        &self,
        address: Address,
        applications: BTreeSet<AppKey>,
        manifests: &Arc<Manifests>,
        to: &ActorRef<SupervisorMessage>,
    ) {
        let mut waiting = self.waiting();
        if let Some(others) = waiting.get_mut(&address) {
            others.extend(applications);
            return;
        }
        waiting.insert(address.clone(), applications);
        let (looks, manifests, to) = (self.clone(), Arc::clone(manifests), to.clone());
        tokio::spawn(async move {
            while let Some(next) = looks.next(&address) {
                drop(manifests.look(Some(address.clone())).await);
                for key in next {
                    drop(to.send_message(SupervisorMessage::Compare { key, level: Level::Latest }));
                }
            }
        });
    }

    /// Those who wait for a look; nothing, and the repository is not looked at any more, where nobody does.
    fn next(&self, address: &Address) -> Option<BTreeSet<AppKey>> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(address).map(std::mem::take).filter(|next| !next.is_empty());
        if next.is_none() {
            waiting.remove(address);
        }
        next
    }
}

/// Has all applications compared whose repositories have moved, as a look at them has found: no later look finds that again.
pub(crate) fn tell_moved(to: &ActorRef<SupervisorMessage>, addresses: Vec<Address>) {
    if !addresses.is_empty() {
        drop(to.send_message(SupervisorMessage::Moved { addresses, but: None }));
    }
}

/// The applications that pushes are about, by the repositories of theirs that have changed.
pub(crate) fn meant(
    pushes: &[Push],
    board: &Board,
    manifests: &Manifests,
) -> BTreeMap<Address, BTreeSet<AppKey>> {
    let mut meant: BTreeMap<Address, BTreeSet<AppKey>> = BTreeMap::new();
    for (key, application) in board.all() {
        let beside = manifests.fetched_for(&key).into_iter();
        // Nobody says which of their files matter.
        let is_about = |used: &Used| pushes.iter().any(|push| is_changed(push, &used.source, ""));
        let beside = beside.filter(is_about).map(|used| used.address);
        for address in changed(pushes, &application, manifests).into_iter().chain(beside) {
            meant.entry(address).or_default().insert(key.clone());
        }
    }
    meant
}

/// The repositories of an application that have changed for it.
fn changed(pushes: &[Push], application: &Application, manifests: &Manifests) -> BTreeSet<Address> {
    let paths = application.annotation(PATHS_ANNOTATION).unwrap_or_default();
    let is_about = |source: &&_| pushes.iter().any(|push| is_changed(push, source, paths));
    let sources = application.sources().iter().filter(is_about);
    sources.filter_map(|source| manifests.address(source)).collect()
}

fn is_changed(push: &Push, source: &tidegate_model::argo::ApplicationSource, paths: &str) -> bool {
    push.is_to(source)
        && push.moves(&source.target_revision, allows)
        && is_touched(paths, &source.path, push.files())
}
