//! Requests from clients and progressive syncs, which are durable before they are answered.
//!
//! These requests change the machine outside of `decide`, because the caller waits for the answer: a rejection
//! with its reason, or success once the new state is stored. If it can't be stored, the request is undone. To
//! end or withdraw an operation, the actor must first find out whether the engine has it. After each request,
//! the actor delivers `Input::Step`, so that only `decide` starts work.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::deletion::{self, DeletionRequester};
use tidegate_application::machine::{ChildWithdrawal, PendingPlan, PlanReference};
use tidegate_executor::EngineError;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Digest, OperationId, PlanApproval, Requester};
use tidegate_stores::applications::ExternalTermination;

use super::ActorState;
use crate::DeletionOptions;
use crate::messages::{AppMessage, ChildOperation, Reply};
use crate::plan_approval::{with_plans, withdraw_plan};
use crate::shared_state::SharedState;
use crate::{operation_history, run_operation};

impl ActorState {
    /// Requests an operation. The request is durable once this returns `Ok`.
    pub(super) async fn request_operation(
        &mut self,
        myself: &ActorRef<AppMessage>,
        request: OperationRequest,
        plan: Option<PlanReference>,
    ) -> Result<(), String> {
        let backup = self.machine.back_up_operation();
        self.machine.request_operation(request, plan, self.shared.as_ref(), self.now())?;
        self.load_plan().await;
        self.machine.reset_operation_status(self.now());
        let persisted = self.persist_now(myself).await;
        if persisted.is_err() {
            // The caller gets an error, so undo the request.
            self.machine.undo_request(backup);
        }
        persisted
    }

    /// Terminates the current operation. Fails if `expected` is a different operation.
    pub(super) async fn terminate_operation(
        &mut self,
        expected: Option<OperationId>,
        by: &str,
    ) -> Result<(), String> {
        let operation = self.machine.check_termination(expected)?;
        if self.terminate_in_engine(operation, by).await? {
            return Ok(());
        }
        // Stop the handover in case the engine doesn't have the operation yet. It may still have received it
        // in the meantime.
        self.operation_tasks.shutdown().await;
        self.machine.stop_handover();
        if self.terminate_in_engine(operation, by).await? {
            return Ok(());
        }
        let now = self.now();
        self.machine.end_unstarted_operation(by, now);
        if self.machine.application().operation.is_none()
            && let Some(PendingPlan { hash, .. }) = self.machine.take_pending_plan()
        {
            let Requester { name, reason } = Requester::parse(by);
            let by = PlanApproval { by: name.to_owned(), reason: reason.to_owned(), at: now };
            withdraw_plan(&self.shared, hash, Some(by)).await;
        }
        Ok(())
    }

    async fn terminate_in_engine(
        &mut self,
        operation: Option<OperationId>,
        by: &str,
    ) -> Result<bool, String> {
        let Some(operation) = operation else { return Ok(false) };
        let is_terminating = run_operation::terminate(&self.shared, operation, by).await?;
        if is_terminating {
            self.machine.set_terminating();
        }
        Ok(is_terminating)
    }

    /// Restores the state after another client has overwritten it. If that client set the operation's phase
    /// to `Terminating`, also stops the operation.
    pub(super) async fn handle_overwrite(&mut self, termination: Option<ExternalTermination>) {
        self.machine.record_overwrite(self.now());
        let Some(ExternalTermination { operation }) = termination else { return };
        let is_current = operation.is_none() || operation == self.machine.operation_id();
        if self.machine.application().operation.is_none() || !is_current {
            return;
        }
        let by = self.shared.store.writer_of_phase(self.key()).await;
        self.end_operation(&by.unwrap_or_else(|| "the client that set the Terminating phase".to_owned()))
            .await;
    }

    pub(super) async fn end_operation(&mut self, by: &str) {
        if let Err(problem) = self.terminate_operation(None, by).await {
            tracing::warn!(application = %self.key(), problem, by, "failed to terminate an operation");
        }
    }

    /// Approves a plan. Once this returns, both the approval and the waiting operation are durable.
    pub(super) async fn approve(
        &mut self,
        myself: &ActorRef<AppMessage>,
        hash: Digest,
        approval: PlanApproval,
    ) -> Result<(), String> {
        if self.machine.check_approval_request(hash, self.shared.as_ref(), self.now())? {
            self.persist_now(myself).await?;
        }
        let approved = with_plans(&self.shared, move |plans| plans.approve(hash, approval)).await;
        let plan = approved.map_err(|error| error.to_string())?;
        self.machine.set_approvals(hash, plan.approvals);
        Ok(())
    }

    /// Deletes the Application at a user's request. The request is durable once this returns `Ok`.
    pub(super) async fn request_deletion(
        &mut self,
        options: DeletionOptions,
        requester: Requester<'_>,
    ) -> Result<(), String> {
        let DeletionOptions { cascade, no_hooks } = options;
        let application = self.machine.application();
        if deletion::is_deleting_with(application, cascade) {
            // A repeated request starts the next attempt immediately.
            self.machine.retry_deletion();
            return Ok(());
        }
        if let Some(reason) = deletion::deletion_refusal(application, &self.key().to_string(), cascade) {
            return Err(reason);
        }
        // Otherwise, an earlier state could still be written after the deletion.
        self.await_write(None).await;
        let mut deleted = Application::clone(self.machine.application());
        deleted.metadata.finalizers = deletion::finalizers(&deleted, cascade);
        let now = self.now().into();
        deleted.metadata.deletion_timestamp = Some(now);
        if let Some(requester) =
            DeletionRequester::with_hooks(requester.name, requester.reason, no_hooks, now)
        {
            requester.annotate(&mut deleted.metadata.annotations);
        }
        self.shared.store.delete(&deleted).await.map_err(|error| error.to_string())?;
        // If the store is a cluster, its watch reports the deletion time and the remaining finalizers.
        if !self.shared.store.is_shared() {
            self.machine.set_deleted(deleted.metadata);
        }
        Ok(())
    }

    /// Accepts an operation of a progressive sync and starts reporting its progress.
    pub(super) async fn request_child(&mut self, operation: OperationId, child: ChildOperation) {
        let ChildOperation { request, adoption, progress } = child;
        if !self.machine.knows_child(operation) {
            let report = match operation_history::operation_result(&self.shared, operation).await {
                Ok(None) => None,
                Ok(Some((phase, message))) => Some(OperationReport::Ended { phase, message }),
                Err(error) => {
                    let problem = format!("cannot read the operation log: {error}");
                    Some(OperationReport::Failed(CallError::transient(problem)))
                }
            };
            if let Some(report) = report {
                // If the receiver was dropped, the progressive sync will request the operation again if
                // necessary.
                return drop(progress.send(report));
            }
        }
        self.child_reports.insert(operation, progress);
        self.machine.request_child(operation, *request, adoption);
    }

    /// Withdraws an operation of a progressive sync. Unless it has already started, it never will.
    pub(super) async fn withdraw_child(&mut self, operation: OperationId) {
        self.child_reports.remove(&operation);
        match self.machine.withdraw_child(operation, self.now()) {
            ChildWithdrawal::Done => {}
            ChildWithdrawal::StopHandover => {
                let is_begun = self.stop_handover(Some(operation)).await;
                self.machine.finish_child_withdrawal(operation, is_begun, self.now());
            }
        }
    }

    /// Stops an operation or keeps it from starting. Replies once it has finished or can no longer start.
    pub(super) async fn stop_child(
        &mut self,
        myself: &ActorRef<AppMessage>,
        operation: OperationId,
        by: String,
        reply: Reply,
    ) {
        self.withdraw_child(operation).await;
        self.machine.set_urgent();
        // Persist the withdrawal before the caller relies on it.
        if let Err(problem) = self.persist_now(myself).await {
            return drop(reply.send(Err(problem)));
        }
        self.tasks.spawn(end_in_engine(Arc::clone(&self.shared), operation, by, reply));
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
