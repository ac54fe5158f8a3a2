//! Manifests of a source, either in a Git repository or in a chart repository.

use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::located::LocatedManifests;
use crate::located_chart::LocatedChart;
use crate::render_inputs::RenderInputs;
use crate::repositories::Origin;
use crate::repository::File;

/// A source's manifests in a revision, located but not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocatedSource {
    /// A folder in a commit of a Git repository.
    Git(LocatedManifests),
    /// A version of a chart.
    Chart(Box<LocatedChart>),
}

impl LocatedSource {
    /// Returns the digest of the content and the parameters. Equal keys mean equal manifests.
    pub fn key(&self) -> Digest {
        match self {
            Self::Git(located) => located.key,
            Self::Chart(located) => located.key,
        }
    }

    /// Returns the type of the source, as shown in an Application's status.
    pub fn source_type(&self) -> &'static str {
        match self {
            Self::Git(located) => located.source_type(),
            Self::Chart(_) => "Helm",
        }
    }

    /// Returns true if Helm or Kustomize must render the manifests.
    pub fn is_rendered(&self) -> bool {
        match self {
            Self::Git(located) => located.is_rendered(),
            Self::Chart(_) => true,
        }
    }
}

impl Origin {
    /// Locates a source's manifests in a revision: a commit, or a version of a chart.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        revision: &str,
        making: &RenderInputs,
    ) -> Result<LocatedSource, SourceError> {
        match self {
            Self::Git(repository) => {
                repository.locate_manifests(source, revision, making).map(LocatedSource::Git)
            }
            Self::Charts(repository) => repository
                .locate(source, revision, making)
                .map(|located| LocatedSource::Chart(Box::new(located))),
        }
    }

    /// Reads the manifests, rendering them if necessary.
    pub fn read_manifests(
        &self,
        found: &LocatedSource,
        making: &RenderInputs,
    ) -> Result<Vec<File>, SourceError> {
        match (self, found) {
            (Self::Git(repository), LocatedSource::Git(located)) => repository.read(located, making),
            (Self::Charts(repository), LocatedSource::Chart(located)) => repository.render(located, making),
            _ => Err(SourceError::NotHelm),
        }
    }
}
