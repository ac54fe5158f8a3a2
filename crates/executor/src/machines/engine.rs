//! The engine's API for machines other than operations.

use std::sync::Arc;

use ractor::Actor as _;
use tidegate_lifecycle::Machine;
use tidegate_model::{StreamId, StreamRecords};
use tidegate_oplog::{EntryOf, Lookup, TypedLog as _};

use super::error::MachineError;
use super::machine_effects::{DurableMachine, MachineEffects};
use super::machine_handle::{MachineHandle, machine_name};
use super::read;
use super::registry::Registration;
use super::running_machine::RunningMachine;
use super::supervisor::{MachineSupervisor, SupervisorArguments};
use crate::actors::operation::Report;
use crate::actors::supervisor::SupervisorMessage;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::log::run_blocking;

impl Engine {
    /// Runs a machine. If the log contains a machine with this ID, resumes it and ignores `start_input`. If
    /// it is already running or has finished, returns a handle to it. Otherwise, starts a new machine with
    /// `start_input`, which is durable when this returns. `work` creates the effects for each of the
    /// machine's actors.
    ///
    /// The ID comes from [`Engine::next_id`]. Record it to find the machine again. Some machines require an
    /// input on resume; see [`MachineEffects::resume_input`].
    ///
    /// # Errors
    ///
    /// Returns an error if the log doesn't contain the machine and `start_input` is `None`, or if the machine
    /// rejects `start_input`. Also fails if another machine has this ID, the log can't be read or written, or
    /// the engine is shutting down.
    pub async fn run_machine<W: MachineEffects>(
        &self,
        id: impl Into<StreamId>,
        start_input: Option<<W::Machine as Machine>::Input>,
        work: impl Fn() -> W + Send + Sync + 'static,
    ) -> Result<RunningMachine<W::Machine>, MachineError> {
        let id = id.into();
        match self.failure() {
            Some(EngineError::LogFailed { reason }) => return Err(MachineError::LogFailed { reason }),
            Some(_) => return Err(MachineError::Stopped { machine: machine_name::<W::Machine>(id) }),
            None => {}
        }
        let new = || MachineHandle::new(id, Arc::clone(&self.shared.clock));
        let entry = match self.shared.machines.register(id, new)? {
            Registration::Existing(handle) => return RunningMachine::wait_until_started(handle).await,
            Registration::New(place) => place,
        };
        let handle = Arc::clone(&entry.handle);
        let supervisor = self.supervisor.clone();
        let log_failed = move |reason| {
            let _ = supervisor.send_message(SupervisorMessage::Report(Report::LogFailed { reason }));
        };
        let arguments = SupervisorArguments {
            shared: Arc::clone(&self.shared),
            entry,
            make_effects: Arc::new(work),
            start_input,
            log_failed: Box::new(log_failed),
        };
        let above = self.supervisor.get_cell();
        // If the spawn fails, the registry entry is dropped, and the handle reports the failure.
        let _ = MachineSupervisor::<W>::spawn_linked(None, MachineSupervisor::new(), arguments, above).await;
        RunningMachine::wait_until_started(handle).await
    }

    /// Returns all matching machines of one kind, oldest first.
    pub async fn list_machines<F: StreamRecords>(
        &self,
        lookup: Lookup,
    ) -> Result<Vec<EntryOf<F>>, EngineError> {
        Ok(run_blocking(&self.shared.log, move |log| log.find_as::<F>(lookup)).await?)
    }

    /// Stops these machines gracefully, so that another engine with the same log can run them. Ignores machines that
    /// this engine doesn't run. Returns false if a machine doesn't stop in time.
    pub async fn stop_machines(&self, ids: impl IntoIterator<Item = StreamId>) -> bool {
        self.shared.machines.stop(ids).await
    }

    /// Returns the durable state of a machine, running or not, or `None` if the log doesn't contain the ID.
    /// Fails if only the summary of a finished machine is left; [`Engine::list_machines`] still returns it.
    pub async fn machine_state<M: DurableMachine>(
        &self,
        id: impl Into<StreamId>,
    ) -> Result<Option<M::State>, EngineError> {
        let id = id.into();
        if let Some(handle) = self.shared.machines.find::<M>(id)
            && !handle.is_starting()
        {
            return Ok(Some(handle.durable_state()));
        }
        let state = run_blocking(&self.shared.log, move |log| read::read_state::<M>(log, id)).await?;
        Ok(state.transpose()?)
    }
}
