//! What all applications of a process share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_application::approval::Policy;
use tidegate_application::operation;
use tidegate_application::pushes::Told;
use tidegate_application::sources::Sources;
use tidegate_application::windows::Windows;
use tidegate_executor::Engine;
use tidegate_health::HealthRules;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Destination, SyncRequest};
use tidegate_oplog::Log;
use tidegate_source::Address;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{broadcast, watch};

use super::actor::forget_unwritten;
use super::asked::GitRequests;
use super::board::Board;
use super::depending::Depending;
use super::manifests::Manifests;
use super::places::Places;
use super::projects::{Projects, name_of};
use super::pushed::Looks;
use super::reconciles::Reconciles;
use super::store::{AppKey, ApplicationStore};
use super::turns::Turns;
use super::watching::Watchings;
use crate::gates::GateFile;
use crate::plans::Plans;

/// At the end, so many applications are written down at once, and for so long.
const AT_ONCE: usize = 16;
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The applications of which something is shown that is not written down yet.
#[derive(Default)]
pub(crate) struct Unwritten(Mutex<BTreeSet<AppKey>>);

impl Unwritten {
    fn all(&self) -> MutexGuard<'_, BTreeSet<AppKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, key: &AppKey) {
        self.all().insert(key.clone());
    }

    pub fn remove(&self, key: &AppKey) {
        self.all().remove(key);
    }
}

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
    /// How long syncs wait between waves, where that is fixed.
    pub wave_delay: Option<Duration>,
    pub board: Board,
    pub unwritten: Unwritten,
    pub depending: Depending,
    /// Whose turn it is, of Applications that are deleted in an order.
    pub turns: Turns,
    pub watching: Watchings,
    pub reconciles: Reconciles,
    /// What Git repositories were asked.
    pub requests: GitRequests,
    pub looks: Looks,
    /// Who hears of repositories whose names have moved.
    pub moved: UnboundedSender<Moved>,
    /// What servers of repositories tell.
    pub told: broadcast::Sender<Arc<Told>>,
    /// The last look at the store that somebody has asked for, and whose findings have been passed on.
    pub looked: watch::Sender<u64>,
}

/// Repositories whose names have moved, as a look at them has found, which no later look finds again: all that use them are to be
/// compared, but for one that is compared with what has moved already.
pub(crate) struct Moved {
    pub addresses: Vec<Address>,
    pub but: Option<AppKey>,
}

/// Where what a revision means is found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// In what the last look at its repository has shown.
    Last,
    /// In a new look; whoever uses what has moved is told.
    New,
    /// The same, for a comparison of the application itself.
    ToCompare,
}

impl Shared {
    /// What an operation of an application asks of the engine.
    pub fn request(
        &self,
        application: &Application,
        asked: &OperationRequest,
        to: (Destination, String),
        revisions: &[String],
    ) -> Result<SyncRequest, operation::Refused> {
        let request = operation::request(application, asked, to, revisions)?;
        Ok(SyncRequest { wave_delay: self.wave_delay, ..request })
    }

    /// What revisions of the sources of an application mean, one for each.
    pub async fn resolve(
        &self,
        application: &Application,
        wanted: (&Sources, Vec<String>),
        look: Look,
    ) -> Result<Vec<String>, String> {
        let (resolved, addresses) = self.manifests.resolve(application, wanted, look != Look::Last).await;
        let but = (look == Look::ToCompare).then(|| AppKey::of(application));
        self.tell_moved(addresses, but);
        resolved
    }

    /// Has those compared that use repositories whose names have moved.
    pub fn tell_moved(&self, addresses: Vec<Address>, but: Option<AppKey>) {
        if !addresses.is_empty() {
            // Whoever ends does not care any more.
            drop(self.moved.send(Moved { addresses, but }));
        }
    }

    /// Writes down what is shown and was not written yet, when nobody else writes any more. What cannot be written in time is
    /// known from the log at the next start.
    pub async fn write_what_is_left(&self) {
        self.store.rest().await;
        let left = std::mem::take(&mut *self.unwritten.all());
        let write = |key: AppKey| async move {
            let Some(shown) = self.board.get(&key) else { return };
            let mut application = Application::clone(&shown);
            forget_unwritten(&mut application);
            if let Err(error) = self.store.keep(&application).await {
                tracing::debug!(application = %key, %error, "the last of what is known could not be written down");
            }
        };
        let writing = futures_util::stream::iter(left).for_each_concurrent(AT_ONCE, write);
        if tokio::time::timeout(LAST_WRITES, writing).await.is_err() {
            tracing::info!("not all that is known of applications could be written down in time");
        }
    }

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
