//! What an engine does for machines that are no operations.

use std::sync::Arc;

use ractor::Actor as _;
use tidegate_lifecycle::Machine;
use tidegate_model::{Records, StreamId};
use tidegate_oplog::{EntryOf, Lookup, TypedLog as _};

use super::error::MachineError;
use super::line::{Line, name};
use super::read;
use super::registry::Entered;
use super::running::Running;
use super::supervisor::{MachineSupervisor, SupervisorArguments};
use super::work::{Durable, Work};
use crate::actors::operation::Report;
use crate::actors::supervisor::SupervisorMessage;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::log::blocking;

impl Engine {
    /// Runs a machine. One that the log knows by this id is gone on with, and `begin` is not used; one that is at work already
    /// is the one that is returned; one that is over is returned as that. Any other is begun with `begin`, which is durable
    /// when this returns. `work` makes hands for each of its actors.
    ///
    /// Its id is one of [`Engine::next_id`], recorded by whoever must find it again. What goes on may have to be told that it
    /// does; see [`Work::resumed`].
    ///
    /// # Errors
    ///
    /// The log does not know it, and there is no `begin`; `begin` was refused, in the machine's words; another machine has this
    /// id; the log cannot be read or written; the engine is going down.
    pub async fn run_machine<W: Work>(
        &self,
        id: impl Into<StreamId>,
        begin: Option<<W::Machine as Machine>::Input>,
        work: impl Fn() -> W + Send + Sync + 'static,
    ) -> Result<Running<W::Machine>, MachineError> {
        let id = id.into();
        match self.failure() {
            Some(EngineError::LogFailed { reason }) => return Err(MachineError::LogFailed { reason }),
            Some(_) => return Err(MachineError::Stopped { machine: name::<W::Machine>(id) }),
            None => {}
        }
        let new = || Line::new(id, Arc::clone(&self.shared.clock));
        let place = match self.shared.machines.enter(id, new)? {
            Entered::There(line) => return Running::of(line).await,
            Entered::New(place) => place,
        };
        let line = Arc::clone(&place.line);
        let supervisor = self.supervisor.clone();
        let log_failed = move |reason| {
            let _ = supervisor.send_message(SupervisorMessage::Report(Report::LogFailed { reason }));
        };
        let arguments = SupervisorArguments {
            shared: Arc::clone(&self.shared),
            place,
            work: Arc::new(work),
            begin,
            log_failed: Box::new(log_failed),
        };
        let above = self.supervisor.get_cell();
        // Where that fails its place is given back, and the line says so.
        let _ = MachineSupervisor::<W>::spawn_linked(None, MachineSupervisor::new(), arguments, above).await;
        Running::of(line).await
    }

    /// The machines of one kind that are all that is asked for, newest last.
    pub async fn machines<F: Records>(&self, lookup: Lookup) -> Result<Vec<EntryOf<F>>, EngineError> {
        Ok(blocking(&self.shared.log, move |log| log.find_as::<F>(lookup)).await?)
    }

    /// How a machine stands, at work or not, as far as the log has it; `None` when the log knows none of this id. Of one that is
    /// over only the summary may be kept: that is an error of the log, and [`Engine::machines`] tells what is left.
    pub async fn machine_state<M: Durable>(
        &self,
        id: impl Into<StreamId>,
    ) -> Result<Option<M::State>, EngineError> {
        let id = id.into();
        if let Some(line) = self.shared.machines.find::<M>(id)
            && !line.is_starting()
        {
            return Ok(Some(line.durable()));
        }
        let state = blocking(&self.shared.log, move |log| read::state::<M>(log, id)).await?;
        Ok(state.transpose()?)
    }
}
