//! Inputs needed to render manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::repository::Repository;
use crate::tree::Limits;
use crate::{DependencyFetcher, RenderTarget, Tools};

/// Inputs needed to render manifests.
#[derive(Clone, Default)]
pub struct RenderInputs {
    /// Limits on the size of a folder.
    pub limits: Limits,
    /// Helm and Kustomize, with their limits.
    pub tools: Tools,
    /// Application and cluster for which the manifests are rendered.
    pub purpose: RenderTarget,
    /// Sources by `ref`. Their files can be used as values files.
    pub referenced: BTreeMap<String, ReferencedSource>,
    /// Access to remote dependencies. `None` disables it.
    pub dependencies: Option<Arc<DependencyFetcher>>,
}

/// A source that other sources can refer to.
#[derive(Clone)]
pub struct ReferencedSource {
    /// Repository.
    pub repository: Arc<Repository>,
    /// All digits of the commit.
    pub commit: String,
}
