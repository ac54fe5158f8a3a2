//! How each application stands now: for those who ask, and for the actors that begin anew.

use std::sync::Arc;

use tidegate_application::running::Deployed;
use tidegate_model::argo::Application;
use tokio::sync::broadcast;

use super::store::AppKey;
use crate::board;

/// How each application stands.
#[derive(Default)]
pub struct Board {
    posted: board::Board<(Arc<Application>, Arc<Deployments>)>,
}

/// What is known of how an application came to be as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deployments {
    /// The newest operation that has deployed all of it.
    pub newest: Option<Deployed>,
    /// The newest of those that were over before the comparison began which is shown: what is shown is seen after it.
    pub evidence: Option<Deployed>,
    /// Whether what is shown was compared by this process.
    pub is_compared: bool,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The applications, by name.
    pub applications: Vec<Arc<Application>>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

impl Board {
    /// Returns what was there before.
    pub(super) fn post(
        &self,
        key: &AppKey,
        application: Arc<Application>,
        deployments: Deployments,
    ) -> Option<Arc<Application>> {
        self.posted.post(key, (application, Arc::new(deployments))).map(|(before, _)| before)
    }

    pub(super) fn remove(&self, key: &AppKey) {
        self.posted.remove(key);
    }

    pub(super) fn set_problems(&self, problems: Vec<String>) {
        self.posted.set_problems(problems);
    }

    pub(crate) fn get(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.posted.get(key).map(|(application, _)| application)
    }

    /// An application, and how it came to be as it is shown: both of one moment.
    pub(crate) fn sight(&self, key: &AppKey) -> Option<(Arc<Application>, Arc<Deployments>)> {
        self.posted.get(key)
    }

    /// Those that change from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.posted.changes()
    }

    pub(crate) fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.posted.all().into_iter().map(|(key, (application, _))| (key, application)).collect()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.posted.problems()
    }

    /// All, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> Found {
        let (found, problems) = self.posted.find(text);
        Found { applications: found.into_iter().map(|(application, _)| application).collect(), problems }
    }
}
