//! Execution of what the machine decides: comparisons, operations, messages and writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::deletion::is_own_finalizer;
use tidegate_application::machine::{
    Call, ChildReport, ComparisonStart, Effect, Input, OperationRelation, Outcome, PreparationId,
    WriteChange, WriteDecision,
};
use tidegate_application::refresh::RefreshLevel;
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::{Application, ConditionType};
use tidegate_model::{OperationId, Requester};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ActorState;
use crate::compare;
use crate::comparison_cache::ComparisonCache;
use crate::comparison_result::ComparisonResult;
use crate::manifests::have_same_manifests;
use crate::messages::{AppMessage, SupervisorMessage};
use crate::operation_history;
use crate::plan_approval;
use crate::run_operation::{self, Handover};
use crate::shared_state::SharedState;
use crate::status_log;
use crate::write_refusal_event;

/// Maximum time that work waits for a write it doesn't depend on.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Name to record if the user who confirmed the deletions is unknown.
const UNKNOWN_PERSON: &str = "unknown";

/// Write in progress. Dropping it aborts the write.
pub(super) struct PendingWrite(JoinHandle<Result<(), String>>);

impl Drop for PendingWrite {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn to_report(report: ChildReport) -> OperationReport {
    match report {
        ChildReport::Delayed { window } => OperationReport::Delayed { window },
        ChildReport::Unapproved { plan } => OperationReport::Unapproved { plan },
        ChildReport::Started => OperationReport::Started,
        ChildReport::Deployed { operation } => OperationReport::Deployed { operation },
        ChildReport::Ended { phase, message } => OperationReport::Ended { phase, message },
        ChildReport::Refused(reason) => OperationReport::Failed(CallError::permanent(reason)),
        ChildReport::Unavailable(reason) => OperationReport::Failed(CallError::transient(reason)),
        ChildReport::Unreachable(reason) => OperationReport::Failed(CallError::outage(reason)),
    }
}

impl ActorState {
    /// Executes effects in order. Tasks report their results in messages.
    pub(super) fn execute(&mut self, myself: &ActorRef<AppMessage>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Compare(start) => self.compare(myself, start),
                Effect::CompareRevisions { operation, target, deployed } => {
                    let (shared, application, actor) = self.task_context(myself);
                    self.tasks.spawn(async move {
                        let result = have_same_manifests(&shared, &application, &target, &deployed).await;
                        send(&actor, Input::RevisionsCompared { operation, deployed, result });
                    });
                }
                Effect::Prepare(preparation) => self.prepare(myself, preparation),
                Effect::Run { operation, is_new } => {
                    let (shared, application, actor) = self.task_context(myself);
                    let handover = Handover { operation, is_new, plan: self.retained_plan.take() };
                    self.operation_tasks.spawn(run_operation::run(shared, application, handover, actor));
                }
                Effect::CheckPlan { plan } => {
                    let (shared, application, actor) = self.task_context(myself);
                    self.tasks.spawn(async move {
                        let check = plan_approval::plan_or_check(&shared, &application, plan).await;
                        let request = Box::new(application.operation.clone().unwrap_or_default());
                        send(&actor, Input::PlanChecked { request, check });
                    });
                }
                Effect::WithdrawPlan { plan } => {
                    let shared = Arc::clone(&self.shared);
                    self.tasks.spawn(async move { plan_approval::withdraw_plan(&shared, plan, None).await });
                }
                Effect::AnnounceRefusal { reason } => {
                    let (shared, application) =
                        (Arc::clone(&self.shared), self.machine.application().share());
                    self.tasks
                        .spawn(async move { write_refusal_event(&shared, &application, &reason).await });
                }
                Effect::Report { operation, report } => {
                    if let Some(receiver) = self.child_reports.get(&operation) {
                        // If the receiver was dropped, the progressive sync will request the operation again
                        // if necessary.
                        drop(receiver.send(to_report(report)));
                    }
                }
                Effect::AnswerRefresh { request, answer } => {
                    if let Some(reply) = self.refresh_replies.remove(&request) {
                        drop(reply.send(answer));
                    }
                }
                Effect::RegisterDependencies(dependencies) => {
                    let changed = self.shared.dependencies.set_dependencies(self.machine.key(), dependencies);
                    if !changed.is_empty() {
                        // Also notify former dependencies, because one of them may be waiting for this
                        // change.
                        self.notify_applications(changed);
                        send(myself, Input::Step);
                    }
                }
                Effect::CompareOther(key) => {
                    let compare = SupervisorMessage::Forward(
                        key,
                        AppMessage::Input(Input::Compare(RefreshLevel::Latest)),
                    );
                    drop(self.supervisor.send_message(compare));
                }
                Effect::Publish => self.publish(),
                Effect::ReleaseProjects => {
                    drop(self.supervisor.send_message(SupervisorMessage::ReleaseProjects));
                }
                Effect::Wake(at) => self.set_alarm(myself, at),
                Effect::Again => send(myself, Input::Step),
            }
        }
    }

    /// Makes a call and returns its outcome.
    pub(super) async fn make(&mut self, myself: &ActorRef<AppMessage>, call: Call) -> Outcome {
        match call {
            Call::StopHandover { operation } => {
                Outcome::HandoverStopped { is_begun: self.stop_handover(operation).await }
            }
            Call::Release => Outcome::Released { is_released: self.remove_finalizers().await },
            Call::ConfirmDeletions { operation, reason } => {
                Outcome::Confirmed { is_accepted: self.confirm_deletions(operation, &reason).await }
            }
            Call::Store => Outcome::Stored { is_stored: self.persist(myself).await.is_ok() },
            Call::Supersede { operation, by, when } => {
                let result = run_operation::supersede(&self.shared, operation, by, when).await;
                if result.is_ok() {
                    tracing::info!(application = %self.key(), %operation, "operation superseded");
                }
                Outcome::Superseded(result)
            }
            Call::FindOperation(operation) => {
                let found = self.shared.engine.inspect(operation).await;
                let is_durable = matches!(found, Ok(_) | Err(EngineError::AlreadyFinished { .. }));
                Outcome::Durable { is_durable }
            }
        }
    }

    fn task_context(
        &self,
        myself: &ActorRef<AppMessage>,
    ) -> (Arc<SharedState>, Arc<Application>, ActorRef<AppMessage>) {
        (Arc::clone(&self.shared), self.machine.application().share(), myself.clone())
    }

    fn compare(&mut self, myself: &ActorRef<AppMessage>, start: Box<ComparisonStart>) {
        let mut cache = std::mem::take(&mut self.comparison_cache);
        if !start.may_reuse_results {
            cache.clear();
        }
        let operation = self.machine.operation_id();
        let (shared, application, actor) = self.task_context(myself);
        self.tasks.spawn(async move {
            let permits = shared.destinations.comparison_permits(&application.spec.destination);
            let _permit = permits.acquire().await;
            let began_at = SystemClock.now();
            let (inner, level) = (Arc::clone(&shared), start.level);
            let comparing = tokio::spawn(async move {
                let begin = Instant::now();
                let compared = compare::compare(&inner, &application, level, cache).await;
                inner.reconcile_metrics.observe(&application, begin.elapsed());
                compared
            })
            .await;
            let result = Box::new(comparing.unwrap_or_else(|fault| {
                let message = format!("the comparison failed with an internal error: {fault}");
                let outcome = ComparisonOutcome::without_cluster_state(ConditionType::UnknownError, message);
                ComparisonResult {
                    outcome,
                    objects: None,
                    read_since: None,
                    cache: ComparisonCache::default(),
                    operation_relation: OperationRelation { operation, ..OperationRelation::default() },
                    is_access_denied: false,
                    plan: None,
                }
            }));
            drop(actor.send_message(AppMessage::ComparisonDone { result, start, began_at }));
        });
    }

    fn prepare(&mut self, myself: &ActorRef<AppMessage>, preparation: PreparationId) {
        let (shared, application, actor) = self.task_context(myself);
        self.operation_tasks.spawn(async move {
            let result = run_operation::prepare(&shared, &application).await;
            send(&actor, Input::Prepared { preparation, result });
        });
    }

    /// Stops the handover of the operation. Returns true if the engine has the operation.
    pub(super) async fn stop_handover(&mut self, operation: Option<OperationId>) -> bool {
        self.operation_tasks.shutdown().await;
        match operation {
            Some(operation) => operation_history::is_operation_known(&self.shared, operation).await,
            None => false,
        }
    }

    /// Removes the finalizers of an Application whose deletion has finished. Returns true if they are gone.
    async fn remove_finalizers(&mut self) -> bool {
        // Otherwise, an earlier state could still be written afterwards.
        self.await_write(None).await;
        let mut released = Application::clone(self.machine.application());
        released.metadata.finalizers.retain(|one| !is_own_finalizer(one));
        let released = self.shared.store.release(&released).await;
        if let Err(error) = &released {
            tracing::error!(application = %self.key(), %error, "failed to remove the finalizers of a deleted application");
        }
        released.is_ok()
    }

    /// Forwards a confirmation to the running operation. Returns true if the operation accepts it.
    async fn confirm_deletions(&self, operation: OperationId, reason: &str) -> bool {
        let by = self.shared.store.writer_of_approval(self.key());
        let name = by.as_deref().unwrap_or(UNKNOWN_PERSON);
        let by = Requester { name, reason }.to_text();
        match self.shared.engine.confirm_prune(operation, &by).await {
            Ok(()) => true,
            // The operation has no prompt, or hasn't reached it yet.
            Err(EngineError::Rejected { .. } | EngineError::NotRunning { .. }) => false,
            Err(error) => {
                tracing::warn!(application = %self.key(), %error, "failed to forward a confirmation to the operation");
                false
            }
        }
    }

    /// Publishes changes, and persists them at most once per second. Changes to the operation are persisted
    /// immediately, before it starts. A failed write is published with its reason and retried later. A slow
    /// write continues in the background and holds up only other writes and work that depends on it.
    pub(super) async fn persist(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, Some(WRITE_WAIT_MAX)).await
    }

    /// Publishes and persists changes however long it takes, because a caller is waiting for the result.
    pub(super) async fn persist_now(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, None).await
    }

    async fn persist_within(
        &mut self,
        myself: &ActorRef<AppMessage>,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        let persisted = self.write_within(patience).await;
        if self.machine.is_unpersisted() {
            self.shared.unpersisted.add(self.machine.key());
        } else if persisted.is_ok() {
            self.shared.unpersisted.remove(self.machine.key());
        }
        let effects = self.machine.take_effects();
        self.execute(myself, effects);
        persisted
    }

    async fn write_within(&mut self, patience: Option<Duration>) -> Result<(), String> {
        // If an earlier write is already slow, don't wait for it again.
        self.await_write(patience.map(|_| Duration::ZERO)).await;
        self.publish();
        if self.pending_write.is_some() {
            return Err(self.record_slow_write());
        }
        match self.machine.decide_write(self.now()) {
            WriteDecision::Current => {
                let change = self.machine.clear_write_failure();
                self.report_write_change(change);
                Ok(())
            }
            WriteDecision::Delayed => Ok(()),
            WriteDecision::Failed(reason) => Err(reason),
            WriteDecision::Write => {
                let (store, state) = (Arc::clone(&self.shared.store), self.machine.start_write(self.now()));
                self.pending_write = Some(PendingWrite(tokio::spawn(async move {
                    store.persist(&state).await.map_err(|error| error.to_string())
                })));
                match self.await_write(patience).await {
                    Some(written) => written,
                    None => Err(self.record_slow_write()),
                }
            }
        }
    }

    fn record_slow_write(&mut self) -> String {
        let now = self.now();
        self.machine.record_slow_write(now, now + WRITE_WAIT_MAX);
        "its status is being stored".to_owned()
    }

    /// Waits up to `patience` for the write in progress and handles its result. Returns `None` if there is no
    /// write or it hasn't finished in time.
    pub(super) async fn await_write(&mut self, patience: Option<Duration>) -> Option<Result<(), String>> {
        let PendingWrite(task) = self.pending_write.as_mut()?;
        let ended = match patience {
            Some(patience) => tokio::time::timeout(patience, task).await.ok()?,
            None => task.await,
        };
        self.pending_write = None;
        let written = ended.unwrap_or_else(|fault| match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err("the write was interrupted".to_owned()),
        });
        let change = self.machine.finish_write(written.clone(), self.now());
        self.report_write_change(change);
        Some(written)
    }

    fn report_write_change(&mut self, change: WriteChange) {
        match change {
            WriteChange::None => return,
            WriteChange::Recovered => {
                tracing::info!(application = %self.key(), "the application status can be saved again");
            }
            WriteChange::Failing(reason) => {
                tracing::error!(application = %self.key(), problem = reason, "failed to save the application status");
            }
        }
        self.publish();
    }

    /// Publishes the current state and logs the differences.
    pub(super) fn publish(&mut self) {
        let cache = &self.shared.application_cache;
        let (before, published) = cache.get_with_deployments(self.machine.key()).unzip();
        let is_same = before.as_ref().is_some_and(|before| self.machine.is_published(before));
        if is_same && published.as_deref() == Some(self.machine.deployments()) {
            return;
        }
        let shown = self.machine.published_state();
        if !is_same {
            let before = before.as_ref().or(self.machine.persisted());
            status_log::log_changes(self.key(), before.map(Arc::as_ref), &shown);
        }
        let deployments = self.machine.deployments().clone();
        self.shared.application_cache.publish(self.machine.key(), shown, deployments);
        if !is_same {
            self.notify_related();
        }
    }

    /// Notifies the Application's dependencies and dependents that it has changed.
    fn notify_related(&self) {
        self.notify_applications(self.shared.dependencies.related(self.key()));
    }

    fn notify_applications(&self, keys: BTreeSet<AppKey>) {
        if !keys.is_empty() {
            drop(self.supervisor.send_message(SupervisorMessage::RelatedChanged(keys)));
        }
    }
}

/// Sends an input to the actor, unless it has stopped.
pub(super) fn send(actor: &ActorRef<AppMessage>, input: Input) {
    drop(actor.send_message(AppMessage::Input(input)));
}
