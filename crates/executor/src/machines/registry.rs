//! The machines of one engine that are at work, whatever they are.

use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_lifecycle::Machine;
use tidegate_model::StreamId;

use super::error::MachineError;
use super::line::{End, Line, Stand, name};
use super::message::SupervisorMessage;

/// How long an orderly stop waits for answers on their way. What is not recorded by then is asked for again by whoever goes on.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What can be done with every machine.
trait AtWork: Send + Sync {
    fn stop(&self);
    fn log_failed(&self, reason: &str);
    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<M: Machine> AtWork for Line<M> {
    fn stop(&self) {
        self.send(SupervisorMessage::Stop);
    }

    fn log_failed(&self, reason: &str) {
        self.send(SupervisorMessage::LogFailed(reason.to_owned()));
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { drop(Line::ended(self).await) })
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[derive(Default)]
struct Known {
    /// The engine is going down.
    is_closed: bool,
    lines: BTreeMap<StreamId, Arc<dyn AtWork>>,
}

/// The machines at work, by their ids. There is one of each id at a time.
#[derive(Default)]
pub(crate) struct Machines(Mutex<Known>);

/// Whoever asks for a machine finds it, or has a place for it.
pub(super) enum Entered<M: Machine> {
    There(Arc<Line<M>>),
    New(Place<M>),
}

impl Machines {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each change is a single one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing more may begin.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// The machine of this id, if one is at work.
    pub(super) fn find<M: Machine>(&self, id: StreamId) -> Option<Arc<Line<M>>> {
        let line = Arc::clone(self.lock().lines.get(&id)?);
        line.into_any().downcast().ok()
    }

    /// The machine of this id, or a place for it.
    pub(super) fn enter<M: Machine>(
        self: &Arc<Self>,
        id: StreamId,
        new: impl FnOnce() -> Line<M>,
    ) -> Result<Entered<M>, MachineError> {
        let mut known = self.lock();
        if known.is_closed {
            return Err(MachineError::ShuttingDown { machine: name::<M>(id) });
        }
        if let Some(line) = known.lines.get(&id) {
            let line = Arc::clone(line).into_any().downcast();
            return line.map(Entered::There).map_err(|_| MachineError::OtherMachine { id, wanted: M::KIND });
        }
        let line = Arc::new(new());
        known.lines.insert(id, Arc::clone(&line) as Arc<dyn AtWork>);
        Ok(Entered::New(Place { machines: Arc::clone(self), line }))
    }

    fn all(&self) -> Vec<Arc<dyn AtWork>> {
        self.lock().lines.values().map(Arc::clone).collect()
    }

    /// Stops all of them in order, and lets none begin.
    pub async fn shut_down(&self) {
        self.lock().is_closed = true;
        let all = self.all();
        all.iter().for_each(|line| line.stop());
        let ended = async {
            for line in &all {
                line.ended().await;
            }
        };
        // Each sees to that itself, unless its work never comes back.
        if tokio::time::timeout(STOP_WITHIN * 2, ended).await.is_err() {
            tracing::warn!("a machine did not stop in time; it is gone on with by the next engine");
        }
    }

    /// The log takes nothing any more.
    pub fn log_failed(&self, reason: &str) {
        self.all().iter().for_each(|line| line.log_failed(reason));
    }
}

/// The place of one machine among those at work. It is given back when the machine has ended, however that came about.
pub(super) struct Place<M: Machine> {
    machines: Arc<Machines>,
    pub line: Arc<Line<M>>,
}

impl<M: Machine> Place<M> {
    /// Nobody carries it out any more; whoever asks for it from now on begins anew.
    pub fn end(&self, end: End) {
        if !self.line.has_ended() {
            self.machines.lock().lines.remove(&self.line.id);
            self.line.set_stand(Stand::Ended(end));
        }
    }
}

impl<M: Machine> Drop for Place<M> {
    fn drop(&mut self) {
        // Its supervisor was ended from outside: the engine is gone, or a fault was met there.
        self.end(End::Failed(MachineError::Stopped { machine: self.line.name() }));
    }
}
