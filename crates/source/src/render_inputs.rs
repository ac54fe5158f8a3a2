//! Everything that rendering depends on besides the source itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::repository::Repository;
use crate::tree::Limits;
use crate::{DependencyFetcher, RenderTarget, Tools};

/// Everything that rendering depends on besides the source itself.
#[derive(Clone, Default)]
pub struct RenderInputs {
    /// Limits for the files of a source.
    pub limits: Limits,
    /// Helm and Kustomize, with their resource limits.
    pub tools: Tools,
    /// Target Application and cluster of the manifests.
    pub purpose: RenderTarget,
    /// Sources by `ref`. Charts can use their files as values files.
    pub referenced: BTreeMap<String, ReferencedSource>,
    /// Fetcher of remote dependencies. If `None`, they are an error.
    pub dependencies: Option<Arc<DependencyFetcher>>,
}

/// A source that other sources can refer to.
#[derive(Clone)]
pub struct ReferencedSource {
    /// Repository of the source.
    pub repository: Arc<Repository>,
    /// ID of the source's resolved commit.
    pub commit: String,
}
