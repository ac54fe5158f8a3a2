//! What people want of operations: of those at work, and of those that lie in the log.

use tidegate_executor::{Clock as _, Engine, EngineError, SystemClock, record};
use tidegate_lifecycle::operation::{Fact, Input};
use tidegate_model::{OperationId, Wisher};
use tidegate_oplog::TypedLog as _;

use super::Queries;
use crate::control::protocol::Wish;
use crate::error::ServiceError;

impl Queries {
    /// Passes on a person's wish. Returns when it is durable, and whether the operation is at work here.
    pub async fn wish(&self, operation: OperationId, by: &str, wish: Wish) -> Result<bool, ServiceError> {
        self.or_what_it_is(operation, self.pass_on(operation, by, wish).await).await
    }

    async fn pass_on(&self, operation: OperationId, by: &str, wish: Wish) -> Result<bool, ServiceError> {
        let wish = wish.with_reason_line();
        if self.ahead.is_some() && self.engine.get().is_none() {
            // What it would write now, an engine that has just read the log would not know of.
            return Err(ServiceError::refused(
                "the process at work in this state directory is still connecting to the cluster; stop it, or try again when the cluster answers",
            ));
        }
        if let Some(engine) = self.engine.get() {
            match tell(engine, operation, by, &wish).await {
                // The engine has others to work on: this one lies in the log.
                Err(EngineError::NotRunning { .. }) => {}
                result => return Ok(result.map(|()| true)?),
            }
        }
        let entry = self.blocking(move |log| Ok(log.entry_as::<Fact>(operation)?)).await?;
        if let Some(over) = entry.filter(|entry| !entry.summary.is_open()) {
            let message = over.summary.details.message;
            return Err(EngineError::AlreadyFinished { operation, message }.into());
        }
        let ends = matches!(wish, Wish::Terminate { .. });
        record(&self.log, operation, input(by, wish), SystemClock.now()).await?;
        if let (true, Some(engine)) = (ends, self.engine.get()) {
            engine.resume(operation).await?;
            return Ok(true);
        }
        Ok(false)
    }
}

async fn tell(engine: &Engine, operation: OperationId, by: &str, wish: &Wish) -> Result<(), EngineError> {
    match wish {
        Wish::Terminate { reason } => engine.terminate(operation, &Wisher { by, reason }.text()).await,
        Wish::Pause { reason } => engine.pause(operation, by, reason).await,
        Wish::Unpause { reason } => engine.unpause(operation, &Wisher { by, reason }.text()).await,
        Wish::Confirm { reason } => engine.confirm_prune(operation, &Wisher { by, reason }.text()).await,
        Wish::Approve { wave, reason } => engine.approve(operation, *wave, by, reason).await,
        Wish::Override { what, scope, reason } => {
            engine.override_tasks(operation, *what, scope.clone(), by, reason).await
        }
    }
}

fn input(by: &str, wish: Wish) -> Input {
    let said = |reason: &str| Wisher { by, reason }.text();
    let by = by.to_owned();
    match wish {
        Wish::Terminate { reason } => Input::Terminate { by: said(&reason) },
        Wish::Pause { reason } => Input::Pause { by, reason },
        Wish::Unpause { reason } => Input::Unpause { by: said(&reason) },
        Wish::Confirm { reason } => Input::ConfirmPrune { by: said(&reason) },
        Wish::Approve { wave, reason } => Input::Approve { wave, by, reason },
        Wish::Override { what, scope, reason } => Input::Override { what, scope, by, reason },
    }
}
