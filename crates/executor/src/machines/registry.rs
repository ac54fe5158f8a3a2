//! Registry of an engine's running machines of all kinds.

use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_lifecycle::Machine;
use tidegate_model::StreamId;

use super::error::MachineError;
use super::machine_handle::{EndReason, ExecutionStatus, MachineHandle, machine_name};
use super::message::SupervisorMessage;

/// Maximum time that a graceful stop waits for commands in flight. Commands without a recorded result by then
/// are executed again when the machine resumes.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Functions of every machine, independent of its types.
trait AnyMachine: Send + Sync {
    fn stop(&self);
    fn log_failed(&self, reason: &str);
    fn wait_until_ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<M: Machine> AnyMachine for MachineHandle<M> {
    fn stop(&self) {
        self.send(SupervisorMessage::Stop);
    }

    fn log_failed(&self, reason: &str) {
        self.send(SupervisorMessage::LogFailed(reason.to_owned()));
    }

    fn wait_until_ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { drop(MachineHandle::wait_until_ended(self).await) })
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[derive(Default)]
struct RegistryState {
    /// True if the engine is shutting down.
    is_closed: bool,
    machines: BTreeMap<StreamId, Arc<dyn AnyMachine>>,
}

/// Running machines by ID. Only one machine can run under each ID.
#[derive(Default)]
pub(crate) struct MachineRegistry(Mutex<RegistryState>);

/// Result of a registration: the running machine, or an entry for a new machine.
pub(super) enum Registration<M: Machine> {
    Existing(Arc<MachineHandle<M>>),
    New(RegistryEntry<M>),
}

impl MachineRegistry {
    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        // Each change is a single operation, so a panic can't leave a partial change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if no more machines may start.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Returns the running machine with this ID.
    pub(super) fn find<M: Machine>(&self, id: StreamId) -> Option<Arc<MachineHandle<M>>> {
        let machine = Arc::clone(self.lock().machines.get(&id)?);
        machine.into_any().downcast().ok()
    }

    /// Returns the machine with this ID, or an entry for a new machine.
    pub(super) fn register<M: Machine>(
        self: &Arc<Self>,
        id: StreamId,
        new: impl FnOnce() -> MachineHandle<M>,
    ) -> Result<Registration<M>, MachineError> {
        let mut known = self.lock();
        if known.is_closed {
            return Err(MachineError::ShuttingDown { machine: machine_name::<M>(id) });
        }
        if let Some(machine) = known.machines.get(&id) {
            let machine = Arc::clone(machine).into_any().downcast();
            return machine
                .map(Registration::Existing)
                .map_err(|_| MachineError::IdInUse { id, wanted: M::KIND });
        }
        let handle = Arc::new(new());
        known.machines.insert(id, Arc::clone(&handle) as Arc<dyn AnyMachine>);
        Ok(Registration::New(RegistryEntry { registry: Arc::clone(self), handle }))
    }

    fn all(&self) -> Vec<Arc<dyn AnyMachine>> {
        self.lock().machines.values().map(Arc::clone).collect()
    }

    /// Stops these machines gracefully. Ignores machines that aren't running. Returns false if a machine doesn't stop in
    /// time.
    pub async fn stop(&self, ids: impl IntoIterator<Item = StreamId>) -> bool {
        let machines: Vec<_> = {
            let known = self.lock();
            ids.into_iter().filter_map(|id| known.machines.get(&id).map(Arc::clone)).collect()
        };
        stop_all(&machines).await
    }

    /// Stops all machines gracefully and prevents new machines from starting.
    pub async fn shut_down(&self) {
        self.lock().is_closed = true;
        stop_all(&self.all()).await;
    }

    /// Informs all machines that the log rejects all records.
    pub fn log_failed(&self, reason: &str) {
        self.all().iter().for_each(|machine| machine.log_failed(reason));
    }
}

/// Stops machines. Returns false if one of them doesn't stop in time.
async fn stop_all(machines: &[Arc<dyn AnyMachine>]) -> bool {
    machines.iter().for_each(|machine| machine.stop());
    let ended = async {
        for machine in machines {
            machine.wait_until_ended().await;
        }
    };
    // Each machine enforces its own time limit. This one covers machines with work that never returns.
    let is_stopped = tokio::time::timeout(STOP_TIMEOUT * 2, ended).await.is_ok();
    if !is_stopped {
        tracing::warn!("a machine did not stop in time; it will continue when an engine resumes it");
    }
    is_stopped
}

/// Registry entry of a running machine, removed when the machine ends for whatever reason.
pub(super) struct RegistryEntry<M: Machine> {
    registry: Arc<MachineRegistry>,
    pub handle: Arc<MachineHandle<M>>,
}

impl<M: Machine> RegistryEntry<M> {
    /// Ends the machine in this engine. The next caller that requests it starts it again.
    pub fn end(&self, end: EndReason) {
        if !self.handle.has_ended() {
            self.registry.lock().machines.remove(&self.handle.id);
            self.handle.set_status(ExecutionStatus::Ended(end));
        }
    }
}

impl<M: Machine> Drop for RegistryEntry<M> {
    fn drop(&mut self) {
        // The supervisor was stopped from outside: the engine has stopped, or the supervisor has failed.
        self.end(EndReason::Failed(MachineError::Stopped { machine: self.handle.name() }));
    }
}
