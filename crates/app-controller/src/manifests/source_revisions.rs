//! Pairs each source with its revision.

use std::path::Path;
use std::sync::Arc;

use tidegate_application::credentials::hide_credentials;
use tidegate_application::sources::Sources;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{AddressContext, FailureCause, SourceError};

/// Reason why manifests aren't available.
pub struct SourceProblem {
    /// Error message.
    pub words: String,
    /// Cause of the error.
    pub cause: FailureCause,
}

impl From<SourceError> for SourceProblem {
    fn from(error: SourceError) -> Self {
        Self { words: error.to_string(), cause: error.cause() }
    }
}

/// Converts an internal error or an error without a known cause.
impl From<String> for SourceProblem {
    fn from(words: String) -> Self {
        Self { words, cause: FailureCause::Environment }
    }
}

impl From<SourceProblem> for String {
    fn from(problem: SourceProblem) -> Self {
        problem.words
    }
}

/// A source, together with its revision.
pub(super) struct SourceRevision {
    pub source: ApplicationSource,
    pub revision: String,
    /// Project of the Application that uses the source.
    pub project: Arc<str>,
    /// Prefix for messages if there are several sources.
    name: String,
}

impl SourceRevision {
    /// Returns true if the source doesn't have its own manifests and only provides files for other sources.
    pub fn is_reference_only(&self) -> bool {
        self.source.path.is_empty() && !self.source.reference.is_empty()
    }

    /// Returns the source's project and the base directory for relative URLs.
    pub fn address_context<'h>(&'h self, base: &'h Path) -> AddressContext<'h> {
        AddressContext { base, project: &self.project }
    }

    /// Calls a function with the source. Errors name the source, but without the credentials in its URL.
    pub fn with_error_context<T, E: Into<SourceProblem>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, SourceProblem> {
        work().map_err(|error| {
            let SourceProblem { words, cause } = error.into();
            let words = format!("{}{}", self.name, hide_credentials(&words, &self.source.repo_url));
            SourceProblem { words, cause }
        })
    }
}

/// Pairs each source with its revision.
pub(super) fn pair_revisions(
    sources: &Sources,
    project: &str,
    revisions: Vec<String>,
) -> Vec<SourceRevision> {
    let (is_list, project) = (sources.is_list(), Arc::from(project));
    let named = |(at, (source, revision)): (usize, (&ApplicationSource, String))| {
        let name = if is_list { format!("spec.sources[{at}]: ") } else { String::new() };
        SourceRevision { source: source.clone(), revision, project: Arc::clone(&project), name }
    };
    sources.as_slice().iter().zip(revisions).enumerate().map(named).collect()
}
