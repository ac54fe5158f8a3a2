//! What manifests are made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::repository::Repository;
use crate::tree::Limits;
use crate::{Fetching, Purpose, Tools};

/// What manifests are made with.
#[derive(Clone, Default)]
pub struct Making {
    /// How much of a folder is read.
    pub limits: Limits,
    /// Helm and Kustomize, and what they may take.
    pub tools: Tools,
    /// What they are made for.
    pub purpose: Purpose,
    /// The sources whose files may be named, by their `ref`.
    pub referred: BTreeMap<String, Referred>,
    /// What may be fetched beside the source itself; nothing, if nothing is said.
    pub fetching: Option<Arc<Fetching>>,
}

/// A source whose files may be named by others.
#[derive(Clone)]
pub struct Referred {
    /// Where its files are read.
    pub repository: Arc<Repository>,
    /// All digits of the commit that they are read in.
    pub commit: String,
}
