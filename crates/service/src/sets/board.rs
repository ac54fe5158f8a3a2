//! How each ApplicationSet stands now: for those who ask, and for the actors that begin anew.

use std::sync::Arc;

use tidegate_model::argo::ApplicationSet;
use tokio::sync::broadcast;

use crate::applications::store::AppKey;
use crate::board::Board;

/// How each ApplicationSet stands. Cheap to clone: all clones show the same.
#[derive(Clone, Default)]
pub(crate) struct SetBoard {
    posted: Arc<Board<Arc<ApplicationSet>>>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundSets {
    /// The ApplicationSets, by name.
    pub sets: Vec<Arc<ApplicationSet>>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

impl SetBoard {
    /// Returns what was there before.
    pub fn post(&self, key: &AppKey, set: Arc<ApplicationSet>) -> Option<Arc<ApplicationSet>> {
        self.posted.post(key, set)
    }

    pub fn remove(&self, key: &AppKey) {
        self.posted.remove(key);
    }

    pub fn set_problems(&self, problems: Vec<String>) {
        self.posted.set_problems(problems);
    }

    /// Those that change from now on.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.posted.changes()
    }

    /// All, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> FoundSets {
        let (sets, problems) = self.posted.find(text);
        FoundSets { sets, problems }
    }
}
