//! The engine: everything another program needs to run operations.

mod builder;
mod people;
mod reading;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{ActorRef, ActorStatus, RpcReplyPort};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{OperationView, Verdict};
use tidegate_model::{Destination, IfTaken, OperationId, SyncRequest};
use tidegate_oplog::LogError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use self::builder::EngineBuilder;
use crate::actors::operation::Report;
use crate::actors::supervisor::{Submit, SupervisorMessage};
use crate::durations::Counted;
use crate::effects::{ExtensionNames, Targets};
use crate::error::EngineError;
use crate::gates::{GateDefinitions, StepQuestion, ask_about_step};
use crate::ids::Ids;
use crate::log::{Log, NotKept, blocking, keep};
use crate::manifests::HandedOver;
use crate::permits::Permits;
use crate::shared::Shared;

/// How many calls to one cluster may be on their way at once, unless the builder says otherwise.
pub const IN_FLIGHT: usize = 32;
/// How long an orderly shutdown waits for calls on their way. What is not recorded by then is found again on resume.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);

/// Runs operations. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
    /// Those who pass events on to notifiers.
    notifying: Arc<Mutex<Vec<JoinHandle<()>>>>,
    ids: Arc<Ids>,
}

impl Engine {
    /// Begins to put an engine together around a log.
    pub fn builder(log: Log) -> EngineBuilder {
        EngineBuilder::new(log)
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, EngineError>>) -> SupervisorMessage,
    ) -> Result<T, EngineError> {
        let (send, receive) = oneshot::channel();
        self.supervisor.send_message(message(send.into())).map_err(|_| EngineError::Stopped)?;
        receive.await.map_err(|_| EngineError::Stopped)?
    }

    /// Begins an operation. When this returns, it is on its way to the log; [`Engine::wait`] tells how it ended. It is
    /// refused while another operation of its application is not over.
    pub async fn submit(&self, request: SyncRequest, targets: Targets) -> Result<OperationId, EngineError> {
        self.submit_when(request, targets, IfTaken::Refuse).await
    }

    /// As [`Engine::submit`], and says what happens while another operation of the application is not over: with
    /// [`IfTaken::Queue`] this one begins when that one and all that were queued before are over, with
    /// [`IfTaken::Supersede`] that one is ended first, with a record of who wanted it, and this one is next.
    ///
    /// Returns when the operation has begun, which may take as long as the other one does; until then nothing of it is
    /// recorded, and dropping the future takes it out of the queue. The other one is gone on with if it only lies in the
    /// log; if that is not possible, this one is refused.
    pub async fn submit_when(
        &self,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<OperationId, EngineError> {
        let operation = self.next_id().await?;
        self.begin(operation, request, targets, if_open).await?;
        Ok(operation)
    }

    /// Sees to it that an operation with this id exists, and is at work unless it is over. May be asked for any number of
    /// times; what is asked first counts. For whoever records the id before anything else.
    pub async fn ensure(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
    ) -> Result<(), EngineError> {
        self.ensure_when(operation, request, targets, IfTaken::Refuse).await
    }

    /// As [`Engine::ensure`], and says what happens while another operation of the application is not over, as
    /// [`Engine::submit_when`] does.
    pub async fn ensure_when(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<(), EngineError> {
        match self.resume(operation).await {
            Err(EngineError::Unknown { .. }) => {
                match self.begin(operation, request, targets, if_open).await {
                    // It was asked for twice at once.
                    Err(EngineError::Busy { open, .. }) if open == operation => Ok(()),
                    Err(EngineError::AlreadyFinished { .. }) => Ok(()),
                    begun => begun,
                }
            }
            Err(EngineError::AlreadyFinished { .. }) => Ok(()),
            resumed => resumed,
        }
    }

    /// Why nothing is done any more: the log takes nothing, or the engine has ended, be it by a fault of its own. `None` while
    /// all is well. Operations can be resumed by the next engine.
    pub fn failure(&self) -> Option<EngineError> {
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            return Some(EngineError::LogFailed { reason });
        }
        let over = [ActorStatus::Stopping, ActorStatus::Stopped];
        over.contains(&self.supervisor.get_status()).then_some(EngineError::Stopped)
    }

    /// How long making groups of records durable took.
    pub fn log_flushes(&self) -> Counted {
        self.shared.log_actor.measures.flushes.counted()
    }

    /// How many batches of records wait to be durable.
    pub fn log_queue(&self) -> u64 {
        self.shared.log_actor.measures.waiting.load(Ordering::Relaxed)
    }

    /// An id for [`Engine::ensure`], after those of all operations there are.
    pub async fn next_id(&self) -> Result<OperationId, EngineError> {
        Ok(self.ids.next(&self.shared.log, self.shared.clock.now()).await?)
    }

    /// Looks whether the log is still where it was opened. Where it is not, the engine has failed as by a write that came to
    /// nothing ([`Engine::failure`]), before anything is decided that could not be recorded.
    ///
    /// # Errors
    ///
    /// The log was moved, removed or replaced.
    pub async fn look_at_log(&self) -> Result<(), EngineError> {
        match blocking(&self.shared.log, |log| log.look()).await {
            Err(error @ LogError::Moved { .. }) => Err(self.log_failed(error.to_string())),
            // Whatever else there is, a write tells.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The log takes nothing any more, and everybody hears of it.
    fn log_failed(&self, reason: String) -> EngineError {
        let reason = self.shared.log_failure.get_or_init(|| reason).clone();
        let report = Report::LogFailed { reason: reason.clone() };
        let _ = self.supervisor.send_message(SupervisorMessage::Report(report));
        EngineError::LogFailed { reason }
    }

    async fn begin(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<(), EngineError> {
        let digest = match keep(&self.shared.log, &self.shared.log_failure, &targets).await {
            Ok(digest) => digest,
            Err(NotKept::Final(reason)) => return Err(self.log_failed(reason)),
            Err(refused) => return Err(refused.into()),
        };
        let plan = targets.pinned.as_ref().map(|pinned| Box::new(pinned.taken()));
        let manifests = match if_open {
            IfTaken::Refuse => Targets::default(),
            IfTaken::Queue | IfTaken::Supersede => targets.clone(),
        };
        let place = Arc::clone(&self.shared.handed_over).try_acquire_owned().ok();
        let handed_over = place.map(|place| Box::new(HandedOver { targets, place }));
        let request = Box::new(request);
        let submit = |reply| {
            SupervisorMessage::Submit(Submit {
                operation,
                request,
                targets: digest,
                plan,
                handed_over,
                if_open,
                manifests: Box::new(manifests),
                reply,
            })
        };
        self.ask(submit).await
    }

    /// Goes on with an operation that is not over. One that is at work already goes on undisturbed.
    pub async fn resume(&self, operation: OperationId) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::Resume { operation, reply }).await
    }

    /// Waits until an operation at work is over. One that is over already is answered at once; from the log, if that was
    /// long ago.
    pub async fn wait(&self, operation: OperationId) -> Result<OperationView, EngineError> {
        match self.ask(|reply| SupervisorMessage::Wait { operation, reply }).await {
            Err(EngineError::NotRunning { .. }) => {
                let (view, _) = self.read(operation).await?;
                if view.finished_at.is_some() { Ok(view) } else { Err(EngineError::NotRunning { operation }) }
            }
            answer => answer,
        }
    }

    /// Lets operations work on another cluster from now on. Those it has a way to already keep that one:
    /// [`EngineError::ClusterKnown`].
    pub async fn add_cluster(
        &self,
        destination: Destination,
        cluster: Arc<dyn Cluster>,
    ) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::AddCluster { destination, cluster, reply }).await
    }

    /// Judges health by other rules from now on. Operations at work take the new ones too: what they wait for is looked at
    /// and judged anew.
    pub async fn set_health_rules(&self, rules: HealthRules) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::JudgeBy { rules, reply }).await
    }

    /// From now on asks what an operation that was begun for a project may write, before each of its writes. What is asked
    /// first counts. An engine that has nobody to ask writes nothing for projects that forbid anything.
    pub fn set_permits(&self, permits: Arc<dyn Permits>) {
        let _ = self.shared.permits.set(permits);
    }

    /// The names of the extensions that are registered.
    pub fn extension_names(&self) -> ExtensionNames {
        self.shared.extensions.names()
    }

    /// Asks a gate about a step of a progressive sync, as waves ask it: by what names stand for, or the actor that is registered
    /// by the name. What it answers is told, now and later, for as long as this is polled; it ends where nothing more will
    /// come. A gate that nobody knows is closed, and says so.
    pub async fn ask_gate(
        &self,
        question: &StepQuestion,
        definitions: &GateDefinitions,
        tell: impl Fn(Verdict),
    ) {
        ask_about_step(&self.shared, question, definitions, tell).await;
    }

    /// Stops in order: no new command is begun, what is on its way is recorded. Everything can be resumed.
    pub async fn shutdown(&self) {
        // First: what operations tell while they are stopped is no news for a machine.
        self.shared.machines.shut_down().await;
        let stopping = self.ask(|reply| SupervisorMessage::Shutdown { reply });
        if tokio::time::timeout(SHUTDOWN_WITHIN, stopping).await.is_err() {
            tracing::warn!("calls to the cluster did not end in time; they are looked at again on resume");
        }
        // Every actor ends with it.
        let _ = self.supervisor.stop_and_wait(None, None).await;
        self.shared.announcer.close();
        let notifying = std::mem::take(&mut *self.notifying.lock().unwrap_or_else(PoisonError::into_inner));
        for passing_on in notifying {
            // They hear everything that was told, unless the log hangs.
            let abort = passing_on.abort_handle();
            if tokio::time::timeout(SHUTDOWN_WITHIN, passing_on).await.is_err() {
                abort.abort();
            }
        }
    }
}
