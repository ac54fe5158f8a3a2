//! Sources with their revisions, one by one.

use std::path::Path;
use std::sync::Arc;

use tidegate_application::credentials::hide_credentials;
use tidegate_application::sources::Sources;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{Home, SourceError};

/// Why manifests are not there.
pub(super) struct Problem(pub String);

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        Self(error.to_string())
    }
}

/// One of the sources.
pub(super) struct Part {
    pub source: ApplicationSource,
    pub revision: String,
    /// The project for whose Applications it is asked for.
    pub project: Arc<str>,
    /// How it is called where there are others.
    name: String,
}

impl Part {
    /// It has no manifests of its own: other sources refer to its files.
    pub fn is_for_others(&self) -> bool {
        self.source.path.is_empty() && !self.source.reference.is_empty()
    }

    /// Who asks for it, of those who are at home in a folder.
    pub fn home<'h>(&'h self, base: &'h Path) -> Home<'h> {
        Home { base, project: &self.project }
    }

    /// Does something with it; what goes wrong is told with its name, and without the credentials of its address.
    pub fn try_to<T, E: Into<Problem>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
        work().map_err(|error| {
            let Problem(text) = error.into();
            format!("{}{}", self.name, hide_credentials(&text, &self.source.repo_url))
        })
    }
}

/// Each source with its revision.
pub(super) fn parts((sources, project): (&Sources, &str), revisions: Vec<String>) -> Vec<Part> {
    let (is_list, project) = (sources.is_list(), Arc::from(project));
    let named = |(at, (source, revision)): (usize, (&ApplicationSource, String))| {
        let name = if is_list { format!("spec.sources[{at}]: ") } else { String::new() };
        Part { source: source.clone(), revision, project: Arc::clone(&project), name }
    };
    sources.all().iter().zip(revisions).enumerate().map(named).collect()
}
