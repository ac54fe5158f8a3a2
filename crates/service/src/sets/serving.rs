//! What ApplicationSets are asked through: by the socket and the API.

use std::sync::Arc;

use ractor::{ActorRef, ActorStatus, RpcReplyPort};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_applicationset::ownership::{members, set_of};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::preview::{self, DeletionPreview};
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{StreamId, reason_line};
use tokio::sync::{broadcast, oneshot};

use super::board::{FoundSets, SetBoard, SetCourse};
use super::foreseeing::{Outlook, RolloutPreview, foresee};
use super::line::{SetLine, awaits};
use super::messages::{Answer, SetMessage, SetSupervisorMessage};
use super::shared::SetShared;
use super::wishes::{SetExplanation, SetWish};
use crate::applications::Serving;
use crate::applications::store::AppKey;
use crate::error::ServiceError;

/// What the deletion of a set would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetDeletion {
    /// The document that it is written down in is removed from the folder that is served; an older process says nothing of it.
    #[serde(default)]
    pub removes_file: bool,
    /// What goes with it, in its order, and what stays.
    #[serde(flatten)]
    pub preview: DeletionPreview,
}

/// What ApplicationSets are asked through. Cheap to clone.
#[derive(Clone)]
pub struct SetServing {
    board: SetBoard,
    applications: Serving,
    supervisor: ActorRef<SetSupervisorMessage>,
    shared: Arc<SetShared>,
    outlook: Outlook,
}

impl SetServing {
    /// Asks what is on the board of the sets, and whoever looks after them.
    pub(crate) fn new(
        shared: Arc<SetShared>,
        applications: Serving,
        supervisor: ActorRef<SetSupervisorMessage>,
    ) -> Self {
        let board = shared.board.clone();
        Self { board, applications, supervisor, shared, outlook: Outlook::default() }
    }

    /// Why nothing is done for the sets any more: what looks after them has ended. `None` while all is well.
    pub fn failure(&self) -> Option<EngineError> {
        let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&self.supervisor.get_status());
        over.then_some(EngineError::Stopped)
    }

    /// The sets, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> FoundSets {
        self.board.find(text)
    }

    /// What is decided for all of them.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// One of them.
    pub fn set(&self, key: &AppKey) -> Option<Arc<ApplicationSet>> {
        self.board.get(key)
    }

    /// One in one line.
    pub fn line(&self, set: &ApplicationSet) -> SetLine {
        let namespace = set.metadata.home().to_owned();
        let key = AppKey { namespace, name: set.metadata.name.clone() };
        SetLine::new(set, self.board.skipped(&key), self.board.awaits(&key))
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<ApplicationSet>)> {
        self.board.all()
    }

    /// What is measured of each.
    pub fn courses(&self) -> Vec<(AppKey, SetCourse)> {
        self.board.courses()
    }

    /// What an Application waits for in the progressive sync of its set, in words; nothing where there is none, and where its
    /// turn has come.
    pub fn awaits(&self, application: &Application) -> Option<String> {
        let namespace = application.metadata.home().to_owned();
        let key = AppKey { namespace, name: set_of(application)?.to_owned() };
        awaits(self.board.get(&key)?.as_ref(), self.board.waiting(&key), &application.metadata.name)
    }

    /// The sets that change from now on, those that go included. Whoever is too slow is told so.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.board.changes()
    }

    /// The set that is meant.
    fn only(&self, text: &str) -> Result<Arc<ApplicationSet>, ServiceError> {
        let mut found = self.find(Some(text)).sets.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(ServiceError::refused(format!(
                "there is no ApplicationSet {text}; `tidegate appset list` shows those there are"
            ))),
            _ => Err(ServiceError::refused(format!(
                "there are several ApplicationSets {text}; write NAMESPACE/NAME"
            ))),
        }
    }

    /// Where the set that is meant stands, and why.
    pub async fn explain(&self, text: &str) -> Result<SetExplanation, ServiceError> {
        self.ask(text, |reply| SetMessage::Explain { reply }).await
    }

    /// Asks something of the rollout or the teardown of the set that is meant. Where one is named it is refused when another one is
    /// at work by then. Returns when that is durable.
    pub async fn wish(
        &self,
        text: &str,
        run: Option<StreamId>,
        wish: SetWish,
        (by, why): (String, String),
    ) -> Result<(), ServiceError> {
        let why = reason_line(&why);
        if why.is_empty() && matches!(wish, SetWish::Skip { .. }) {
            return Err(ServiceError::refused("say why: a reason is needed to skip anything"));
        }
        self.request(text, |reply| SetMessage::Wish { wish, run, by, why, reply }).await
    }

    /// Has the generators of the set that is meant asked now.
    pub async fn refresh(&self, text: &str) -> Result<(), ServiceError> {
        self.request(text, |reply| SetMessage::Refresh { reply }).await
    }

    /// Deletes the set that is meant, and its Applications unless they are to outlive it; who asks for it, and why, is recorded.
    /// Returns when that is durable: then it is being deleted, or gone.
    pub async fn delete(
        &self,
        text: &str,
        orphan: bool,
        by: String,
        reason: String,
    ) -> Result<(), ServiceError> {
        self.request(text, |reply| SetMessage::Delete { orphan, by, reason, reply }).await
    }

    /// In which order the Applications of the set that is meant would be deleted with it, what would stay, and whether its
    /// document goes. Nothing is done.
    pub async fn plan(&self, text: &str) -> Result<SetDeletion, ServiceError> {
        let set = self.only(text)?;
        let members = self.members(&set);
        let preview = preview::deletion(&set, &members, &self.shared.options, SystemClock.now());
        let preview = preview.map_err(|refused| ServiceError::refused(refused.to_string()))?;
        Ok(SetDeletion { removes_file: self.shared.store.goes_with_file(&set).await, preview })
    }

    /// What a progressive sync of the set that is meant would do, step by step, were it begun now, and which Applications would
    /// be made, changed and deleted before. Nothing is done but that its generators are asked.
    pub async fn plan_rollout(&self, text: &str) -> Result<RolloutPreview, ServiceError> {
        let set = self.only(text)?;
        foresee(&self.shared, &set, &self.outlook).await.map_err(ServiceError::refused)
    }

    /// The Applications that a set has now.
    fn members(&self, set: &ApplicationSet) -> Vec<Application> {
        let home = set.metadata.home();
        let all = self.applications.all().into_iter().filter(|(key, _)| key.namespace == home);
        let all: Vec<Application> = all.map(|(_, one)| one.as_ref().clone()).collect();
        members(set, &all).cloned().collect()
    }

    async fn request(
        &self,
        text: &str,
        message: impl FnOnce(Answer) -> SetMessage,
    ) -> Result<(), ServiceError> {
        self.ask(text, message).await?.map_err(ServiceError::refused)
    }

    async fn ask<T>(
        &self,
        text: &str,
        message: impl FnOnce(RpcReplyPort<T>) -> SetMessage,
    ) -> Result<T, ServiceError> {
        let set = self.only(text)?;
        let metadata = &set.metadata;
        let key = AppKey { namespace: metadata.home().to_owned(), name: metadata.name.clone() };
        let (reply, answer) = oneshot::channel();
        let message = SetSupervisorMessage::To(key, message(reply.into()));
        self.supervisor.send_message(message).map_err(|_| EngineError::Stopped)?;
        Ok(answer.await.map_err(|_| EngineError::Stopped)?)
    }
}
