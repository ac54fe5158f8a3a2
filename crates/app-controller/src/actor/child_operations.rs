//! Operations requested by progressive syncs. Each starts at most once, under an ID persisted beforehand, and
//! reports its progress back.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::refresh::{self, RefreshLevel};
use tidegate_application::rollout_operation::{self, Deployment, StartDecision};
use tidegate_application::sources::revisions_of_fields;
use tidegate_application::{approval, operation};
use tidegate_executor::EngineError;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::{OperationRequest, SyncStatus, SyncStatusCode};
use tidegate_model::{OperationId, Timestamp};

use super::ActorState;
use crate::admission::admit;
use crate::application_cache::Deployments;
use crate::destinations::DestinationError;
use crate::messages::{AppMessage, ChildOperation, Reply};
use crate::rendering::have_same_manifests;
use crate::shared_state::SharedState;
use crate::{operation_history, run_operation};

/// Operations requested by progressive syncs.
#[derive(Default)]
pub(super) struct ChildOperations {
    requested: BTreeMap<OperationId, TrackedChild>,
    /// The current operation, once the engine has received it.
    current: Option<OperationId>,
}

struct TrackedChild {
    request: ChildOperation,
    last_report: Option<OperationReport>,
    revision_comparison: Option<RevisionComparison>,
}

/// Comparison of a child operation's manifests with the manifests at deployed revisions.
struct RevisionComparison {
    deployed: Vec<String>,
    /// True if the manifests are the same. `None` until the comparison has finished.
    result: Option<Result<bool, String>>,
}

/// Evidence that the requested state was already deployed.
enum DeployedEvidence {
    /// This operation deployed the state.
    Deployed(OperationId),
    /// Only a comparison can confirm the deployment.
    Unconfirmed,
}

impl TrackedChild {
    /// Sends the progress if it has changed.
    fn report(&mut self, news: OperationReport) {
        if self.last_report.as_ref() != Some(&news) {
            // If the receiver was dropped, the progressive sync will request the operation again if
            // necessary.
            let _ = self.request.progress.send(news.clone());
            self.last_report = Some(news);
        }
    }
}

impl ActorState {
    /// Accepts a requested operation and starts reporting its progress.
    pub(super) async fn request_child(&mut self, operation: OperationId, request: ChildOperation) {
        let mut child = TrackedChild { request, last_report: None, revision_comparison: None };
        let is_known = rollout_operation::current_rollout_operation(&self.application) == Some(operation)
            || rollout_operation::operation_result(&self.application, operation).is_some();
        if !is_known {
            match operation_history::operation_result(&self.shared, operation).await {
                Ok(None) => {}
                Ok(Some((phase, message))) => {
                    return child.report(OperationReport::Ended { phase, message });
                }
                Err(error) => {
                    let problem = format!("cannot read the operation log: {error}");
                    return child.report(OperationReport::Failed(CallError::transient(problem)));
                }
            }
        }
        let is_unknown =
            |sync: &SyncStatus| sync.status == SyncStatusCode::Unknown && child.request.adoption.is_some();
        if self.application.status.sync.as_ref().is_some_and(is_unknown) {
            // The last comparison couldn't determine if the state was already deployed.
            self.request_comparison(RefreshLevel::Latest);
        }
        self.child_operations.requested.insert(operation, child);
    }

    /// Makes the next requested operation the current one, or reports why it has to wait.
    pub(super) fn schedule_child(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.application.is_deleting()
            && let Some(placed) = rollout_operation::current_rollout_operation(&self.application)
                .filter(|_| !self.is_child_in_engine())
        {
            rollout_operation::withdraw_operation(&mut self.application, placed, now);
        }
        let placed = rollout_operation::current_rollout_operation(&self.application);
        let ended = |operation: &OperationId| {
            rollout_operation::operation_result(&self.application, *operation).is_some()
        };
        let waiting: Vec<OperationId> = self
            .child_operations
            .requested
            .keys()
            .copied()
            .filter(|one| Some(*one) != placed && !ended(one))
            .collect();
        for operation in waiting {
            let next = self.next_child(now);
            if matches!(next, Ok(StartDecision::Start | StartDecision::Blocked(_))) {
                match self.deployed_evidence(myself, operation) {
                    Ok(None) => {}
                    Ok(Some(DeployedEvidence::Deployed(by))) => {
                        if let Some(mut child) = self.child_operations.requested.remove(&operation) {
                            child.report(OperationReport::Deployed { operation: by });
                        }
                        continue;
                    }
                    Ok(Some(DeployedEvidence::Unconfirmed)) => continue,
                    Err(reason) => {
                        self.refuse_child(operation, CallError::transient(reason));
                        continue;
                    }
                }
            }
            match next {
                Ok(StartDecision::Wait) => {}
                Ok(StartDecision::Start) => {
                    let Some(child) = self.child_operations.requested.get(&operation) else { continue };
                    rollout_operation::assign_operation(
                        &mut self.application,
                        operation,
                        child.request.request.as_ref().clone(),
                    );
                }
                Ok(StartDecision::Blocked(held)) => {
                    self.set_alarm(myself, held.next_check);
                    if let Some(child) = self.child_operations.requested.get_mut(&operation) {
                        child.report(OperationReport::Delayed { window: held.reason });
                    }
                }
                Ok(StartDecision::Unavailable(reason)) => {
                    self.refuse_child(operation, CallError::transient(reason))
                }
                Err(error) => self.refuse_child(operation, error),
            }
        }
    }

    /// Returns evidence that the requested state is already deployed, so that no hook runs twice. `None`
    /// means that it must be deployed. Only a comparison that started after the earlier operation finished
    /// counts; it is requested if missing.
    fn deployed_evidence(
        &mut self,
        myself: &ActorRef<AppMessage>,
        operation: OperationId,
    ) -> Result<Option<DeployedEvidence>, String> {
        let Some(child) = self.child_operations.requested.get(&operation) else { return Ok(None) };
        let ChildOperation { request, adoption: Some(adoption), .. } = &child.request else {
            return Ok(None);
        };
        let Some(Deployment { operation: by, revisions }) =
            rollout_operation::adoption_candidate(&self.application, request, adoption)
        else {
            return Ok(None);
        };
        let accepts_health =
            adoption.accepts_health(self.application.status.health.as_ref().map(|health| health.status));
        let is_it = |known: &Option<Deployment>| known.as_ref().is_some_and(|one| one.operation == by);
        if !is_it(&self.deployments.newest) {
            return Ok(None);
        }
        match self.has_child_manifests(myself, operation, &revisions).transpose()? {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => return Ok(Some(DeployedEvidence::Unconfirmed)),
        }
        let Deployments { newest, evidence, is_compared } = &self.deployments;
        let sync = self.application.status.sync.as_ref();
        let with = sync.and_then(|sync| sync.compared_to.as_ref());
        let is_current = with == Some(&refresh::compared_to(&self.application));
        if !is_compared || !is_it(evidence) || !is_current {
            if !self.is_comparing {
                self.request_comparison(RefreshLevel::Latest);
            }
            return Ok(Some(DeployedEvidence::Unconfirmed));
        }
        if !accepts_health {
            return Ok(None);
        }
        let compared = sync.map(|sync| revisions_of_fields(&sync.revision, &sync.revisions));
        let is_of_other_revisions = newest.as_ref().map(|one| &one.revisions) != compared.as_ref();
        match sync.map(|sync| sync.status) {
            Some(SyncStatusCode::Synced) => Ok(Some(DeployedEvidence::Deployed(by))),
            // The Application is only out of sync with newer revisions, which doesn't contradict the
            // deployment.
            Some(SyncStatusCode::OutOfSync) if is_of_other_revisions => {
                Ok(Some(DeployedEvidence::Deployed(by)))
            }
            Some(SyncStatusCode::OutOfSync) => Ok(None),
            Some(SyncStatusCode::Unknown) | None if self.is_comparing || self.requested_level.is_some() => {
                Ok(Some(DeployedEvidence::Unconfirmed))
            }
            Some(SyncStatusCode::Unknown) | None => Err(format!(
                "operation {by} deployed this target, but the comparison that should confirm the deployment failed; see the conditions of application {}",
                self.key
            )),
        }
    }

    /// Returns true if these revisions have the same manifests as a requested operation. The first call
    /// starts the comparison, and the result is `None` until it has finished.
    fn has_child_manifests(
        &mut self,
        myself: &ActorRef<AppMessage>,
        operation: OperationId,
        deployed: &[String],
    ) -> Option<Result<bool, String>> {
        let child = self.child_operations.requested.get_mut(&operation)?;
        if child.request.adoption.as_ref()?.revisions.iter().any(|known| known == deployed) {
            return Some(Ok(true));
        }
        if let Some(known) = child.revision_comparison.as_ref().filter(|known| known.deployed == deployed) {
            return known.result.clone();
        }
        let deployed = deployed.to_vec();
        child.revision_comparison = Some(RevisionComparison { deployed: deployed.clone(), result: None });
        let target = child.request.request.sync.as_ref()?;
        let target = revisions_of_fields(&target.revision, &target.revisions);
        let (shared, application, actor) =
            (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        self.tasks.spawn(async move {
            let result = have_same_manifests(&shared, &application, &target, &deployed).await;
            drop(actor.send_message(AppMessage::RevisionsCompared { operation, deployed, result }));
        });
        None
    }

    /// Records whether deployed revisions have the manifests of a requested operation.
    pub(super) fn handle_compared_revisions(
        &mut self,
        operation: OperationId,
        deployed: Vec<String>,
        result: Result<bool, String>,
    ) {
        let Some(child) = self.child_operations.requested.get_mut(&operation) else { return };
        if child.revision_comparison.as_ref().is_some_and(|awaited| awaited.deployed == deployed) {
            child.revision_comparison = Some(RevisionComparison { deployed, result: Some(result) });
        }
    }

    fn next_child(&self, now: Timestamp) -> Result<StartDecision, CallError> {
        match rollout_operation::decide_start(
            &self.application,
            &self.shared.sync_windows(&self.application),
            now,
        ) {
            StartDecision::Start | StartDecision::Blocked(_) if self.problem.is_some() => {
                let problem = self.problem.clone().unwrap_or_default();
                Err(CallError::permanent(format!("application {} cannot be synced: {problem}", self.key)))
            }
            next @ (StartDecision::Start | StartDecision::Blocked(_)) => {
                match admit(&self.shared, &self.application) {
                    Ok(_) => Ok(next),
                    Err(DestinationError::Invalid(problem)) => Err(CallError::permanent(problem)),
                    Err(DestinationError::Unreachable(problem)) => Err(CallError::outage(problem)),
                    // Check again once the cluster has responded or failed to respond.
                    Err(DestinationError::Unchecked(_)) => Ok(StartDecision::Wait),
                }
            }
            next => Ok(next),
        }
    }

    fn refuse_child(&mut self, operation: OperationId, error: CallError) {
        if let Some(mut child) = self.child_operations.requested.remove(&operation) {
            child.report(OperationReport::Failed(error));
        }
    }

    /// Reports progress that has been persisted.
    pub(super) fn report_children(&mut self) {
        let (application, started) = (&self.application, self.child_operations.current);
        let unapproved = approval::approval_condition_message(application)
            .filter(|_| rollout_operation::current_rollout_operation(application) != started);
        self.child_operations.requested.retain(|operation, child| {
            if let Some((phase, message)) = rollout_operation::operation_result(application, *operation) {
                child.report(OperationReport::Ended { phase, message });
                return false;
            }
            if started == Some(*operation)
                && rollout_operation::current_rollout_operation(application) == started
            {
                child.report(OperationReport::Started);
            } else if let Some(plan) = unapproved
                .filter(|_| rollout_operation::current_rollout_operation(application) == Some(*operation))
            {
                child.report(OperationReport::Unapproved { plan: plan.to_owned() });
            }
            true
        });
    }

    /// Records that the engine has received the current operation.
    pub(super) fn record_child_begin(&mut self, operation: OperationId) {
        self.child_operations.current = Some(operation);
    }

    /// Returns true if the progressive sync's operation has reached the engine or is about to.
    fn is_child_in_engine(&self) -> bool {
        let placed = rollout_operation::current_rollout_operation(&self.application);
        placed.is_some() && (placed == self.running_operation || placed == self.child_operations.current)
    }

    /// Returns true if the requested operation can still be kept from starting.
    pub(super) fn can_be_withheld(&self, request: &OperationRequest) -> bool {
        operation::engine_id(request).is_none()
            || rollout_operation::is_of_rollout(request) && !self.is_child_in_engine()
    }

    /// Withdraws an operation. Unless it has already started, it never will.
    pub(super) async fn withdraw_child(&mut self, operation: OperationId, now: Timestamp) {
        self.child_operations.requested.remove(&operation);
        if rollout_operation::current_rollout_operation(&self.application) != Some(operation) {
            return;
        }
        let is_begun = self.child_operations.current == Some(operation);
        if is_begun || self.is_child_in_engine() && !self.cancel_handover(operation).await {
            return self.record_child_begin(operation);
        }
        rollout_operation::withdraw_operation(&mut self.application, operation, now);
    }

    /// Cancels the handover to the engine. Returns true if the engine definitely hasn't received the
    /// operation.
    async fn cancel_handover(&mut self, operation: OperationId) -> bool {
        self.operation_tasks.shutdown().await;
        (self.is_preparing, self.running_operation) = (false, None);
        !operation_history::is_operation_known(&self.shared, operation).await
    }

    /// Stops an operation or keeps it from starting. Replies once it has finished or can no longer start.
    pub(super) async fn stop_child(
        &mut self,
        myself: &ActorRef<AppMessage>,
        operation: OperationId,
        by: String,
        reply: Reply,
    ) {
        let now = self.now();
        self.withdraw_child(operation, now).await;
        self.is_urgent = true;
        // Persist the withdrawal before the caller relies on it.
        if let Err(problem) = self.persist_now(myself).await {
            return drop(reply.send(Err(problem)));
        }
        self.tasks.spawn(end_in_engine(Arc::clone(&self.shared), operation, by, reply));
    }

    /// Restores the operation that this Application's previous actor accepted. Withdraws it if the engine
    /// never received it.
    pub(super) async fn restore_child(&mut self, now: Timestamp) {
        let Some(placed) = rollout_operation::current_rollout_operation(&self.application) else { return };
        match operation_history::is_operation_known(&self.shared, placed).await {
            true => self.record_child_begin(placed),
            false => rollout_operation::withdraw_operation(&mut self.application, placed, now),
        }
    }
}

/// Terminates an operation that may have reached the engine, and replies once it has finished. Sends no reply
/// if the engine stops.
pub async fn end_in_engine(shared: Arc<SharedState>, operation: OperationId, by: String, reply: Reply) {
    let is_over =
        || async { matches!(operation_history::operation_result(&shared, operation).await, Ok(Some(_))) };
    let answer = match run_operation::terminate(&shared, operation, &by).await {
        Ok(false) => Ok(()),
        Ok(true) => match shared.engine.wait(operation).await {
            Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => return,
            Ok(_) | Err(EngineError::UnknownOperation { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        // The operation has finished on its own.
        Err(_) if is_over().await => Ok(()),
        Err(problem) => Err(problem),
    };
    drop(reply.send(answer));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
