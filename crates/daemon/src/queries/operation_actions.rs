//! Requests that act on running operations and on operations in the log.

use tidegate_executor::{Clock as _, Engine, EngineError, SystemClock, record_request};
use tidegate_lifecycle::operation::{Input, OperationEvent};
use tidegate_model::{OperationId, Requester};
use tidegate_oplog::TypedLog as _;
use tidegate_state::error::ServiceError;
use tidegate_views::protocol::OperationAction;

use super::Queries;

impl Queries {
    /// Forwards a user's request. Returns once it is durable, with true if this process runs the operation.
    pub async fn send_action(
        &self,
        operation: OperationId,
        by: &str,
        action: OperationAction,
    ) -> Result<bool, ServiceError> {
        self.check_other_replica(operation).await?;
        self.explain_missing_operation(operation, self.forward_action(operation, by, action).await).await
    }

    async fn forward_action(
        &self,
        operation: OperationId,
        by: &str,
        action: OperationAction,
    ) -> Result<bool, ServiceError> {
        let action = action.with_reason_line();
        if self.pending_resume.is_some() && self.engine.get().is_none() {
            // The new engine has already read the log and would miss a request written now.
            return Err(ServiceError::refused(
                "the process using this state directory is still connecting to the cluster; stop the process, or try again once the cluster responds",
            ));
        }
        if let Some(engine) = self.engine.get() {
            match send_to_engine(engine, operation, by, &action).await {
                // This engine doesn't run the operation, so write the request to the log.
                Err(EngineError::NotRunning { .. }) => {}
                result => return Ok(result.map(|()| true)?),
            }
        }
        let entry = self.run_blocking(move |log| Ok(log.entry_as::<OperationEvent>(operation)?)).await?;
        if let Some(over) = entry.filter(|entry| !entry.summary.is_open()) {
            let message = over.summary.details.message;
            return Err(EngineError::AlreadyFinished { operation, message }.into());
        }
        let ends = matches!(action, OperationAction::Terminate { .. });
        record_request(&self.log, operation, action_input(by, action), SystemClock.now()).await?;
        if let (true, Some(engine)) = (ends, self.engine.get()) {
            engine.resume(operation).await?;
            return Ok(true);
        }
        Ok(false)
    }
}

async fn send_to_engine(
    engine: &Engine,
    operation: OperationId,
    by: &str,
    request: &OperationAction,
) -> Result<(), EngineError> {
    match request {
        OperationAction::Terminate { reason } => {
            engine.terminate(operation, &Requester { name: by, reason }.to_text()).await
        }
        OperationAction::Pause { reason } => engine.pause(operation, by, reason).await,
        OperationAction::Unpause { reason } => {
            engine.unpause(operation, &Requester { name: by, reason }.to_text()).await
        }
        OperationAction::Confirm { reason } => {
            engine.confirm_prune(operation, &Requester { name: by, reason }.to_text()).await
        }
        OperationAction::Approve { wave, reason } => engine.approve(operation, *wave, by, reason).await,
        OperationAction::Override { what, scope, reason } => {
            engine.override_tasks(operation, *what, scope.clone(), by, reason).await
        }
    }
}

fn action_input(by: &str, request: OperationAction) -> Input {
    let requester = |reason: &str| Requester { name: by, reason }.to_text();
    let by = by.to_owned();
    match request {
        OperationAction::Terminate { reason } => Input::Terminate { by: requester(&reason) },
        OperationAction::Pause { reason } => Input::Pause { by, reason },
        OperationAction::Unpause { reason } => Input::Unpause { by: requester(&reason) },
        OperationAction::Confirm { reason } => Input::ConfirmPrune { by: requester(&reason) },
        OperationAction::Approve { wave, reason } => Input::Approve { wave, by, reason },
        OperationAction::Override { what, scope, reason } => Input::Override { what, scope, by, reason },
    }
}
