//! Unified access to one or several sources, which an Application stores in different fields.

use tidegate_model::argo::{Application, ApplicationSource};

use crate::credentials;

/// Sources of a deployment, from either the `source` field or the `sources` list. A list with a single entry
/// is still a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    list: Vec<ApplicationSource>,
    is_list: bool,
}

impl Sources {
    /// Returns the sources of an application.
    pub fn from_application(application: &Application) -> Self {
        Self::from_fields(application.spec.source.as_ref(), &application.spec.sources).unwrap_or_default()
    }

    /// Returns the sources in the `source` and `sources` fields. The list takes precedence.
    pub fn from_fields(source: Option<&ApplicationSource>, sources: &[ApplicationSource]) -> Option<Self> {
        match (source, sources) {
            (_, [_, ..]) => Some(Self { list: sources.to_vec(), is_list: true }),
            (Some(source), []) => Some(Self { list: vec![source.clone()], is_list: false }),
            (None, []) => None,
        }
    }

    /// Returns all sources in order.
    pub fn as_slice(&self) -> &[ApplicationSource] {
        &self.list
    }

    /// Returns true if the sources are specified as a list.
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// Returns the sources without credentials, for display, storage and comparison.
    pub fn without_credentials(&self) -> Self {
        Self {
            list: self.list.iter().map(credentials::source_without_credentials).collect(),
            is_list: self.is_list,
        }
    }

    /// Returns the target revision of each source.
    pub fn target_revisions(&self) -> Vec<String> {
        self.list.iter().map(|source| source.target_revision.clone()).collect()
    }

    /// Returns the value for the `source` field.
    pub fn single_field(&self) -> Option<ApplicationSource> {
        self.list.first().filter(|_| !self.is_list).cloned()
    }

    /// Returns the value for the `sources` field.
    pub fn list_field(&self) -> Vec<ApplicationSource> {
        if self.is_list { self.list.clone() } else { Vec::new() }
    }

    /// Returns the values for the `revision` and `revisions` fields.
    pub fn revision_fields(&self, revisions: &[String]) -> (String, Vec<String>) {
        match revisions {
            _ if self.is_list => (String::new(), revisions.to_vec()),
            [only] => (only.clone(), Vec::new()),
            _ => Default::default(),
        }
    }
}

/// Returns true if a revision is a full commit hash.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() >= 40 && revision.chars().all(|c| c.is_ascii_hexdigit())
}

/// Returns the revisions from the `revision` and `revisions` fields.
pub fn revisions_of_fields(revision: &str, revisions: &[String]) -> Vec<String> {
    if revisions.is_empty() && !revision.is_empty() {
        return vec![revision.to_owned()];
    }
    revisions.to_vec()
}
