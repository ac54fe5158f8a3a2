//! What manifests are made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::repository::Repository;
use crate::tree::Limits;
use crate::{Purpose, Tools};

/// What manifests are made with.
#[derive(Clone, Default)]
pub struct Making {
    /// How much of a folder is read.
    pub limits: Limits,
    /// The programs.
    pub tools: Tools,
    /// What they are made for.
    pub purpose: Purpose,
    /// The sources whose files may be named, by their `ref`.
    pub referred: BTreeMap<String, Referred>,
}

/// A source whose files may be named by others.
#[derive(Clone)]
pub struct Referred {
    /// Its repository.
    pub repository: Arc<Repository>,
    /// Its commit.
    pub commit: String,
}
