//! Projects. Their rules are checked before each comparison and each write.

pub mod global_project_settings;
pub mod project_deletion;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_application::credentials::without_credentials;
use tidegate_application::global_projects;
use tidegate_application::impersonation::{self, ImpersonationMode};
use tidegate_application::project::{self, DEFAULT_PROJECT, project_name};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_executor::{PolicyCheck, load_time_zone};
use tidegate_model::argo::{AppProject, Application, ApplicationSource};
use tidegate_model::{DeployTarget, ObjectKey, ProjectPolicy, TimeZoneRules};
use tidegate_source::{Repositories, RequiredKeys};
use tidegate_stores::applications::{ProjectResults, ProjectSet};

use super::destinations::{DestinationError, ResolvedDestination};
use global_project_settings::{GlobalProjects, GlobalProjectsUpdate};

/// Projects that Applications belong to.
pub struct Projects {
    /// Namespace of the AppProjects.
    namespace: String,
    state: RwLock<ProjectsState>,
    permissive: Arc<AppProject>,
    impersonation: ImpersonationMode,
    /// Repositories, whose Secrets may be a project's own.
    repositories: Arc<Repositories>,
    /// Cached time zones.
    time_zones: Mutex<BTreeMap<String, TimeZoneRules>>,
}

/// Projects as written, and projects to which global projects have been applied.
struct ProjectsState {
    declared: Option<ProjectSet>,
    /// Global projects, from files and from the cluster.
    file_globals: Option<GlobalProjects>,
    cluster_globals: GlobalProjects,
    /// All projects, combined with the global projects that they inherit from.
    effective: ProjectResults,
    /// Project to use as `default` if the store doesn't define it.
    default_project: Result<Arc<AppProject>, String>,
}

impl ProjectsState {
    fn globals(&self) -> &GlobalProjects {
        self.file_globals.as_ref().unwrap_or(&self.cluster_globals)
    }

    /// Returns true if both the projects and the global projects have been read.
    fn is_complete(&self) -> bool {
        self.declared.is_some() && !matches!(self.globals(), GlobalProjects::Unread)
    }

    /// Recomputes the effective projects.
    fn recompute_effective(&mut self, permissive: &Arc<AppProject>) {
        let written = self.declared.clone().unwrap_or_default();
        let with = |project: &Arc<AppProject>| with_globals(project, self.globals(), &written, permissive);
        let counted = |(name, project): (&String, &Result<Arc<AppProject>, String>)| {
            (name.clone(), project.as_ref().map_err(String::clone).and_then(with))
        };
        let all = written.projects.iter().map(counted).collect();
        (self.default_project, self.effective) = (with(permissive), all);
    }
}

/// Combines a project with the global projects that it inherits from. Returns an error if a global project
/// isn't available, because the project's restrictions would be incomplete.
fn with_globals(
    project: &Arc<AppProject>,
    globals: &GlobalProjects,
    written: &ProjectSet,
    permissive: &Arc<AppProject>,
) -> Result<Arc<AppProject>, String> {
    let global = |name: &str| match written.projects.get(name) {
        Some(Ok(global)) => Ok(Arc::clone(global)),
        Some(Err(problem)) => Err(format!("cannot read the global project {name}: {problem}")),
        None if name == DEFAULT_PROJECT && written.unreadable_reason.is_none() => Ok(Arc::clone(permissive)),
        None => Err(GlobalProjects::missing_message(name)),
    };
    let all = globals.inherited_by(project)?.into_iter().map(global).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Ok(Arc::clone(project));
    }
    Ok(Arc::new(global_projects::with_global_rules(project, all.iter().map(Arc::as_ref))))
}

impl Projects {
    /// Creates an empty set of projects, for use until they have been read.
    pub fn new(namespace: String) -> Self {
        let permissive = Arc::new(project::permissive_project());
        let known = ProjectsState {
            declared: None,
            file_globals: None,
            cluster_globals: GlobalProjects::default(),
            effective: ProjectResults::new(),
            default_project: Ok(Arc::clone(&permissive)),
        };
        let (state, time_zones) = (RwLock::new(known), Mutex::default());
        let (impersonation, repositories) = Default::default();
        Self { namespace, state, permissive, impersonation, repositories, time_zones }
    }

    /// Allows each project to use the repositories in its own Secrets, as in Argo CD.
    pub fn with_repositories(self, repositories: Arc<Repositories>) -> Self {
        Self { repositories, ..self }
    }

    fn with_own_repositories(&self, project: &Arc<AppProject>) -> Arc<AppProject> {
        let own = self.repositories.addresses_of_project(&project.metadata.name);
        if own.is_empty() {
            return Arc::clone(project);
        }
        let mut all = AppProject::clone(project);
        all.spec.source_repos.extend(own);
        Arc::new(all)
    }

    /// Sets whether writes impersonate the service accounts that projects specify.
    pub fn with_impersonation(self, impersonation: ImpersonationMode) -> Self {
        Self { impersonation, ..self }
    }

    /// Calls a function with the projects as written, without rules from global projects.
    fn with_declared<T: Default>(&self, ask: impl FnOnce(&ProjectResults) -> T) -> T {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.declared.as_ref().map(|written| ask(&written.projects)).unwrap_or_default()
    }

    /// Replaces all projects. Returns the names of projects whose effective content has changed.
    pub fn set_projects(&self, set: ProjectSet) -> BTreeSet<String> {
        self.update(|state| state.declared = Some(set))
    }

    /// Replaces the global projects. Returns the names of projects whose effective content has changed.
    pub fn set_globals(&self, update: GlobalProjectsUpdate) -> BTreeSet<String> {
        self.update(|state| match update {
            GlobalProjectsUpdate::Files(globals) => state.file_globals = globals,
            GlobalProjectsUpdate::Cluster(globals) => state.cluster_globals = globals,
        })
    }

    fn update(&self, change: impl FnOnce(&mut ProjectsState)) -> BTreeSet<String> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let unsure = |state: &ProjectsState| {
            state.declared.as_ref().and_then(|written| written.unreadable_reason.clone())
        };
        let (was_unsure, was_implicit) = (unsure(&state), state.default_project.clone());
        let (before, was_seen) =
            (state.effective.clone(), !matches!(state.globals(), GlobalProjects::Unread));
        change(&mut state);
        state.recompute_effective(&self.permissive);
        let is_seen = !matches!(state.globals(), GlobalProjects::Unread);
        let is_other =
            |name: &&String| was_seen != is_seen || before.get(*name) != state.effective.get(*name);
        let all: BTreeSet<&String> = before.keys().chain(state.effective.keys()).collect();
        let mut changed: BTreeSet<String> = all.into_iter().filter(is_other).cloned().collect();
        if (was_seen, was_unsure, was_implicit) != (is_seen, unsure(&state), state.default_project.clone()) {
            changed.insert(DEFAULT_PROJECT.to_owned());
        }
        changed
    }

    /// Returns a project, and true if it is the permissive project used when `default` isn't defined. The
    /// error is the reason why the project is missing.
    pub fn find(&self, name: &str) -> Result<(Arc<AppProject>, bool), MissingProject> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let Some(written) = state.declared.as_ref().filter(|_| state.is_complete()) else {
            return Err(MissingProject::Unknown);
        };
        let unreadable = |problem: &String| MissingProject::Unreadable(name.to_owned(), problem.clone());
        match (state.effective.get(name), &written.unreadable_reason) {
            (Some(Ok(project)), _) => Ok((self.with_own_repositories(project), false)),
            (Some(Err(problem)), _) => Err(unreadable(problem)),
            (None, _) if let Some(reason) = &written.pending_reason => {
                Err(MissingProject::Pending(name.to_owned(), reason.clone()))
            }
            (None, Some(problem)) if name == DEFAULT_PROJECT => {
                Err(unreadable(&format!("the project may be in a file that cannot be read: {problem}")))
            }
            (None, None) if name == DEFAULT_PROJECT => {
                let project = state.default_project.as_ref().map_err(unreadable)?;
                Ok((Arc::clone(project), Arc::ptr_eq(project, &self.permissive)))
            }
            (None, _) => Err(MissingProject::Absent(name.to_owned())),
        }
    }

    /// Returns true if more projects may appear soon.
    pub fn has_pending_projects(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.declared.as_ref().is_some_and(|written| written.pending_reason.is_some())
    }

    /// Returns warnings about settings in an Application's project that have no effect in Tidegate.
    pub fn unknown_fields(&self, application: &Application) -> Vec<String> {
        let name = project_name(application);
        let Ok((project, _)) = self.find(name) else { return Vec::new() };
        let unknown = project.unknown_fields();
        let unknown = (!unknown.is_empty()).then(|| {
            format!("these fields of project '{name}' are unknown and have no effect: {}", unknown.join(", "))
        });
        let unsupported = project.unsupported_fields();
        let unsupported = (!unsupported.is_empty())
            .then(|| format!("these fields of project '{name}' have no effect: {}", unsupported.join(", ")));
        let is_ignored = self.impersonation == ImpersonationMode::Ignored
            && !project.spec.destination_service_accounts.is_empty();
        let ignored = is_ignored.then(|| {
            format!(
                "destinationServiceAccounts of project '{name}' have no effect because impersonation is \
                 disabled; start `tidegate serve` with --impersonate, or set application.sync.impersonation.enabled in the argocd-cm ConfigMap"
            )
        });
        unknown.into_iter().chain(unsupported).chain(ignored).collect()
    }

    /// Returns warnings about rules in an Application's project that can't have the intended effect.
    pub fn warnings(&self, application: &Application) -> Vec<String> {
        self.find(project_name(application))
            .map(|(project, _)| project::only_denying_warnings(&project))
            .unwrap_or_default()
    }

    /// Returns the project policy for an Application's operations at a destination. The error is the reason
    /// why the project doesn't permit them.
    pub fn policy(
        &self,
        application: &Application,
        place: &ResolvedDestination,
    ) -> Result<ProjectPolicy, DestinationError> {
        let (project, _) = self.find(project_name(application))?;
        let policy = self.unchecked_policy(application, place).map_err(DestinationError::Invalid)?;
        let checked = project::check_operation(&project, &policy, &self.namespace);
        checked.map_err(|refused| DestinationError::Invalid(refused.to_string()))?;
        Ok(policy)
    }

    /// Returns the keys that may sign commits, or `None` if the project doesn't require signatures.
    pub fn required_keys(&self, name: &str) -> Result<Option<RequiredKeys>, String> {
        let (project, _) = self.find(name).map_err(|missing| missing.to_string())?;
        let keys = &project.spec.signature_keys;
        if keys.is_empty() {
            return Ok(None);
        }
        let required = RequiredKeys::new(name, keys.iter().map(|key| key.key_id.as_str()));
        required.map(Some).map_err(|wrong| {
            format!(
                "invalid keyID {wrong:?} in signatureKeys of project '{name}': use the full fingerprint or \
                 its last 16 hexadecimal digits"
            )
        })
    }

    /// Returns an operation's project policy without checking it, for example for a deletion. Each write is
    /// still checked. The error explains why Tidegate must not write for this Application.
    pub fn unchecked_policy(
        &self,
        application: &Application,
        place: &ResolvedDestination,
    ) -> Result<ProjectPolicy, String> {
        let name = project_name(application);
        let user = self.impersonated_user(application, place)?;
        let is_implicit = self.find(name).is_ok_and(|(_, is_implicit)| is_implicit);
        let spec = &application.spec;
        let requested = application.operation.as_ref().and_then(|requested| requested.sync.as_ref());
        let requested = requested.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let sources = spec.source.iter().chain(&spec.sources).chain(requested);
        let repository = |source: &ApplicationSource| without_credentials(&source.repo_url);
        let repositories: BTreeSet<String> = sources.map(repository).collect();
        Ok(ProjectPolicy {
            project: name.to_owned(),
            is_implicit,
            is_automated: is_automated(application),
            namespace: application.metadata.namespace.clone(),
            repositories: repositories.into_iter().collect(),
            target: place.target.clone(),
            user,
        })
    }

    /// Returns the user to impersonate when writing for an Application. The name is empty if no user is
    /// impersonated.
    fn impersonated_user(
        &self,
        application: &Application,
        place: &ResolvedDestination,
    ) -> Result<String, String> {
        if self.impersonation == ImpersonationMode::Ignored {
            return Ok(String::new());
        }
        let (project, _) = self.find(project_name(application)).map_err(|missing| missing.to_string())?;
        let user = impersonation::impersonated_user(
            self.impersonation,
            &project,
            application,
            &place.target.servers,
        );
        user.map(Option::unwrap_or_default).map_err(|none| none.to_string())
    }

    /// Returns the sync windows for an Application at this destination. If the project is missing, the result
    /// doesn't matter, because the Application isn't synced.
    pub fn sync_windows(&self, application: &Application, target: &DeployTarget) -> SyncWindows {
        match self.find(project_name(application)) {
            Ok((project, _)) => {
                SyncWindows::for_application(&project, &application.metadata.name, target, |name| {
                    self.time_zone(name)
                })
            }
            Err(_) => SyncWindows::default(),
        }
    }

    fn time_zone(&self, name: &str) -> Result<TimeZoneRules, String> {
        let mut time_zones = self.time_zones.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = time_zones.get(name) {
            return Ok(zone.clone());
        }
        let found = load_time_zone(name)?;
        time_zones.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// Returns the reason why an operation's project doesn't permit an object.
    pub fn refusal_reason(
        &self,
        policy: &ProjectPolicy,
        object: &ObjectKey,
        namespaced: bool,
    ) -> Option<String> {
        self.check_write(policy, object, Some(namespaced)).err().map(|error| error.message)
    }
}

/// Returns true if an Application's operation is automated.
pub fn is_automated(application: &Application) -> bool {
    application.operation.as_ref().is_some_and(|request| request.initiated_by.automated)
}

/// Reason why a project is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingProject {
    /// The projects have not been read yet.
    #[error("the projects or the global projects have not been read yet")]
    Unknown,
    /// The project, with the reason why it may still appear.
    #[error("project {0} has not been read yet: {1}")]
    Pending(String, String),
    /// The project doesn't exist.
    #[error(
        "Application referencing project {0} which does not exist; create an AppProject with that name, or change spec.project"
    )]
    Absent(String),
    /// The project, and the reason why it can't be read.
    #[error(
        "cannot read project {0}, so the project's applications will not be synced until this is fixed: {1}"
    )]
    Unreadable(String, String),
}

impl MissingProject {
    /// Returns true if the missing project may appear at any moment.
    fn is_temporary(&self) -> bool {
        matches!(self, Self::Unknown | Self::Pending(..))
    }
}

impl From<MissingProject> for DestinationError {
    fn from(missing: MissingProject) -> Self {
        let text = missing.to_string();
        if missing.is_temporary() { Self::Unchecked(text) } else { Self::Invalid(text) }
    }
}

impl PolicyCheck for Projects {
    fn check_write(
        &self,
        policy: &ProjectPolicy,
        object: &ObjectKey,
        namespaced: Option<bool>,
    ) -> Result<(), ClusterError> {
        let (project, _) = self.find(&policy.project).map_err(|missing| {
            // The write is retried once the projects have been read.
            let kind = if missing.is_temporary() { ErrorKind::Unavailable } else { ErrorKind::Forbidden };
            ClusterError::new(kind, missing.to_string())
        })?;
        let checked = project::check_operation(&project, policy, &self.namespace)
            .and_then(|()| project::check_object(&project, &policy.target, object, namespaced));
        checked.map_err(|refused| ClusterError::new(ErrorKind::Forbidden, refused.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
