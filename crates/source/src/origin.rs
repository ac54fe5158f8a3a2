//! Where a source is from: a Git repository, or one of charts.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::argo::ApplicationSource;
use tidegate_model::{Digest, Timestamp};

use crate::charts::{ChartRepository, LocatedChart};
use crate::located::Located;
use crate::making::Making;
use crate::repository::{File, Repository};
use crate::signing::{Keyring, Wanted};
use crate::{Address, SourceError, versions};

/// Where a source is from.
#[derive(Clone)]
pub enum Origin {
    /// Git, on this machine or on a server.
    Git(Arc<Repository>),
    /// A Helm repository, or a chart of an OCI registry.
    Charts(Arc<ChartRepository>),
}

/// The manifests of a source in a revision, not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder in a commit of a Git repository.
    Git(Located),
    /// A chart in a version.
    Chart(Box<LocatedChart>),
}

impl Found {
    /// The same content, read and made in the same way, has the same key.
    pub fn key(&self) -> Digest {
        match self {
            Self::Git(located) => located.key,
            Self::Chart(located) => located.key,
        }
    }

    /// What makes them, as a status names it.
    pub fn source_type(&self) -> &'static str {
        match self {
            Self::Git(located) => located.source_type(),
            Self::Chart(_) => "Helm",
        }
    }

    /// Whether a program has to make them.
    pub fn is_made(&self) -> bool {
        match self {
            Self::Git(located) => located.is_made(),
            Self::Chart(_) => true,
        }
    }
}

/// Whether a source is a chart of a Helm repository or a registry.
pub(crate) fn is_chart(source: &ApplicationSource) -> bool {
    !source.chart.is_empty() || source.repo_url.starts_with("oci://")
}

/// Which repository a source is from; relative addresses are relative to `base`.
pub(crate) fn address(source: &ApplicationSource, base: &Path) -> Result<Address, SourceError> {
    match is_chart(source) {
        true => Address::of_chart(&source.repo_url, &source.chart),
        false => Address::parse(&source.repo_url, base),
    }
}

impl Origin {
    /// The `repoURL` that it was opened for.
    pub fn address(&self) -> &Address {
        match self {
            Self::Git(repository) => repository.address(),
            Self::Charts(repository) => repository.address(),
        }
    }

    /// Looks again at what there is. Says whether that has changed since the last look.
    pub fn look(&self) -> Result<bool, SourceError> {
        match self {
            Self::Git(repository) => repository.look(),
            Self::Charts(repository) => repository.look(),
        }
    }

    /// Looks again. Says whether anything has changed for those who use it, be it that nothing can be seen.
    pub fn look_again(&self) -> bool {
        match self {
            Self::Git(repository) => repository.look_again(),
            Self::Charts(repository) => repository.look_again(),
        }
    }

    /// Whether a revision is what it is, whatever a look would show: a commit, or a version.
    pub fn is_fixed(&self, revision: &str) -> bool {
        match self {
            Self::Git(_) => revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit()),
            Self::Charts(_) => versions::is_whole(revision),
        }
    }

    /// The commit or version a revision means by the last look.
    pub fn resolve(&self, source: &ApplicationSource, revision: &str) -> Result<String, SourceError> {
        match self {
            Self::Git(repository) => repository.resolve(revision),
            Self::Charts(repository) => repository.resolve(source, revision),
        }
    }

    /// Refuses a commit that is not signed as a project wants it; `names` are the revisions that it was named by.
    pub(crate) fn check_signed(
        &self,
        revision: (&str, &[&str]),
        keyring: &Keyring,
        wanted: (&Wanted, Timestamp),
    ) -> Result<(), SourceError> {
        match self {
            Self::Git(repository) => repository.check_signed(revision, keyring, wanted),
            Self::Charts(_) => Err(SourceError::UnsignedChart { project: wanted.0.project().to_owned() }),
        }
    }

    /// Finds the manifests of a source in a commit or version.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        revision: &str,
        making: &Making,
    ) -> Result<Found, SourceError> {
        match self {
            Self::Git(repository) => repository.locate(source, revision, making).map(Found::Git),
            Self::Charts(repository) => {
                repository.locate(source, revision, making).map(|located| Found::Chart(Box::new(located)))
            }
        }
    }

    /// Reads or makes the manifests that were found.
    pub fn read(&self, found: &Found, making: &Making) -> Result<Vec<File>, SourceError> {
        match (self, found) {
            (Self::Git(repository), Found::Git(located)) => repository.read(located, making),
            (Self::Charts(repository), Found::Chart(located)) => repository.read(located, making),
            _ => Err(SourceError::NotOfCharts),
        }
    }
}
