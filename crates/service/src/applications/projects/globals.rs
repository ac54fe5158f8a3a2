//! Global projects: which projects take over the rules of which others, as `globalProjects` in Argo CD's settings says.

use serde::Deserialize;
use serde_json::Value;
use tidegate_generate::Selector;
use tidegate_model::Object;
use tidegate_model::argo::{AppProject, LabelSelector};

use crate::applications::repositories::RepositoryFiles;
use crate::error::ServiceError;

/// Where Argo CD keeps its settings.
const CONFIG_MAP: &str = "argocd-cm";
/// Its key with the list of global projects, as YAML.
const KEY: &str = "globalProjects";

/// Which projects take over the rules of which others.
#[derive(Clone, Debug)]
pub(crate) enum Globals {
    /// Nobody has seen it yet.
    Unseen,
    /// What is said makes no sense, for this reason: what it forbids is not known.
    Wrong(String),
    /// These, in their order.
    These(Vec<Global>),
}

/// One global project, and the projects that take over its rules.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    project: String,
    about: Selector,
}

/// Who says so. Of both, the files count.
pub(crate) enum GlobalsTold {
    Files(Option<Globals>),
    Cluster(Globals),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    label_selector: LabelSelector,
    project_name: String,
}

impl Default for Globals {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

impl Globals {
    /// Whether an object is the one that says it.
    pub fn is_said_by(object: &Object) -> bool {
        (object.group(), object.kind(), object.name()) == ("", "ConfigMap", CONFIG_MAP)
    }

    /// What of that object counts.
    pub fn content(object: &Object) -> Option<&Value> {
        object.as_value().get("data")?.get(KEY)
    }

    /// What it says.
    pub fn of(object: &Object) -> Self {
        match Self::content(object) {
            None | Some(Value::Null) => Self::default(),
            Some(Value::String(text)) if text.trim().is_empty() => Self::default(),
            Some(Value::String(text)) => read(text).map_or_else(Self::Wrong, Self::These),
            Some(_) => Self::Wrong("is not text".to_owned()),
        }
    }

    /// What files say, if one of them does.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn of_files(files: &RepositoryFiles) -> Result<Option<Self>, ServiceError> {
        let mut found = None;
        files.each(|object| {
            if Self::is_said_by(object) {
                found = Some(Self::of(object));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The names of the global projects whose rules a project takes over. None is its own.
    pub fn about(&self, project: &AppProject) -> Result<Vec<&str>, String> {
        let all = match self {
            Self::Unseen => return Err(format!("{KEY} in the ConfigMap {CONFIG_MAP} was not seen yet")),
            Self::Wrong(problem) => return Err(format!("{KEY} in the ConfigMap {CONFIG_MAP} {problem}")),
            Self::These(all) => all,
        };
        let is_about = |one: &&Global| {
            one.project != project.metadata.name && one.about.matches_labels(&project.metadata.labels)
        };
        Ok(all.iter().filter(is_about).map(|one| one.project.as_str()).collect())
    }

    /// Why a global project is none, for people.
    pub fn missing(name: &str) -> String {
        format!(
            "its global project {name} is not there; write it down, or change {KEY} in the ConfigMap {CONFIG_MAP}"
        )
    }
}

fn read(text: &str) -> Result<Vec<Global>, String> {
    let entries: Vec<Entry> = serde_saphyr::from_str(text)
        .map_err(|error| format!("is no list of labelSelector and projectName: {error}"))?;
    let global = |Entry { label_selector, project_name }: Entry| {
        if project_name.is_empty() {
            return Err("has an entry without projectName".to_owned());
        }
        let about = Selector::new(&label_selector).map_err(|problem| {
            format!("has a labelSelector of {project_name} that makes no sense: {problem}")
        })?;
        if let Some(field) = label_selector.rest.keys().next() {
            return Err(format!(
                "has a field {field:?} in the labelSelector of {project_name} that is not known"
            ));
        }
        Ok(Global { project: project_name, about })
    };
    entries.into_iter().map(global).collect()
}
