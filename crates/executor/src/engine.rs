//! The engine: the API for programs that run operations.

mod builder;
mod queries;
mod user_requests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{ActorRef, ActorStatus, RpcReplyPort};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{CallError, OperationView, Verdict};
use tidegate_model::{ClaimConflictPolicy, Destination, OperationId, SyncRequest};
use tidegate_oplog::{ApplicationInventory, LogError, OwnedShards, Shard};
use tidegate_planner::{ComparedPlan, Target};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use self::builder::EngineBuilder;
pub use self::queries::OpenOperation;
use crate::actors::operation::Report;
use crate::actors::supervisor::{Submission, SupervisorMessage};
use crate::duration_histogram::HistogramSnapshot;
use crate::effects::{self, Differences, ExtensionNames, Targets};
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::gates::{GateDefinitions, StepGateRequest, evaluate_step_gate};
use crate::ids::Ids;
use crate::log::{Log, StoreError, run_blocking, store_json};
use crate::manifests::SubmittedManifests;
use crate::plan_counters::PlanCounts;
use crate::policy_check::PolicyCheck;

/// Default limit on concurrent calls to a cluster.
pub const DEFAULT_IN_FLIGHT: usize = 32;
/// Maximum time that a graceful shutdown waits for calls in flight. Results not recorded by then are
/// recovered when the operation resumes.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs operations. Cheap to clone; all clones share one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<EngineContext>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
    /// Background tasks that forward events to notifiers.
    notifier_tasks: Arc<Mutex<Vec<JoinHandle<()>>>>,
    ids: Arc<Ids>,
}

impl Engine {
    /// Returns a builder for an engine on top of `log`.
    pub fn builder(log: Log) -> EngineBuilder {
        EngineBuilder::new(log)
    }

    async fn call_supervisor<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, EngineError>>) -> SupervisorMessage,
    ) -> Result<T, EngineError> {
        let (send, receive) = oneshot::channel();
        self.supervisor.send_message(message(send.into())).map_err(|_| EngineError::Stopped)?;
        receive.await.map_err(|_| EngineError::Stopped)?
    }

    /// Starts an operation. Its first records may still be in flight to the log when this returns. Use
    /// [`Engine::wait`] for the result. Rejects the operation if the application has another open one.
    pub async fn submit(&self, request: SyncRequest, targets: Targets) -> Result<OperationId, EngineError> {
        self.submit_with_policy(request, targets, ClaimConflictPolicy::Refuse).await
    }

    /// Like [`Engine::submit`], with a policy for an application that has another open operation. With
    /// [`ClaimConflictPolicy::Queue`], the new operation starts once the open operation and all queued
    /// operations have finished. With [`ClaimConflictPolicy::Supersede`], the open operation records the new
    /// operation and ends, and the new operation starts next.
    ///
    /// Returns once the new operation has started, which may be only after the open operation has finished.
    /// Until then, the new operation isn't recorded, and dropping the future removes it from the queue. If
    /// the open operation exists only in the log, it is resumed. If resuming fails, the new operation is
    /// rejected.
    pub async fn submit_with_policy(
        &self,
        request: SyncRequest,
        targets: Targets,
        if_open: ClaimConflictPolicy,
    ) -> Result<OperationId, EngineError> {
        let operation = self.next_id().await?;
        self.start_with_policy(operation, request, targets, if_open).await?;
        Ok(operation)
    }

    /// Ensures that an operation with this ID exists and, unless it has finished, is running. Idempotent:
    /// only the first call for an ID has an effect. Meant for callers that record the ID before anything
    /// else.
    pub async fn ensure(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
    ) -> Result<(), EngineError> {
        self.ensure_with_policy(operation, request, targets, ClaimConflictPolicy::Refuse).await
    }

    /// Like [`Engine::ensure`], with a policy for another open operation, as in
    /// [`Engine::submit_with_policy`].
    pub async fn ensure_with_policy(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: ClaimConflictPolicy,
    ) -> Result<(), EngineError> {
        match self.resume(operation).await {
            Err(EngineError::UnknownOperation { .. }) => {
                self.start_with_policy(operation, request, targets, if_open).await
            }
            Err(EngineError::AlreadyFinished { .. }) => Ok(()),
            resumed => resumed,
        }
    }

    /// Returns the reason why the engine has stopped working, or `None` while it is working. Either the log
    /// rejects all records, or the engine has stopped, possibly because of a bug. The next engine can resume
    /// the operations.
    pub fn failure(&self) -> Option<EngineError> {
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            return Some(EngineError::LogFailed { reason });
        }
        let over = [ActorStatus::Stopping, ActorStatus::Stopped];
        over.contains(&self.supervisor.get_status()).then_some(EngineError::Stopped)
    }

    /// Returns a histogram of the time taken to make groups of records durable.
    pub fn log_flushes(&self) -> HistogramSnapshot {
        self.shared.log_actor.metrics.flushes.snapshot()
    }

    /// Returns the number of record batches waiting to become durable.
    pub fn log_queue(&self) -> u64 {
        self.shared.log_actor.metrics.pending_batches.load(Ordering::Relaxed)
    }

    /// Returns the numbers of plans since the engine started.
    pub fn plan_counts(&self) -> PlanCounts {
        self.shared.plan_counters.snapshot()
    }

    /// Compares an application with its manifests. Also returns the plan, for an operation that follows
    /// ([`Targets::compared`]).
    pub async fn compare(
        &self,
        cluster: &dyn Cluster,
        request: &SyncRequest,
        targets: &Arc<Vec<Target>>,
        inventory: Option<&ApplicationInventory>,
    ) -> Result<(Differences, ComparedPlan), CallError> {
        let now = self.shared.clock.now();
        let compared = effects::compare_manifests(cluster, request, targets, now, inventory).await?;
        self.shared.plan_counters.count_plan(false);
        Ok(compared)
    }

    /// Returns an ID for [`Engine::ensure`] that sorts after all existing operations.
    pub async fn next_id(&self) -> Result<OperationId, EngineError> {
        Ok(self.ids.next(&self.shared.log, self.shared.clock.now()).await?)
    }

    /// Checks that the log is still at its original path. If it isn't, the engine fails as after a failed
    /// write ([`Engine::failure`]), before it makes a decision that it couldn't record.
    ///
    /// # Errors
    ///
    /// Returns an error if the log was moved, removed or replaced.
    pub async fn check_log(&self) -> Result<(), EngineError> {
        match run_blocking(&self.shared.log, |log| log.check_location()).await {
            Err(error @ LogError::Moved { .. }) => Err(self.fail_log(error.to_string())),
            // Ignore other errors: the next write reports them.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Marks the log as failed, and notifies all waiting callers.
    fn fail_log(&self, reason: String) -> EngineError {
        let reason = self.shared.log_failure.get_or_init(|| reason).clone();
        let report = Report::LogFailed { reason: reason.clone() };
        let _ = self.supervisor.send_message(SupervisorMessage::Report(report));
        EngineError::LogFailed { reason }
    }

    /// Like [`Engine::submit_with_policy`], with an ID from [`Engine::next_id`] that no call has used yet. Has no
    /// effect if a concurrent call has started the operation. If an earlier call may have used the ID, use
    /// [`Engine::ensure_with_policy`], which looks for it in the log.
    pub async fn start_with_policy(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: ClaimConflictPolicy,
    ) -> Result<(), EngineError> {
        let digest = match store_json(&self.shared.log, &self.shared.log_failure, &targets).await {
            Ok(digest) => digest,
            Err(StoreError::Final(reason)) => return Err(self.fail_log(reason)),
            Err(refused) => return Err(refused.into()),
        };
        let plan = targets.pinned.as_ref().map(|pinned| Box::new(pinned.to_reference()));
        let manifests = match if_open {
            ClaimConflictPolicy::Refuse => Targets::default(),
            ClaimConflictPolicy::Queue | ClaimConflictPolicy::Supersede => {
                Targets { compared: None, ..targets.clone() }
            }
        };
        let place = Arc::clone(&self.shared.submission_permits).try_acquire_owned().ok();
        let submitted = place.map(|permit| Box::new(SubmittedManifests { targets, permit }));
        let request = Box::new(request);
        let submit = |reply| {
            SupervisorMessage::Submit(Submission {
                operation,
                request,
                targets: digest,
                plan,
                submitted,
                if_open,
                manifests: Box::new(manifests),
                reply,
            })
        };
        match self.call_supervisor(submit).await {
            Err(EngineError::Busy { open, .. }) if open == operation => Ok(()),
            Err(EngineError::AlreadyFinished { .. }) => Ok(()),
            started => started,
        }
    }

    /// Resumes an open operation. Has no effect if it is already running.
    pub async fn resume(&self, operation: OperationId) -> Result<(), EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::Resume { operation, reply }).await
    }

    /// Waits for a running operation to finish, or returns immediately if it already has. Older results are
    /// read from the log.
    pub async fn wait(&self, operation: OperationId) -> Result<OperationView, EngineError> {
        match self.call_supervisor(|reply| SupervisorMessage::Wait { operation, reply }).await {
            Err(EngineError::NotRunning { .. }) => {
                let (view, _) = self.read_from_log(operation).await?;
                if view.finished_at.is_some() { Ok(view) } else { Err(EngineError::NotRunning { operation }) }
            }
            answer => answer,
        }
    }

    /// Adds a cluster. Fails with [`EngineError::DuplicateCluster`] if the destination already has a
    /// connection, which remains in use.
    pub async fn add_cluster(
        &self,
        destination: Destination,
        cluster: Arc<dyn Cluster>,
    ) -> Result<(), EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::AddCluster { destination, cluster, reply }).await
    }

    /// Changes the health rules. Running operations reread and reevaluate all objects that they are waiting
    /// for.
    pub async fn set_health_rules(&self, rules: HealthRules) -> Result<(), EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::SetHealthRules { rules, reply }).await
    }

    /// Sets the check of project policies, which runs before each write of an operation in a project. Only
    /// the first call has an effect. Without a check, the engine never writes for projects with restrictions.
    pub fn set_policy_check(&self, permits: Arc<dyn PolicyCheck>) {
        let _ = self.shared.policy_check.set(permits);
    }

    /// Returns the names of the registered extensions.
    pub fn extension_names(&self) -> ExtensionNames {
        self.shared.extensions.names()
    }

    /// Evaluates a gate for a step of a progressive sync like a wave's gate, through the gate definitions or
    /// the actor registered under its name. Reports results while the future is polled, and returns once no
    /// more can follow. An unknown gate is reported as closed, with a reason.
    pub async fn evaluate_gate(
        &self,
        question: &StepGateRequest,
        definitions: &GateDefinitions,
        tell: impl Fn(Verdict),
    ) {
        evaluate_step_gate(&self.shared, question, definitions, tell).await;
    }

    /// Runs only the operations in these shards of a shared log, even if new operations of their application belong to
    /// by now. Other engines run the others: this engine stops them without ending them, and refuses to start or resume any.
    /// `shard_of` returns the shard of an application's new operations. Returns once the operations have stopped. Only an
    /// operation whose actor has just failed may still have calls to a cluster in flight. The caller resumes the open
    /// operations of shards that other engines have owned so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log has failed.
    pub async fn set_owned_shards(
        &self,
        owned: OwnedShards,
        shard_of: impl Fn(&str) -> Shard + Send + Sync + 'static,
    ) -> Result<(), EngineError> {
        let shard_of = Arc::new(shard_of);
        self.call_supervisor(|reply| SupervisorMessage::SetOwnedShards { owned, shard_of, reply }).await
    }

    /// Returns true if this engine starts the operations of an application.
    pub fn manages(&self, application: &str) -> bool {
        let assignment = &self.shared.assignment;
        assignment.owns(assignment.shard_of(application))
    }

    /// Shuts the engine down gracefully: starts no new commands, and records the results of commands in
    /// flight. All open operations can be resumed later.
    pub async fn shutdown(&self) {
        // Stop the machines first, so that they aren't notified about operations being stopped.
        self.shared.machines.shut_down().await;
        let stopping = self.call_supervisor(|reply| SupervisorMessage::Shutdown { reply });
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, stopping).await.is_err() {
            tracing::warn!(
                "calls to the cluster did not finish in time; their results will be checked when the operations resume"
            );
        }
        // Stopping the supervisor is enough: it takes all actors down with it.
        let _ = self.supervisor.stop_and_wait(None, None).await;
        self.shared.broadcaster.close();
        let notifying =
            std::mem::take(&mut *self.notifier_tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for passing_on in notifying {
            // Wait until the notifiers have received all emitted events, unless the log hangs.
            let abort = passing_on.abort_handle();
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, passing_on).await.is_err() {
                abort.abort();
            }
        }
    }
}
