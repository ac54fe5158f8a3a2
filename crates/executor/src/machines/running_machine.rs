//! A caller's handle to a running machine.

use std::sync::Arc;

use tidegate_lifecycle::Machine;
use tidegate_model::StreamId;
use tokio::sync::oneshot;

use super::error::MachineError;
use super::machine_handle::{EndReason, ExecutionStatus, MachineHandle};
use super::message::{MachineMessage, SupervisorMessage};

/// Handle to a running machine. Cheap to clone. The machine keeps running even if all handles are dropped.
pub struct RunningMachine<M: Machine>(Arc<MachineHandle<M>>);

impl<M: Machine> Clone for RunningMachine<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Machine> RunningMachine<M> {
    /// Waits until the machine has started or resumed.
    pub(super) async fn wait_until_started(handle: Arc<MachineHandle<M>>) -> Result<Self, MachineError> {
        match handle.wait_for_status(|status| !matches!(status, ExecutionStatus::Starting)).await {
            ExecutionStatus::Ended(EndReason::Failed(error)) => Err(error),
            _ => Ok(Self(handle)),
        }
    }

    /// Returns the ID.
    pub fn id(&self) -> StreamId {
        self.0.id
    }

    /// Sends an input without waiting. A rejected input is dropped and logged. An input may also be lost in a
    /// crash before it is durable. Use [`request`](Self::request) for inputs that must not be lost.
    pub fn send_input(&self, input: M::Input) {
        self.0.send_input(input);
    }

    /// Sends a request. Returns once the request is durable.
    ///
    /// # Errors
    ///
    /// Returns an error if the machine rejects the request, has stopped running, or has failed. After a
    /// failure, the caller may retry.
    pub async fn request(&self, input: M::Input) -> Result<(), MachineError> {
        let status = self
            .0
            .wait_for_status(|status| {
                matches!(status, ExecutionStatus::Running(_) | ExecutionStatus::Ended(_))
            })
            .await;
        let ExecutionStatus::Running(actor) = status else { return self.late_input_result(&input, status) };
        let (reply, answer) = oneshot::channel();
        let sent = actor.send_message(MachineMessage::Request { input, reply });
        if sent.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        // The actor exited without a reply, so the request was either not processed or not recorded.
        let of_this = |status: &ExecutionStatus<M>| matches!(status, ExecutionStatus::Running(other) if other.get_id() == actor.get_id());
        match self.0.wait_for_status(|status| !of_this(status)).await {
            ExecutionStatus::Ended(EndReason::Failed(error)) => Err(error),
            ExecutionStatus::Ended(EndReason::Stopped) => {
                Err(MachineError::NotRunning { machine: self.0.name() })
            }
            _ => Err(MachineError::Restarted { machine: self.0.name() }),
        }
    }

    fn late_input_result(&self, input: &M::Input, status: ExecutionStatus<M>) -> Result<(), MachineError> {
        let machine = self.0.name();
        match status {
            ExecutionStatus::Ended(EndReason::Failed(error)) => Err(error),
            ExecutionStatus::Ended(EndReason::Over) => {
                match M::decide(&self.0.durable_state(), input, self.0.clock.now()) {
                    Err(rejection) if !M::is_late(&rejection) => {
                        Err(MachineError::Rejected { machine, reason: rejection.to_string() })
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(MachineError::NotRunning { machine }),
        }
    }

    /// Returns the durable state.
    ///
    /// # Errors
    ///
    /// Returns the reason as an error if the engine gave up on the machine.
    /// [`Engine::machine_state`](crate::Engine::machine_state) then returns the machine's state in the log.
    pub async fn state(&self) -> Result<M::State, MachineError> {
        match self.0.wait_for_status(|_| true).await {
            ExecutionStatus::Ended(EndReason::Failed(error)) => Err(error),
            _ => Ok(self.0.durable_state()),
        }
    }

    /// Waits until the machine has durably finished or has stopped running. [`RunningMachine::state`] tells
    /// the two cases apart.
    pub async fn wait_until_over(&self) {
        self.0.wait_until_ended().await;
    }

    /// Stops the machine gracefully: starts no more commands, and records the results of commands in flight
    /// within a time limit. Returns once the machine has stopped. It can be resumed later.
    pub async fn stop(&self) {
        self.0.send(SupervisorMessage::Stop);
        self.0.wait_until_ended().await;
    }
}
