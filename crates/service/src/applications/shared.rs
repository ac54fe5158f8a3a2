//! What all applications of a process share.

use std::sync::Arc;
use std::time::Duration;

use tidegate_application::approval::Policy;
use tidegate_application::pushes::Told;
use tidegate_application::windows::Windows;
use tidegate_executor::Engine;
use tidegate_health::HealthRules;
use tidegate_model::argo::Application;
use tidegate_oplog::Log;
use tokio::sync::broadcast;

use super::board::Board;
use super::depending::Depending;
use super::manifests::Manifests;
use super::places::Places;
use super::projects::{Projects, name_of};
use super::pushed::Looks;
use super::reconciles::Reconciles;
use super::store::ApplicationStore;
use super::turns::Turns;
use super::watching::Watchings;
use crate::gates::GateFile;
use crate::plans::Plans;

pub(crate) struct Shared {
    pub engine: Engine,
    pub log: Log,
    pub store: Arc<dyn ApplicationStore>,
    pub places: Places,
    pub projects: Arc<Projects>,
    pub manifests: Arc<Manifests>,
    pub rules: HealthRules,
    /// What the names of gates stand for.
    pub gates: GateFile,
    /// What is planned and kept.
    pub plans: Option<Arc<Plans>>,
    /// After so long a comparison is old.
    pub every: Duration,
    pub board: Board,
    pub depending: Depending,
    /// Whose turn it is, of Applications that are deleted in an order.
    pub turns: Turns,
    pub watching: Watchings,
    pub reconciles: Reconciles,
    pub looks: Looks,
    /// What servers of repositories tell.
    pub told: broadcast::Sender<Arc<Told>>,
}

impl Shared {
    /// Which approvals the syncs of an application need; or why that is not known.
    pub fn approvals(&self, application: &Application) -> Result<Policy, String> {
        let (project, _) = self.projects.find(name_of(application)).map_err(|missing| missing.to_string())?;
        Ok(Policy::of(application, &project))
    }

    /// The sync windows that are about an application.
    pub fn windows(&self, application: &Application) -> Windows {
        let place = self.places.resolve(&application.spec.destination);
        place.map(|place| self.projects.windows(application, &place.target)).unwrap_or_default()
    }
}
