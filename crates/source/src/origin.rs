//! Origins of manifests: a Git repository, a chart repository, or a single file on a server.

use std::sync::Arc;

use tidegate_model::argo::ApplicationSource;

use crate::charts::ChartRepository;
use crate::remote_dependencies::WebFile;
use crate::repository::Repository;
use crate::signing::{Keyring, SignatureCheck};
use crate::{Address, SourceError, version_constraints};

/// Origin of a source's manifests.
#[derive(Clone)]
pub enum Origin {
    /// A local or remote Git repository.
    Git(Arc<Repository>),
    /// A Helm repository, or a chart in an OCI registry.
    Charts(Arc<ChartRepository>),
}

/// Returns true if a source is a chart in a Helm repository or a registry.
pub(crate) fn is_chart(source: &ApplicationSource) -> bool {
    !source.chart.is_empty() || source.repo_url.starts_with("oci://")
}

impl Origin {
    /// Returns the address of the repository.
    pub fn address(&self) -> &Address {
        match self {
            Self::Git(repository) => repository.address(),
            Self::Charts(repository) => repository.address(),
        }
    }

    /// Observes the repository. Returns true if its content has changed since the last observation.
    pub fn observe(&self) -> Result<bool, SourceError> {
        match self {
            Self::Git(repository) => repository.observe(),
            Self::Charts(repository) => repository.observe(),
        }
    }

    /// Observes the repository. Returns true if its content or availability has changed since the last
    /// observation.
    pub fn observe_availability(&self) -> bool {
        match self {
            Self::Git(repository) => repository.observe_availability(),
            Self::Charts(repository) => repository.observe_availability(),
        }
    }

    /// Returns true if a revision is immutable, i.e. a commit or a complete version.
    pub fn is_immutable(&self, revision: &str) -> bool {
        match self {
            Self::Git(_) => revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit()),
            Self::Charts(_) => version_constraints::is_full_version(revision),
        }
    }

    /// Resolves a revision to a commit or version, as of the latest observation.
    pub fn resolve(&self, source: &ApplicationSource, revision: &str) -> Result<String, SourceError> {
        match self {
            Self::Git(repository) => repository.resolve(revision),
            Self::Charts(repository) => repository.resolve(source, revision),
        }
    }

    /// Fails unless the commit has a signature that the project accepts.
    pub(crate) fn check_signed(
        &self,
        check: SignatureCheck<'_>,
        keyring: &Keyring,
    ) -> Result<(), SourceError> {
        match self {
            Self::Git(repository) => repository.check_signed(check, keyring),
            Self::Charts(_) => Err(SourceError::UnsignedChart { project: check.keys.project().to_owned() }),
        }
    }
}

/// An open repository or file, observed repeatedly.
pub struct OpenSource(OpenSourceKind);

enum OpenSourceKind {
    /// A Git repository or a chart repository.
    Origin(Origin),
    /// A single file on a server.
    File(Arc<WebFile>),
}

impl OpenSource {
    pub(crate) fn from_origin(origin: Origin) -> Self {
        Self(OpenSourceKind::Origin(origin))
    }

    pub(crate) fn from_file(file: Arc<WebFile>) -> Self {
        Self(OpenSourceKind::File(file))
    }

    /// Returns the address of the repository or file.
    pub fn address(&self) -> &Address {
        match &self.0 {
            OpenSourceKind::Origin(origin) => origin.address(),
            OpenSourceKind::File(file) => file.address(),
        }
    }

    /// Returns true if a revision is immutable.
    pub fn is_immutable(&self, revision: &str) -> bool {
        matches!(&self.0, OpenSourceKind::Origin(origin) if origin.is_immutable(revision))
    }

    /// Observes the repository or file. Returns true if its content or availability has changed since the
    /// last observation.
    pub fn observe_availability(&self) -> bool {
        match &self.0 {
            OpenSourceKind::Origin(origin) => origin.observe_availability(),
            OpenSourceKind::File(file) => file.observe_availability(),
        }
    }
}
