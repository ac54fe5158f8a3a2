//! One source or several: said in other fields, meant in the same way.

use tidegate_model::argo::{Application, ApplicationSource};

use crate::credentials;

/// What is deployed. A list is said in fields of its own, also where it has one entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    list: Vec<ApplicationSource>,
    is_list: bool,
}

impl Sources {
    /// Those of an application.
    pub fn of(application: &Application) -> Self {
        Self::said(application.spec.source.as_ref(), &application.spec.sources).unwrap_or_default()
    }

    /// What the two fields say; the list counts where there is one.
    pub fn said(source: Option<&ApplicationSource>, sources: &[ApplicationSource]) -> Option<Self> {
        match (source, sources) {
            (_, [_, ..]) => Some(Self { list: sources.to_vec(), is_list: true }),
            (Some(source), []) => Some(Self { list: vec![source.clone()], is_list: false }),
            (None, []) => None,
        }
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[ApplicationSource] {
        &self.list
    }

    /// Whether they are said as a list.
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// The same without credentials: to be shown, kept and compared.
    pub fn bare(&self) -> Self {
        Self { list: self.list.iter().map(credentials::bare).collect(), is_list: self.is_list }
    }

    /// Which revisions they ask for.
    pub fn wanted(&self) -> Vec<String> {
        self.list.iter().map(|source| source.target_revision.clone()).collect()
    }

    /// What the field `source` says of them.
    pub fn one(&self) -> Option<ApplicationSource> {
        self.list.first().filter(|_| !self.is_list).cloned()
    }

    /// What the field `sources` says of them.
    pub fn several(&self) -> Vec<ApplicationSource> {
        if self.is_list { self.list.clone() } else { Vec::new() }
    }

    /// What the fields `revision` and `revisions` say of theirs.
    pub fn revisions(&self, revisions: &[String]) -> (String, Vec<String>) {
        match revisions {
            _ if self.is_list => (String::new(), revisions.to_vec()),
            [only] => (only.clone(), Vec::new()),
            _ => Default::default(),
        }
    }
}

/// Whether a revision is a whole commit, and no name of one.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() >= 40 && revision.chars().all(|c| c.is_ascii_hexdigit())
}

/// The revisions that the two fields say.
pub fn revisions(revision: &str, revisions: &[String]) -> Vec<String> {
    if revisions.is_empty() && !revision.is_empty() {
        return vec![revision.to_owned()];
    }
    revisions.to_vec()
}
