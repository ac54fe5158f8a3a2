//! Pushes that servers of repositories tell of: each repository is looked at at once, and then the applications are compared
//! that a push is about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use tidegate_application::pushes::{PATHS_ANNOTATION, Push};
use tidegate_application::refresh::Level;
use tidegate_model::argo::Application;
use tidegate_source::{Address, Used, allows, is_touched};

use super::board::Board;
use super::manifests::Manifests;
use super::messages::SupervisorMessage;
use super::projects;
use super::store::AppKey;

/// The folder of the manifests of a source, as the annotation of paths names it.
const OWN_FOLDER: &str = ".";

/// Who is to be compared, and when.
pub(crate) type Meant = BTreeMap<AppKey, Turn>;

/// When an application is compared after a push: of thousands in one repository few are changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// A file has changed in the folder of its manifests, or it is not said which have.
    First,
    Later,
}

/// The repositories that are being looked at, and who is to be compared after the next look at them. What comes while a
/// repository is looked at waits for one more look, however much comes.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<BTreeMap<Address, Meant>>>);

impl Looks {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Address, Meant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a repository, and has these applications compared.
    pub fn begin(
        &self,
        address: Address,
        applications: Meant,
        manifests: &Arc<Manifests>,
        to: &ActorRef<SupervisorMessage>,
    ) {
        let mut waiting = self.waiting();
        if let Some(others) = waiting.get_mut(&address) {
            applications.into_iter().for_each(|(key, turn)| add(others, key, turn));
            return;
        }
        waiting.insert(address.clone(), applications);
        let (looks, manifests, to) = (self.clone(), Arc::clone(manifests), to.clone());
        tokio::spawn(async move {
            while let Some(next) = looks.next(&address) {
                drop(manifests.look(Some(address.clone())).await);
                for key in in_turn(next) {
                    drop(to.send_message(SupervisorMessage::Compare { key, level: Level::Latest }));
                }
            }
        });
    }

    /// Those who wait for a look; nothing, and the repository is not looked at any more, where nobody does.
    fn next(&self, address: &Address) -> Option<Meant> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(address).map(std::mem::take).filter(|next| !next.is_empty());
        if next.is_none() {
            waiting.remove(address);
        }
        next
    }
}

fn add(meant: &mut Meant, key: AppKey, turn: Turn) {
    let earliest = meant.entry(key).or_insert(turn);
    *earliest = turn.min(*earliest);
}

fn in_turn(meant: Meant) -> impl Iterator<Item = AppKey> {
    let mut all: Vec<(AppKey, Turn)> = meant.into_iter().collect();
    all.sort_by_key(|(_, turn)| *turn);
    all.into_iter().map(|(key, _)| key)
}

/// The applications that pushes are about, by the repositories of theirs that have changed.
pub(crate) fn meant(pushes: &[Push], board: &Board, manifests: &Manifests) -> BTreeMap<Address, Meant> {
    let mut meant: BTreeMap<Address, Meant> = BTreeMap::new();
    for (key, application) in board.all() {
        let beside = manifests.fetched_for(&key).into_iter();
        // Nobody says which of their files matter.
        let is_about = |used: &Used| pushes.iter().any(|push| is_changed(push, &used.source, ""));
        let beside = beside.filter(is_about).map(|used| (used.address, Turn::Later));
        for (address, turn) in changed(pushes, &application, manifests).into_iter().chain(beside) {
            add(meant.entry(address).or_default(), key.clone(), turn);
        }
    }
    meant
}

/// The repositories of an application that have changed for it.
fn changed(pushes: &[Push], application: &Application, manifests: &Manifests) -> Vec<(Address, Turn)> {
    let paths = application.annotation(PATHS_ANNOTATION).unwrap_or_default();
    let is_about = |source: &&_, paths| pushes.iter().any(|push| is_changed(push, source, paths));
    let turn = |source: &_| if is_about(&source, OWN_FOLDER) { Turn::First } else { Turn::Later };
    let (sources, project) = (application.sources().iter(), projects::name_of(application));
    let sources = sources.filter(|source| is_about(source, paths));
    sources.filter_map(|source| Some((manifests.address(source, project)?, turn(source)))).collect()
}

fn is_changed(push: &Push, source: &tidegate_model::argo::ApplicationSource, paths: &str) -> bool {
    push.is_to(source)
        && push.moves(&source.target_revision, allows)
        && is_touched(paths, &source.path, push.files())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_folder_has_changed_is_compared_first_however_often_it_is_meant() {
        let mut meant = Meant::new();
        for (name, turn) in [
            ("b", Turn::Later),
            ("d", Turn::First),
            ("a", Turn::Later),
            ("c", Turn::First),
            ("b", Turn::First),
            ("c", Turn::Later),
        ] {
            add(&mut meant, AppKey::named(name), turn);
        }
        let names: Vec<String> = in_turn(meant).map(|key| key.name).collect();
        assert_eq!(names, ["b", "c", "d", "a"]);
    }
}
