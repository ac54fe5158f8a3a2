//! Global projects, whose rules other projects inherit, as configured with `globalProjects` in Argo CD's
//! settings.

use serde::Deserialize;
use serde_json::Value;
use tidegate_generate::Selector;
use tidegate_model::Object;
use tidegate_model::argo::{AppProject, LabelSelector};
use tidegate_state::error::ServiceError;

use crate::repositories::RepositoryFiles;

/// Name of the ConfigMap with Argo CD's settings.
const CONFIG_MAP: &str = "argocd-cm";
/// Key under which the ConfigMap lists the global projects, as YAML.
const GLOBAL_PROJECTS_KEY: &str = "globalProjects";

/// Global projects, and the projects that inherit from them.
#[derive(Clone, Debug)]
pub enum GlobalProjects {
    /// The setting hasn't been read yet.
    Unread,
    /// The setting is invalid, for this reason, so the restrictions can't be determined.
    Invalid(String),
    /// The global projects, in order.
    Known(Vec<GlobalProject>),
}

/// A global project, and a selector for the projects that inherit its rules.
#[derive(Clone, Debug)]
pub struct GlobalProject {
    project: String,
    selector: Selector,
}

/// New value of the setting, by source. Files take precedence over the cluster.
pub enum GlobalProjectsUpdate {
    /// Settings from files. `None` if the files are unreadable.
    Files(Option<GlobalProjects>),
    /// Settings from the cluster.
    Cluster(GlobalProjects),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    label_selector: LabelSelector,
    project_name: String,
}

impl Default for GlobalProjects {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl GlobalProjects {
    /// Returns true if an object has the setting.
    pub fn is_set_in(object: &Object) -> bool {
        (object.group(), object.kind(), object.name()) == ("", "ConfigMap", CONFIG_MAP)
    }

    /// Returns the setting contained in an object.
    pub fn setting_of(object: &Object) -> Option<&Value> {
        object.as_value().get("data")?.get(GLOBAL_PROJECTS_KEY)
    }

    /// Parses the setting contained in an object.
    pub fn from_object(object: &Object) -> Self {
        match Self::setting_of(object) {
            None | Some(Value::Null) => Self::default(),
            Some(Value::String(text)) if text.trim().is_empty() => Self::default(),
            Some(Value::String(text)) => parse(text).map_or_else(Self::Invalid, Self::Known),
            Some(_) => Self::Invalid("is not a string".to_owned()),
        }
    }

    /// Reads the setting from files, if one of the files contains it.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub fn read_files(files: &RepositoryFiles) -> Result<Option<Self>, ServiceError> {
        let mut found = None;
        files.for_each_object(|object| {
            if Self::is_set_in(object) {
                found = Some(Self::from_object(object));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the names of the global projects that a project inherits from. A project never inherits from
    /// itself.
    pub fn inherited_by(&self, project: &AppProject) -> Result<Vec<&str>, String> {
        let all = match self {
            Self::Unread => {
                return Err(format!(
                    "{GLOBAL_PROJECTS_KEY} in the {CONFIG_MAP} ConfigMap has not been read yet"
                ));
            }
            Self::Invalid(problem) => {
                return Err(format!("{GLOBAL_PROJECTS_KEY} in the {CONFIG_MAP} ConfigMap {problem}"));
            }
            Self::Known(all) => all,
        };
        let is_about = |one: &&GlobalProject| {
            one.project != project.metadata.name && one.selector.matches_labels(&project.metadata.labels)
        };
        Ok(all.iter().filter(is_about).map(|one| one.project.as_str()).collect())
    }

    /// Returns the message for a global project that doesn't exist.
    pub fn missing_message(name: &str) -> String {
        format!(
            "the global project {name} does not exist; create it, or change {GLOBAL_PROJECTS_KEY} in the \
             {CONFIG_MAP} ConfigMap"
        )
    }
}

fn parse(text: &str) -> Result<Vec<GlobalProject>, String> {
    let entries: Vec<Entry> = serde_saphyr::from_str(text)
        .map_err(|error| format!("is not a list of entries with labelSelector and projectName: {error}"))?;
    let global = |Entry { label_selector, project_name }: Entry| {
        if project_name.is_empty() {
            return Err("has an entry without projectName".to_owned());
        }
        let selector = Selector::new(&label_selector)
            .map_err(|problem| format!("has an invalid labelSelector for {project_name}: {problem}"))?;
        if let Some(field) = label_selector.rest.keys().next() {
            return Err(format!("has an unknown field {field:?} in the labelSelector of {project_name}"));
        }
        Ok(GlobalProject { project: project_name, selector })
    };
    entries.into_iter().map(global).collect()
}
