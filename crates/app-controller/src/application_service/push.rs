//! Push events from Git servers. Observes each repository immediately, and then compares the affected
//! Applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::machine::Input;
use tidegate_application::project::project_name;
use tidegate_application::push_events::{PATHS_ANNOTATION, PushEvent, WebhookChanges};
use tidegate_application::refresh::RefreshLevel;
use tidegate_executor::EngineError;
use tidegate_model::argo::Application;
use tidegate_source::{Address, UsedDependency, allows, is_affected};
use tidegate_state::error::ServiceError;

use super::ApplicationService;
use crate::application_cache::ApplicationCache;
use crate::manifests::Manifests;
use crate::messages::{AppMessage, SupervisorMessage};

/// A source's own manifest folder, as written in the annotation that lists paths.
const OWN_FOLDER: &str = ".";

impl ApplicationService {
    /// Observes the repositories that were pushed to, and then compares the affected Applications. Returns
    /// the number of affected Applications.
    pub async fn handle_push(&self, changes: WebhookChanges) -> Result<u64, ServiceError> {
        let (shared, changes) = (Arc::clone(&self.shared), Arc::new(changes));
        // There may be no subscriber.
        let _ = shared.push_events.send(Arc::clone(&changes));
        let find =
            move || affected_applications(&changes.pushes, &shared.application_cache, &shared.manifests);
        let affected = tokio::task::spawn_blocking(find).await.map_err(|_| EngineError::Stopped)?;
        let all: BTreeSet<&AppKey> = affected.values().flat_map(BTreeMap::keys).collect();
        let number = u64::try_from(all.len()).unwrap_or(u64::MAX);
        for (address, applications) in affected {
            self.observations.start(address, applications, &self.shared.manifests, &self.supervisor);
        }
        Ok(number)
    }
}

/// Applications to compare, and their priority.
type AffectedApplications = BTreeMap<AppKey, PushPriority>;

/// Priority of comparisons after a push. Thousands of Applications may use a repository, but a push changes
/// only a few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PushPriority {
    /// A file in the Application's manifest folder has changed, or the event doesn't list the changed files.
    First,
    Later,
}

/// Repositories that are being observed, and the Applications to compare afterwards. Requests that arrive
/// during an observation share the next observation.
#[derive(Clone, Default)]
pub(super) struct RepositoryObservations(Arc<Mutex<BTreeMap<Address, AffectedApplications>>>);

impl RepositoryObservations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, AffectedApplications>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observes a repository, and then compares these Applications.
    fn start(
        &self,
        address: Address,
        applications: AffectedApplications,
        manifests: &Arc<Manifests>,
        to: &ActorRef<SupervisorMessage>,
    ) {
        let mut waiting = self.lock();
        if let Some(others) = waiting.get_mut(&address) {
            applications.into_iter().for_each(|(key, priority)| add_application(others, key, priority));
            return;
        }
        waiting.insert(address.clone(), applications);
        let (observations, manifests, to) = (self.clone(), Arc::clone(manifests), to.clone());
        tokio::spawn(async move {
            while let Some(next) = observations.take_next(&address) {
                drop(manifests.observe(Some(address.clone())).await);
                for key in by_priority(next) {
                    drop(to.send_message(SupervisorMessage::Forward(
                        key,
                        AppMessage::Input(Input::Compare(RefreshLevel::Latest)),
                    )));
                }
            }
        });
    }

    /// Takes the Applications that wait for the next observation. If there are none, stops observing the
    /// repository and returns `None`.
    fn take_next(&self, address: &Address) -> Option<AffectedApplications> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(address).map(std::mem::take).filter(|next| !next.is_empty());
        if next.is_none() {
            waiting.remove(address);
        }
        next
    }
}

fn add_application(affected: &mut AffectedApplications, key: AppKey, priority: PushPriority) {
    let highest = affected.entry(key).or_insert(priority);
    *highest = priority.min(*highest);
}

fn by_priority(affected: AffectedApplications) -> impl Iterator<Item = AppKey> {
    let mut all: Vec<(AppKey, PushPriority)> = affected.into_iter().collect();
    all.sort_by_key(|(_, priority)| *priority);
    all.into_iter().map(|(key, _)| key)
}

/// Returns the Applications affected by pushes, grouped by changed repository.
fn affected_applications(
    pushes: &[PushEvent],
    cache: &ApplicationCache,
    manifests: &Manifests,
) -> BTreeMap<Address, AffectedApplications> {
    let mut affected: BTreeMap<Address, AffectedApplications> = BTreeMap::new();
    for (key, application) in cache.all() {
        let beside = manifests.dependencies_of(&key).into_iter();
        // The relevant files of a dependency aren't known, so any pushed change may affect the Application.
        let is_about = |used: &UsedDependency| pushes.iter().any(|push| is_changed(push, &used.source, ""));
        let beside = beside.filter(is_about).map(|used| (used.address, PushPriority::Later));
        for (address, priority) in
            changed_repositories(pushes, &application, manifests).into_iter().chain(beside)
        {
            add_application(affected.entry(address).or_default(), key.clone(), priority);
        }
    }
    affected
}

/// Returns an Application's repositories in which a relevant change was made.
fn changed_repositories(
    pushes: &[PushEvent],
    application: &Application,
    manifests: &Manifests,
) -> Vec<(Address, PushPriority)> {
    let paths = application.annotation(PATHS_ANNOTATION).unwrap_or_default();
    let is_about = |source: &&_, paths| pushes.iter().any(|push| is_changed(push, source, paths));
    let priority =
        |source: &_| if is_about(&source, OWN_FOLDER) { PushPriority::First } else { PushPriority::Later };
    let (sources, project) = (application.sources().iter(), project_name(application));
    let sources = sources.filter(|source| is_about(source, paths));
    sources.filter_map(|source| Some((manifests.address(source, project)?, priority(source)))).collect()
}

fn is_changed(push: &PushEvent, source: &tidegate_model::argo::ApplicationSource, paths: &str) -> bool {
    push.is_to(source)
        && push.can_move(&source.target_revision, allows)
        && is_affected(paths, &source.path, push.files())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_with_changed_files_are_compared_first_and_once() {
        let mut affected = AffectedApplications::new();
        for (name, priority) in [
            ("b", PushPriority::Later),
            ("d", PushPriority::First),
            ("a", PushPriority::Later),
            ("c", PushPriority::First),
            ("b", PushPriority::First),
            ("c", PushPriority::Later),
        ] {
            add_application(&mut affected, AppKey::parse(name), priority);
        }
        let names: Vec<String> = by_priority(affected).map(|key| key.name).collect();
        assert_eq!(names, ["b", "c", "d", "a"]);
    }
}
