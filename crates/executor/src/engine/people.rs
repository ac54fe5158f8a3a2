//! What people want of operations at work.

use tidegate_lifecycle::operation::{Input, Scope};
use tidegate_model::{ClaimHolder, OperationId, Override, SafePoint};

use super::Engine;
use crate::actors::supervisor::SupervisorMessage;
use crate::error::EngineError;

impl Engine {
    async fn person(&self, operation: OperationId, input: Input) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::Person { operation, input, reply }).await
    }

    /// Ends an operation at work. Returns when the wish is durable.
    pub async fn terminate(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Terminate { by: by.to_owned() }).await
    }

    /// Ends an operation at work for another sync of its application, where none of its hooks has to be stopped for that; it is
    /// refused elsewhere, and nothing of it is remembered. Returns when the wish is durable.
    pub async fn supersede(
        &self,
        operation: OperationId,
        by: ClaimHolder,
        when: SafePoint,
    ) -> Result<(), EngineError> {
        self.person(operation, Input::Supersede { by, when }).await
    }

    /// Holds an operation at work at its next safe point. Returns when the wish is durable.
    pub async fn pause(&self, operation: OperationId, by: &str, reason: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Pause { by: by.to_owned(), reason: reason.to_owned() }).await
    }

    /// Lets a held operation go on. Returns when the wish is durable.
    pub async fn unpause(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Unpause { by: by.to_owned() }).await
    }

    /// Approves the prunes of an operation that wait for confirmation. Returns when the wish is durable.
    pub async fn confirm_prune(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::ConfirmPrune { by: by.to_owned() }).await
    }

    /// Approves a wave that the gate `approval` holds: the one with this number in the plan, from 1, or the one that waits for
    /// it. Returns when the approval is durable.
    pub async fn approve(
        &self,
        operation: OperationId,
        wave: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.person(operation, Input::Approve { wave, by, reason }).await
    }

    /// Skips one task of an operation, or what is not done of a wave, marks it as done, or has it tried again at once.
    /// Returns when that is durable.
    pub async fn override_tasks(
        &self,
        operation: OperationId,
        what: Override,
        scope: Scope,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.person(operation, Input::Override { what, scope, by, reason }).await
    }
}
