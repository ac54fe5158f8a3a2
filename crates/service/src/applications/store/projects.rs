//! Projects where they are written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_cluster::{Detail, ErrorKind, Followed, Scope};
use tidegate_model::argo::{self, API_VERSION, AppProject};
use tidegate_model::{Gvk, Object};

use super::super::projects::ProjectSet;

/// Projects by name; of one that cannot be read, why.
pub(super) type Named = BTreeMap<String, Result<Arc<AppProject>, String>>;

/// What they are called in resources.
pub(super) const KIND: &str = "AppProject";

/// Reads one; `place` is where it is written down.
pub(super) fn read(value: &Value, place: &str) -> (String, Result<Arc<AppProject>, String>) {
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = argo::read::<AppProject>(value);
    (name, read.map(Arc::new).map_err(|error| format!("{place}: {error}")))
}

/// Adds one that is written down at `place`. Of two of one name neither counts: nobody can say which of them is meant.
pub(super) fn add(all: &mut Named, name: String, project: Result<Arc<AppProject>, String>, place: &str) {
    let said_twice =
        || format!("{place}: AppProject {name} is written down a second time; remove one of them");
    let project = if all.contains_key(&name) { Err(said_twice()) } else { project };
    all.insert(name, project);
}

/// All that are in files. `problems`: why there may be others, which nobody has seen yet; `coming`: why others may be about to come.
pub(super) fn of_files(projects: Named, problems: Option<&[String]>, coming: Option<String>) -> ProjectSet {
    let unsure = problems.filter(|_| !projects.contains_key(DEFAULT_PROJECT));
    ProjectSet { unsure: unsure.map(|problems| problems.join("; ")), projects, coming }
}

/// Those of a namespace of a cluster.
pub(super) fn scope(namespace: &str) -> Scope {
    let gvk = Gvk::from_api_version(API_VERSION, KIND);
    Scope { gvk, namespace: Some(namespace.to_owned()), detail: Detail::Full }
}

/// Takes in what happens to the projects of a cluster. Returns all of them where that is news. Where the cluster has no such
/// kind there are none; while it does not answer, those count that were there before.
pub(super) fn followed(known: &mut Option<Named>, what: Followed) -> Option<ProjectSet> {
    let before = known.clone();
    let insert = |known: &mut Option<Named>, object: &Object| {
        let (name, project) = read(object.as_value(), &format!("AppProject {}", object.name()));
        known.get_or_insert_default().insert(name, project);
    };
    match what {
        Followed::Listed(objects) => {
            *known = Some(Named::new());
            objects.iter().for_each(|object| insert(known, object));
        }
        Followed::Applied(object) => insert(known, &object),
        Followed::Deleted(object) => drop(known.get_or_insert_default().remove(object.name())),
        Followed::Failing(error) if error.kind == ErrorKind::UnknownKind => *known = Some(Named::new()),
        Followed::Failing(error) => {
            tracing::warn!(%error, "the projects of the cluster cannot be watched; it is tried again");
        }
    }
    let projects = known.clone().filter(|_| *known != before)?;
    Some(ProjectSet { projects, ..ProjectSet::default() })
}
