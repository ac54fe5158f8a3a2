//! Projects in the stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_cluster::{Detail, ErrorKind, Scope, ScopeChange};
use tidegate_model::argo::{self, API_VERSION, AppProject};
use tidegate_model::{Gvk, Object};

/// All projects in the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectSet {
    /// Projects, by name. An unreadable project is an error.
    pub projects: ProjectResults,
    /// Reason any project, including `default`, may be unreadable.
    pub unreadable_reason: Option<String>,
    /// Reason more projects may appear soon. Applications wait for them.
    pub pending_reason: Option<String>,
}

/// Projects, by name. An unreadable project is an error.
pub type ProjectResults = BTreeMap<String, Result<Arc<AppProject>, String>>;

/// Kind of the resources.
pub(super) const KIND: &str = "AppProject";

/// Parses a project. `place` is its location, for messages.
pub(super) fn parse_project(value: &Value, place: &str) -> (String, Result<Arc<AppProject>, String>) {
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = argo::read_resource::<AppProject>(value);
    (name, read.map(Arc::new).map_err(|error| format!("{place}: {error}")))
}

/// Adds a project found at `place`. Two projects with the same name are both invalid, because it isn't clear
/// which one was meant.
pub(super) fn add_project(
    all: &mut ProjectResults,
    name: String,
    project: Result<Arc<AppProject>, String>,
    place: &str,
) {
    let duplicate_error = || format!("{place}: duplicate AppProject {name}; remove one of them");
    let project = if all.contains_key(&name) { Err(duplicate_error()) } else { project };
    all.insert(name, project);
}

/// Returns the projects in all files. `problems` are reasons that projects may be unreadable, and
/// `pending_reason` is the reason that more may appear soon.
pub(super) fn projects_from_files(
    projects: ProjectResults,
    problems: Option<&[String]>,
    pending_reason: Option<String>,
) -> ProjectSet {
    let unsure = problems.filter(|_| !projects.contains_key(DEFAULT_PROJECT));
    ProjectSet { unreadable_reason: unsure.map(|problems| problems.join("; ")), projects, pending_reason }
}

/// Returns the watch scope for the projects in a namespace of a cluster.
pub(super) fn scope(namespace: &str) -> Scope {
    let gvk = Gvk::from_api_version(API_VERSION, KIND);
    Scope { gvk, namespace: Some(namespace.to_owned()), detail: Detail::Full }
}

/// Applies a watch event. Returns all projects if any changed. If the cluster lacks the kind, there are no
/// projects. If it doesn't respond, the previous projects are kept.
pub(super) fn apply_event(known: &mut Option<ProjectResults>, what: ScopeChange) -> Option<ProjectSet> {
    let before = known.clone();
    let insert = |known: &mut Option<ProjectResults>, object: &Object| {
        let (name, project) = parse_project(object.as_value(), &format!("AppProject {}", object.name()));
        known.get_or_insert_default().insert(name, project);
    };
    match what {
        ScopeChange::Listed(objects) => {
            *known = Some(ProjectResults::new());
            objects.iter().for_each(|object| insert(known, object));
        }
        ScopeChange::Applied(object) => insert(known, &object),
        ScopeChange::Deleted(object) => drop(known.get_or_insert_default().remove(object.name())),
        ScopeChange::Failing(error) if error.kind == ErrorKind::UnknownKind => {
            *known = Some(ProjectResults::new())
        }
        ScopeChange::Failing(error) => {
            tracing::warn!(%error, "failed to watch AppProjects; retrying");
        }
    }
    let projects = known.clone().filter(|_| *known != before)?;
    Some(ProjectSet { projects, ..ProjectSet::default() })
}
