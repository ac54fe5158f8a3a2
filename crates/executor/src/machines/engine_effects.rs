//! Effects of one machine. Commands go to its [`MachineEffects`], and events to the engine's log.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorProcessingErr;
use tidegate_lifecycle::{Effects, Machine, MachineBatch};
use tidegate_model::Timestamp;
use tidegate_oplog::AppendOf;
use tokio::sync::{oneshot, watch};

use super::error::MachineError;
use super::machine_effects::{MachineEffects, SummaryOf};
use super::machine_handle::MachineHandle;
use super::machine_sender::{ActorMessage, MachineSender};
use crate::alarm::Alarm;
use crate::engine_context::EngineContext;
use crate::inbox::Inbox;

pub(super) struct EngineEffects<W: MachineEffects> {
    shared: Arc<EngineContext>,
    handle: Arc<MachineHandle<W::Machine>>,
    inbox: Inbox<W::Machine, ActorMessage>,
    sender: MachineSender<W::Machine>,
    effects: W,
    alarm: Alarm,
    /// State that becomes durable with the batch in flight.
    pending_state: Option<<W::Machine as Machine>::State>,
    /// Dropped together with the actor, to stop its background work.
    _alive: watch::Sender<()>,
}

impl<W: MachineEffects> EngineEffects<W> {
    pub fn new(
        shared: Arc<EngineContext>,
        handle: Arc<MachineHandle<W::Machine>>,
        inbox: Inbox<W::Machine, ActorMessage>,
        effects: W,
    ) -> Self {
        let (alive, is_alive) = watch::channel(());
        let sender = MachineSender::new(inbox.clone(), is_alive);
        Self {
            shared,
            handle,
            inbox,
            sender,
            effects,
            alarm: Alarm::default(),
            pending_state: None,
            _alive: alive,
        }
    }

    /// Publishes a durable state. Stores it before notifying the effects, so that a caller that then queries
    /// the state gets it: there may never be another notification.
    pub fn publish(&mut self, durable: <W::Machine as Machine>::State) {
        self.handle.set_durable_state(durable.clone());
        self.effects.publish_state(&durable);
    }
}

impl<W: MachineEffects> Effects<W::Machine> for EngineEffects<W> {
    type Message = ActorMessage;
    type Reply = oneshot::Sender<Result<(), MachineError>>;
    type Summary = SummaryOf<W::Machine>;
    type AppendError = ActorProcessingErr;

    fn summary(state: &<W::Machine as Machine>::State) -> Option<SummaryOf<W::Machine>> {
        W::summary(state)
    }

    fn execute(
        &mut self,
        state: &<W::Machine as Machine>::State,
        command: <W::Machine as Machine>::Command,
        now: Timestamp,
    ) {
        self.effects.execute(state, command, now, self.sender.clone());
    }

    fn start_subscription(
        &mut self,
        state: &<W::Machine as Machine>::State,
        command: &<W::Machine as Machine>::Command,
        now: Timestamp,
    ) {
        self.effects.start_subscription(state, command, now, self.sender.clone());
    }

    fn end_subscription(
        &mut self,
        state: &<W::Machine as Machine>::State,
        command: &<W::Machine as Machine>::Command,
    ) {
        self.effects.end_subscription(state, command);
    }

    fn append(
        &mut self,
        state: &<W::Machine as Machine>::State,
        batch: MachineBatch<W::Machine>,
        _: Timestamp,
    ) -> Result<(), ActorProcessingErr> {
        let summary = W::summary(state).ok_or("cannot record a machine that has not started")?;
        let events = AppendOf::new(self.handle.id, batch.first_sequence, batch.events, summary);
        let append = AppendOf { snapshot: batch.snapshot, ..events };
        // Keep a copy: by the time the state is durable, the current state may include later events.
        self.pending_state = Some(state.clone());
        let inbox = self.inbox.clone();
        let tell = Box::new(move |result| inbox.push_write_result(result));
        self.shared.log_actor.append(Box::new(|| append.encode()), tell);
        Ok(())
    }

    fn announce(&mut self, _: &<W::Machine as Machine>::State) {
        if let Some(durable) = self.pending_state.take() {
            self.publish(durable);
        }
    }

    fn set_alarm(&mut self, after: Option<Duration>) {
        self.alarm.set(after, &self.inbox);
    }

    fn reply(&mut self, reply: Self::Reply, answer: Result<(), <W::Machine as Machine>::Rejection>) {
        let refused = |rejection: <W::Machine as Machine>::Rejection| MachineError::Rejected {
            machine: self.handle.name(),
            reason: rejection.to_string(),
        };
        let _ = reply.send(answer.map_err(refused));
    }
}
