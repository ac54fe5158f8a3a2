//! The projects that are known now: what each application is asked for before it is compared, and each write before it is made.

pub(crate) mod globals;
pub(crate) mod releasing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_application::accounts::{self, Accounts};
use tidegate_application::credentials::without_credentials;
use tidegate_application::global_projects;
use tidegate_application::project::{self, DEFAULT_PROJECT};
use tidegate_application::windows::Windows;
use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_executor::{Permits, zone};
use tidegate_model::argo::{AppProject, Application, ApplicationSource};
use tidegate_model::{DeployTarget, Mandate, ObjectKey, Zone};
use tidegate_source::{Repositories, Wanted};

use super::places::{NoPlace, Place};
use globals::{Globals, GlobalsTold};

/// The projects as the store has them, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectSet {
    /// By name; of one that cannot be read, why.
    pub projects: BTreeMap<String, Result<Arc<AppProject>, String>>,
    /// Why there may be others: then the project `default` may be one of them.
    pub unsure: Option<String>,
    /// Why others may be about to come: what needs one of those waits for it.
    pub coming: Option<String>,
}

/// By name; of one that does not count, why.
type Named = BTreeMap<String, Result<Arc<AppProject>, String>>;

/// The projects that are known now.
pub(crate) struct Projects {
    /// Their namespace.
    home: String,
    known: RwLock<Known>,
    permissive: Arc<AppProject>,
    accounts: Accounts,
    /// Where Secrets say which repositories are a project's own.
    repositories: Arc<Repositories>,
    /// The rules of time zones that were asked for.
    zones: Mutex<BTreeMap<String, Zone>>,
}

/// What is written down, and what counts of it.
struct Known {
    written: Option<ProjectSet>,
    /// Global projects, as files say, and as the cluster does.
    of_files: Option<Globals>,
    of_cluster: Globals,
    /// All projects with what they take over from global ones.
    counted: Named,
    /// The project `default` where nobody has written it down.
    implicit: Result<Arc<AppProject>, String>,
}

impl Known {
    fn globals(&self) -> &Globals {
        self.of_files.as_ref().unwrap_or(&self.of_cluster)
    }

    /// All that counts is known.
    fn is_whole(&self) -> bool {
        self.written.is_some() && !matches!(self.globals(), Globals::Unseen)
    }

    /// Puts together what counts.
    fn count(&mut self, permissive: &Arc<AppProject>) {
        let written = self.written.clone().unwrap_or_default();
        let with = |project: &Arc<AppProject>| with_globals(project, self.globals(), &written, permissive);
        let counted = |(name, project): (&String, &Result<Arc<AppProject>, String>)| {
            (name.clone(), project.as_ref().map_err(String::clone).and_then(with))
        };
        let all = written.projects.iter().map(counted).collect();
        (self.implicit, self.counted) = (with(permissive), all);
    }
}

/// A project with what it takes over. Where that is not to be had, nobody can say what is forbidden.
fn with_globals(
    project: &Arc<AppProject>,
    globals: &Globals,
    written: &ProjectSet,
    permissive: &Arc<AppProject>,
) -> Result<Arc<AppProject>, String> {
    let global = |name: &str| match written.projects.get(name) {
        Some(Ok(global)) => Ok(Arc::clone(global)),
        Some(Err(problem)) => Err(format!("its global project {name} cannot be read: {problem}")),
        None if name == DEFAULT_PROJECT && written.unsure.is_none() => Ok(Arc::clone(permissive)),
        None => Err(Globals::missing(name)),
    };
    let all = globals.about(project)?.into_iter().map(global).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Ok(Arc::clone(project));
    }
    Ok(Arc::new(global_projects::inheriting(project, all.iter().map(Arc::as_ref))))
}

impl Projects {
    /// None are known yet.
    pub fn new(home: String) -> Self {
        let permissive = Arc::new(project::permissive());
        let known = Known {
            written: None,
            of_files: None,
            of_cluster: Globals::default(),
            counted: Named::new(),
            implicit: Ok(Arc::clone(&permissive)),
        };
        let (known, zones) = (RwLock::new(known), Mutex::default());
        let (accounts, repositories) = Default::default();
        Self { home, known, permissive, accounts, repositories, zones }
    }

    /// Repositories that a project has Secrets of its own for are among those that it permits, as with Argo CD.
    pub fn with_repositories(self, repositories: Arc<Repositories>) -> Self {
        Self { repositories, ..self }
    }

    fn with_own_repositories(&self, project: &Arc<AppProject>) -> Arc<AppProject> {
        let own = self.repositories.of_project(&project.metadata.name);
        if own.is_empty() {
            return Arc::clone(project);
        }
        let mut all = AppProject::clone(project);
        all.spec.source_repos.extend(own);
        Arc::new(all)
    }

    /// Whether the service accounts that they name are acted as.
    pub fn with_accounts(self, accounts: Accounts) -> Self {
        Self { accounts, ..self }
    }

    /// Asks of those that are written down.
    fn written<T: Default>(&self, ask: impl FnOnce(&Named) -> T) -> T {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.written.as_ref().map(|written| ask(&written.projects)).unwrap_or_default()
    }

    /// These are all there are. Returns the names of those that say something else now.
    pub fn set(&self, set: ProjectSet) -> BTreeSet<String> {
        self.change(|known| known.written = Some(set))
    }

    /// These are the global ones. Returns the names of those that say something else now.
    pub fn set_globals(&self, told: GlobalsTold) -> BTreeSet<String> {
        self.change(|known| match told {
            GlobalsTold::Files(globals) => known.of_files = globals,
            GlobalsTold::Cluster(globals) => known.of_cluster = globals,
        })
    }

    fn change(&self, change: impl FnOnce(&mut Known)) -> BTreeSet<String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let unsure = |known: &Known| known.written.as_ref().and_then(|written| written.unsure.clone());
        let (was_unsure, was_implicit) = (unsure(&known), known.implicit.clone());
        let (before, was_seen) = (known.counted.clone(), !matches!(known.globals(), Globals::Unseen));
        change(&mut known);
        known.count(&self.permissive);
        let is_seen = !matches!(known.globals(), Globals::Unseen);
        let is_other = |name: &&String| was_seen != is_seen || before.get(*name) != known.counted.get(*name);
        let all: BTreeSet<&String> = before.keys().chain(known.counted.keys()).collect();
        let mut changed: BTreeSet<String> = all.into_iter().filter(is_other).cloned().collect();
        if (was_seen, was_unsure, was_implicit) != (is_seen, unsure(&known), known.implicit.clone()) {
            changed.insert(DEFAULT_PROJECT.to_owned());
        }
        changed
    }

    /// A project, and whether nobody has written down what it permits; or why there is none.
    pub fn find(&self, name: &str) -> Result<(Arc<AppProject>, bool), Missing> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(written) = known.written.as_ref().filter(|_| known.is_whole()) else {
            return Err(Missing::Unknown);
        };
        let unreadable = |problem: &String| Missing::Unreadable(name.to_owned(), problem.clone());
        match (known.counted.get(name), &written.unsure) {
            (Some(Ok(project)), _) => Ok((self.with_own_repositories(project), false)),
            (Some(Err(problem)), _) => Err(unreadable(problem)),
            (None, _) if let Some(why) = &written.coming => {
                Err(Missing::Coming(name.to_owned(), why.clone()))
            }
            (None, Some(problem)) if name == DEFAULT_PROJECT => {
                Err(unreadable(&format!("it may be in what cannot be read: {problem}")))
            }
            (None, None) if name == DEFAULT_PROJECT => {
                let project = known.implicit.as_ref().map_err(unreadable)?;
                Ok((Arc::clone(project), Arc::ptr_eq(project, &self.permissive)))
            }
            (None, _) => Err(Missing::Absent(name.to_owned())),
        }
    }

    /// Whether some may be about to come.
    pub fn are_coming(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.written.as_ref().is_some_and(|written| written.coming.is_some())
    }

    /// What the project of an application says that means nothing here, and may have been meant to.
    pub fn unknown_fields(&self, application: &Application) -> Vec<String> {
        let name = name_of(application);
        let Ok((project, _)) = self.find(name) else { return Vec::new() };
        let unknown = project.unknown_fields();
        let unknown = (!unknown.is_empty()).then(|| {
            format!(
                "these fields of project '{name}' are not known and restrict nothing: {}",
                unknown.join(", ")
            )
        });
        let unsupported = project.unsupported_fields();
        let unsupported = (!unsupported.is_empty())
            .then(|| format!("these fields of project '{name}' have no effect: {}", unsupported.join(", ")));
        let is_ignored =
            self.accounts == Accounts::Ignored && !project.spec.destination_service_accounts.is_empty();
        let ignored = is_ignored.then(|| {
            format!(
                "destinationServiceAccounts of project '{name}' have no effect: begin `tidegate serve` with --impersonate, or \
                 set application.sync.impersonation.enabled in the ConfigMap argocd-cm"
            )
        });
        unknown.into_iter().chain(unsupported).chain(ignored).collect()
    }

    /// What an operation of an application is begun for, at a place; or why its project does not permit that.
    pub fn mandate(&self, application: &Application, place: &Place) -> Result<Mandate, NoPlace> {
        let (project, _) = self.find(name_of(application))?;
        let mandate = self.unchecked(application, place).map_err(NoPlace::Wrong)?;
        let checked = project::check(&project, &mandate, &self.home);
        checked.map_err(|refused| NoPlace::Wrong(refused.to_string()))?;
        Ok(mandate)
    }

    /// The keys that commits have to be signed with; nothing where the project does not ask for it.
    pub fn signers(&self, name: &str) -> Result<Option<Wanted>, String> {
        let (project, _) = self.find(name).map_err(|missing| missing.to_string())?;
        let keys = &project.spec.signature_keys;
        if keys.is_empty() {
            return Ok(None);
        }
        let wanted = Wanted::new(name, keys.iter().map(|key| key.key_id.as_str()));
        wanted.map(Some).map_err(|wrong| {
            format!(
                "signatureKeys of project '{name}' has the keyID {wrong:?}, which is none: write the last 16 hexadecimal digits of its fingerprint, or all of them"
            )
        })
    }

    /// What an operation of an application is begun for without asking first, such as its deletion: what is not
    /// permitted then comes out when it is written. The error says why nobody may write for it.
    pub fn unchecked(&self, application: &Application, place: &Place) -> Result<Mandate, String> {
        let name = name_of(application);
        let user = self.user(application, place)?;
        let is_implicit = self.find(name).is_ok_and(|(_, is_implicit)| is_implicit);
        let spec = &application.spec;
        let asked = application.operation.as_ref().and_then(|asked| asked.sync.as_ref());
        let asked = asked.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let sources = spec.source.iter().chain(&spec.sources).chain(asked);
        let repository = |source: &ApplicationSource| without_credentials(&source.repo_url);
        let repositories: BTreeSet<String> = sources.map(repository).collect();
        Ok(Mandate {
            project: name.to_owned(),
            is_implicit,
            is_automated: is_automated(application),
            namespace: application.metadata.namespace.clone(),
            repositories: repositories.into_iter().collect(),
            target: place.target.clone(),
            user,
        })
    }

    /// The user that an application is written as; empty for ourselves.
    fn user(&self, application: &Application, place: &Place) -> Result<String, String> {
        if self.accounts == Accounts::Ignored {
            return Ok(String::new());
        }
        let (project, _) = self.find(name_of(application)).map_err(|missing| missing.to_string())?;
        let user = accounts::account(self.accounts, &project, application, &place.target.servers);
        user.map(Option::unwrap_or_default).map_err(|none| none.to_string())
    }

    /// The sync windows that are about an application, which goes there. One without a project is not synced anyway.
    pub fn windows(&self, application: &Application, target: &DeployTarget) -> Windows {
        match self.find(name_of(application)) {
            Ok((project, _)) => {
                Windows::of(&project, &application.metadata.name, target, |name| self.zone(name))
            }
            Err(_) => Windows::default(),
        }
    }

    fn zone(&self, name: &str) -> Result<Zone, String> {
        let mut known = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = known.get(name) {
            return Ok(zone.clone());
        }
        let found = zone(name)?;
        known.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// Why the project of an operation does not permit an object.
    pub fn refusal(&self, mandate: &Mandate, object: &ObjectKey, namespaced: bool) -> Option<String> {
        self.permit(mandate, object, Some(namespaced)).err().map(|error| error.message)
    }
}

/// The name of an application's project.
pub(crate) fn name_of(application: &Application) -> &str {
    match application.spec.project.as_str() {
        "" => DEFAULT_PROJECT,
        name => name,
    }
}

/// Whether nobody asked for the operation of an application.
pub(crate) fn is_automated(application: &Application) -> bool {
    application.operation.as_ref().is_some_and(|asked| asked.initiated_by.automated)
}

/// Why a project is not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the projects, or their global ones, are not known yet")]
    Unknown,
    #[error("project {0} is not known yet: {1}")]
    Coming(String, String),
    #[error(
        "Application referencing project {0} which does not exist; write an AppProject of that name, or name another one in spec.project"
    )]
    Absent(String),
    #[error("project {0} cannot be read, so nothing of its applications is synced until that is mended: {1}")]
    Unreadable(String, String),
}

impl Missing {
    /// Whether it may be there in a moment.
    fn is_for_now(&self) -> bool {
        matches!(self, Self::Unknown | Self::Coming(..))
    }
}

impl From<Missing> for NoPlace {
    fn from(missing: Missing) -> Self {
        let words = missing.to_string();
        if missing.is_for_now() { Self::Unasked(words) } else { Self::Wrong(words) }
    }
}

impl Permits for Projects {
    fn permit(
        &self,
        mandate: &Mandate,
        object: &ObjectKey,
        namespaced: Option<bool>,
    ) -> Result<(), ClusterError> {
        let (project, _) = self.find(&mandate.project).map_err(|missing| {
            // It is asked again when they are.
            let kind = if missing.is_for_now() { ErrorKind::Unavailable } else { ErrorKind::Forbidden };
            ClusterError::new(kind, missing.to_string())
        })?;
        let checked = project::check(&project, mandate, &self.home)
            .and_then(|()| project::check_object(&project, &mandate.target, object, namespaced));
        checked.map_err(|refused| ClusterError::new(ErrorKind::Forbidden, refused.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]
mod tests;
