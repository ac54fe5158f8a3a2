//! User requests for running operations.

use tidegate_lifecycle::operation::{Input, Scope};
use tidegate_model::{ClaimHolder, OperationId, Override, SafePoint};

use super::Engine;
use crate::actors::supervisor::SupervisorMessage;
use crate::error::EngineError;

impl Engine {
    async fn send_request(&self, operation: OperationId, input: Input) -> Result<(), EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::Request { operation, input, reply }).await
    }

    /// Terminates a running operation. Returns once the request is durable.
    pub async fn terminate(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.send_request(operation, Input::Terminate { by: by.to_owned() }).await
    }

    /// Ends a running operation in favor of another sync of its application, at a safe point where no hook
    /// has to be stopped. Rejects the request if that isn't possible. Returns once the request is durable.
    pub async fn supersede(
        &self,
        operation: OperationId,
        by: ClaimHolder,
        when: SafePoint,
    ) -> Result<(), EngineError> {
        self.send_request(operation, Input::Supersede { by, when }).await
    }

    /// Pauses a running operation at its next safe point. Returns once the request is durable.
    pub async fn pause(&self, operation: OperationId, by: &str, reason: &str) -> Result<(), EngineError> {
        self.send_request(operation, Input::Pause { by: by.to_owned(), reason: reason.to_owned() }).await
    }

    /// Resumes a paused operation. Returns once the request is durable.
    pub async fn unpause(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.send_request(operation, Input::Unpause { by: by.to_owned() }).await
    }

    /// Confirms the prunes of an operation waiting for confirmation. Returns once the request is durable.
    pub async fn confirm_prune(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.send_request(operation, Input::ConfirmPrune { by: by.to_owned() }).await
    }

    /// Approves a wave blocked by the `approval` gate. `wave` is its number in the plan, starting at 1; by
    /// default, the wave waiting for approval. Returns once the approval is durable.
    pub async fn approve(
        &self,
        operation: OperationId,
        wave: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.send_request(operation, Input::Approve { wave, by, reason }).await
    }

    /// Skips, completes or immediately retries one task of an operation, or all unfinished tasks in a wave.
    /// Returns once the request is durable.
    pub async fn override_tasks(
        &self,
        operation: OperationId,
        what: Override,
        scope: Scope,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.send_request(operation, Input::Override { what, scope, by, reason }).await
    }
}
