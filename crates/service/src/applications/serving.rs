//! What applications are asked through: by the socket, the API and webhooks.

mod plans;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_application::pushes::Told;
use tidegate_application::refresh::Level;
use tidegate_application::{credentials, operation, superseding};
use tidegate_applicationset::ownership::set_of;
use tidegate_executor::effects::ObjectDifference;
use tidegate_executor::{Clock as _, Counted, EngineError, SystemClock};
use tidegate_model::argo::{Application, OperationRequest, ResourceStatus};
use tidegate_model::{
    Cascade, Gvk, ObjectKey, OperationId, Plan, ResourceSelector, Severity, Warning, Wisher,
};
use tokio::sync::{broadcast, oneshot};

use super::asked::RepositoryRequests;
use super::board::Found;
use super::listing::{self, Begins, OrderBy, Page, Wanted};
use super::messages::{Answer, SupervisorMessage};
use super::places::standing::ClusterStanding;
use super::shared::Shared;
use super::store::AppKey;
use super::{comparing, deleting, pushed};
use crate::documents::deletion::DeletionPlan;
use crate::error::ServiceError;
use crate::lines::WindowLine;
use crate::simulated;

/// A comparison that somebody waits for takes no longer; less than an answer of the API may take.
const COMPARED_WITHIN: Duration = Duration::from_secs(50);
/// So many are named of those that keep an application from going.
const NAMED_MAX: usize = 10;
/// How long is waited for what is written down by now.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(5);

/// What applications are asked through. Cheap to clone.
#[derive(Clone)]
pub struct Serving {
    pub(crate) shared: Arc<Shared>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
}

impl Serving {
    /// Why nothing is done for the applications any more: the engine has failed, or what looks after them has ended. `None`
    /// while all is well.
    pub fn failure(&self) -> Option<EngineError> {
        let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&self.supervisor.get_status());
        self.shared.engine.failure().or(over.then_some(EngineError::Stopped))
    }

    /// All ApplicationSets were looked at: their Applications look whose turn it is.
    pub(crate) fn settle_turns(&self) {
        self.shared.turns.settle();
        let all = self.all().into_iter();
        let generated = all.filter(|(_, one)| set_of(one).is_some()).map(|(key, _)| key).collect();
        drop(self.supervisor.send_message(SupervisorMessage::Related(generated)));
    }

    /// The applications, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> Found {
        self.shared.board.find(text)
    }

    /// A page of the applications that are wanted.
    pub fn page(&self, wanted: &Wanted, order: (OrderBy, bool), begins: &Begins, limit: usize) -> Page {
        listing::page(self.shared.board.all(), wanted, order, begins, limit)
    }

    /// All applications, by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.shared.board.all()
    }

    /// An application as it is known here; what of it may be shown, [`Self::shown`] says.
    pub fn application(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.shared.board.get(key)
    }

    /// The application that asks for an operation.
    pub(crate) fn asking(&self, id: OperationId) -> Option<AppKey> {
        let asks = |one: &Application| one.operation.as_ref().and_then(operation::id) == Some(id);
        self.all().into_iter().find(|(_, application)| asks(application)).map(|(key, _)| key)
    }

    /// What waits for an operation, of the application that operations name so.
    pub(crate) fn waiting(&self, instance: &str, id: OperationId) -> Option<String> {
        let application = self.application(&AppKey::named(instance))?;
        let is_current = application.operation.as_ref().and_then(operation::id) == Some(id);
        superseding::waiting(&application).filter(|_| is_current).map(str::to_owned)
    }

    /// The application of this NAMESPACE/NAME, without credentials.
    pub fn shown(&self, text: &str) -> Option<Application> {
        let (namespace, name) = text.split_once('/')?;
        let key = AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Some(credentials::shown(self.application(&key)?.as_ref()))
    }

    /// By which rule the health of each of these objects of an application is judged, in words; `None` where nothing judges it.
    pub fn health_rules(&self, key: &AppKey, objects: &[ResourceStatus]) -> Vec<Option<String>> {
        let own = self.shared.board.own_rules(key);
        let rule = |one: &ResourceStatus| {
            let key = ObjectKey::new(&one.group, &one.kind, &one.namespace, &one.name);
            match own.get(&key) {
                Some(rule) => Some(rule.to_string()).filter(|rule| !rule.is_empty()),
                None => self.shared.rules.rule_for_kind(&Gvk::new(&one.group, &one.version, &one.kind)),
            }
        };
        objects.iter().map(rule).collect()
    }

    /// What Git repositories over the network were asked.
    pub fn git_requests(&self) -> Vec<RepositoryRequests> {
        self.shared.requests.counted()
    }

    /// How each cluster stands that applications may go to.
    pub fn clusters(&self) -> Vec<ClusterStanding> {
        self.shared.places.standing(&self.shared.watching)
    }

    /// How long comparisons took, by the namespace of the application and its cluster.
    pub fn reconciles(&self) -> Vec<((String, String), Counted)> {
        self.shared.reconciles.counted()
    }

    /// What cannot be read and belongs to no application.
    pub fn problems(&self) -> Vec<String> {
        self.shared.board.problems()
    }

    /// The applications that change from now on, those that go included. Whoever is too slow is told so.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.shared.board.changes()
    }

    /// The application that is meant.
    pub fn only(&self, text: &str) -> Result<Arc<Application>, ServiceError> {
        AppKey::only(self.find(Some(text)).applications, text)
    }

    fn one(&self, text: &str) -> Result<AppKey, ServiceError> {
        Ok(AppKey::of(self.only(text)?.as_ref()))
    }

    /// Whether the document that an application is written down in goes with it.
    async fn goes_with_file(&self, application: &Application) -> bool {
        let is_in_file = !self.shared.store.is_shared() && set_of(application).is_none();
        is_in_file && self.shared.store.keeps(application).await.is_none()
    }

    /// Asks for an operation of the application that is meant. Returns when that is durable.
    pub async fn sync(&self, text: &str, mut asked: OperationRequest) -> Result<(), ServiceError> {
        self.catch_up().await;
        let key = self.one(text)?;
        operation::bound_reason(&mut asked);
        self.request(|reply| SupervisorMessage::Sync { key, asked: Box::new(asked), plan: None, reply }).await
    }

    /// Ends the operation of the application that is meant; who asks for it, and why, is recorded. Where one operation is named it
    /// is refused when another one is at work by then. Returns when that is durable.
    pub async fn terminate(
        &self,
        text: &str,
        operation: Option<OperationId>,
        (by, reason): (String, String),
    ) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        let by = Wisher { by: &by, reason: &reason }.text();
        self.request(|reply| SupervisorMessage::Terminate { key, operation, by, reply }).await
    }

    /// Deletes the application that is meant; who asks for it, and why, is recorded. Returns when that is durable: then it is
    /// being deleted, or gone.
    pub async fn delete(
        &self,
        text: &str,
        cascade: Cascade,
        by: String,
        reason: String,
    ) -> Result<(), ServiceError> {
        self.catch_up().await;
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Delete { key, cascade, by, reason, reply }).await
    }

    /// Has the application that is meant go back to a sync of its history, as somebody asks for it and why. Returns when that is
    /// durable.
    pub async fn rollback(
        &self,
        text: &str,
        id: Option<i64>,
        prune: bool,
        asker: (String, String),
    ) -> Result<(), ServiceError> {
        self.catch_up().await;
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Rollback { key, id, prune, asker, reply }).await
    }

    /// What a sync of the application that is meant would change.
    pub async fn diff(
        &self,
        text: &str,
        named: Vec<String>,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let application = self.as_written(text).await?;
        let differing = comparing::differences(&self.shared, &application, named);
        differing.await.map_err(ServiceError::refused)
    }

    /// What a sync of the application that is meant would do, wave by wave.
    pub async fn plan(&self, text: &str, named: Vec<String>) -> Result<Plan, ServiceError> {
        let application = self.as_written(text).await?;
        let planning = comparing::plan(&self.shared, &application, named);
        planning.await.map_err(ServiceError::refused)
    }

    /// What the deletion of the application that is meant would do.
    pub async fn plan_deletion(&self, text: &str, cascade: Cascade) -> Result<DeletionPlan, ServiceError> {
        let application = self.as_written(text).await?;
        let planned = deleting::plan(&self.shared, &application, cascade).await;
        let mut plan = planned.map(|plan| DeletionPlan::of(&plan)).map_err(ServiceError::refused)?;
        plan.removes_file = self.goes_with_file(&application).await;
        if application.is_deleting() {
            return Ok(plan);
        }
        let warning = |code: &str, message| Warning {
            severity: Severity::Warning,
            code: code.to_owned(),
            object: None,
            origin: None,
            message,
        };
        let refused = self.shared.store.keeps(&application).await;
        plan.warnings
            .extend(refused.map(|why| warning("file-stays", format!("the deletion is refused: {why}"))));
        let keep = self.shared.depending.keep(&AppKey::of(&application), &self.shared.board);
        plan.warnings.extend(keep.unwrap_or_default().iter().take(NAMED_MAX).map(|(other, _)| {
            let message =
                format!("the deletion waits until Application {other} is deleted, which depends on it");
            warning("needed", message)
        }));
        Ok(plan)
    }

    async fn request(&self, message: impl FnOnce(Answer) -> SupervisorMessage) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.supervisor.send_message(message(reply.into())).map_err(|_| EngineError::Stopped)?;
        answer.await.map_err(|_| EngineError::Stopped)?.map_err(ServiceError::refused)
    }

    /// Deletes an object of the simulated cluster, where that is the one that is served.
    pub async fn delete_simulated(&self, object: &ResourceSelector) -> Result<(), ServiceError> {
        let places = &self.shared.places;
        if !places.is_simulated() {
            return Err(ServiceError::refused("the process at work serves no simulated cluster"));
        }
        simulated::delete(places.cluster().as_ref(), object).await
    }

    /// Whether sync windows let the application that is meant be synced now.
    pub fn window(&self, text: &str) -> Result<WindowLine, ServiceError> {
        let application = self.only(text)?;
        let windows = self.shared.windows(&application);
        let now = SystemClock.now();
        let [automated, manual] = [false, true].map(|manual| windows.held(manual, now));
        let (is_automated, is_manual) = (automated.is_none(), manual.is_none());
        let reason = automated.map(|held| held.reason);
        Ok(WindowLine { automated: is_automated, manual: is_manual, reason })
    }

    /// Has the applications compared that pushes are about, after a look at their repositories. Returns how many these are.
    pub async fn told(&self, told: Told) -> Result<u64, ServiceError> {
        let (shared, told) = (Arc::clone(&self.shared), Arc::new(told));
        // Nobody following is fine.
        let _ = shared.told.send(Arc::clone(&told));
        let find = move || pushed::meant(&told.pushes, &shared.board, &shared.manifests);
        let meant = tokio::task::spawn_blocking(find).await.map_err(|_| EngineError::Stopped)?;
        let all: BTreeSet<&AppKey> = meant.values().flat_map(BTreeMap::keys).collect();
        let number = u64::try_from(all.len()).unwrap_or(u64::MAX);
        for (address, applications) in meant {
            self.shared.looks.begin(address, applications, &self.shared.manifests, &self.supervisor);
        }
        Ok(number)
    }

    /// Has the application that is meant looked for in its repository and compared. Returns when that is shown.
    ///
    /// # Errors
    ///
    /// It is left alone, cannot be read, or is not compared within 50 s.
    pub async fn refresh(&self, text: &str, hard: bool) -> Result<(), ServiceError> {
        self.catch_up().await;
        let key = self.one(text)?;
        let level = if hard { Level::Hard } else { Level::Forced };
        let name = key.to_string();
        let asking = self.request(|reply| SupervisorMessage::Refresh { key, level, reply });
        let slow = |_| {
            let after = COMPARED_WITHIN.as_secs();
            Err(ServiceError::refused(format!(
                "application {name} is not compared after {after} s; that goes on, and `tidegate app get {name}` shows what comes of it"
            )))
        };
        tokio::time::timeout(COMPARED_WITHIN, asking).await.unwrap_or_else(slow)
    }

    /// The application that is meant, as it is written down by now.
    pub(super) async fn as_written(&self, text: &str) -> Result<Arc<Application>, ServiceError> {
        let is_looked_at = self.catch_up().await;
        let key = self.one(text)?;
        if is_looked_at {
            // One that is left alone has nobody to ask.
            let shown = self.request(|reply| SupervisorMessage::Show { key, reply });
            drop(tokio::time::timeout(CAUGHT_UP_WITHIN, shown).await);
        }
        self.only(text)
    }

    /// Returns when what was in the store before counts: whoever changes a file, and asks for something then, means what the file
    /// says now. A store that does not answer is not waited for. Says whether the store was looked at for that.
    async fn catch_up(&self) -> bool {
        let Some(number) = self.shared.store.look_soon() else { return false };
        let mut looked = self.shared.looked.subscribe();
        let seen = looked.wait_for(|looked| *looked >= number);
        drop(tokio::time::timeout(CAUGHT_UP_WITHIN, seen).await);
        true
    }
}
