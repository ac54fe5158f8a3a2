//! The hands of one machine: its commands go to its [`Work`], its facts to the engine's log.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorProcessingErr;
use tidegate_lifecycle::{BatchOf, Hands, Machine};
use tidegate_model::Timestamp;
use tidegate_oplog::AppendOf;
use tokio::sync::{oneshot, watch};

use super::error::MachineError;
use super::line::Line;
use super::post::{Note, Post};
use super::work::{SummaryOf, Work};
use crate::alarm::Alarm;
use crate::inbox::Inbox;
use crate::shared::Shared;

pub(super) struct MachineHands<W: Work> {
    shared: Arc<Shared>,
    line: Arc<Line<W::Machine>>,
    inbox: Inbox<W::Machine, Note>,
    post: Post<W::Machine>,
    work: W,
    alarm: Alarm,
    /// How it stands once the batch on its way is durable.
    on_its_way: Option<<W::Machine as Machine>::State>,
    /// Dropped with the actor.
    _alive: watch::Sender<()>,
}

impl<W: Work> MachineHands<W> {
    pub fn new(
        shared: Arc<Shared>,
        line: Arc<Line<W::Machine>>,
        inbox: Inbox<W::Machine, Note>,
        work: W,
    ) -> Self {
        let (alive, is_alive) = watch::channel(());
        let post = Post::new(inbox.clone(), is_alive);
        Self { shared, line, inbox, post, work, alarm: Alarm::default(), on_its_way: None, _alive: alive }
    }

    /// This is how it stands, as far as the log has it. Whoever is told of that and asks at once is to find it so: nobody may
    /// tell him once more.
    pub fn show(&mut self, durable: <W::Machine as Machine>::State) {
        self.line.keep(durable.clone());
        self.work.announce(&durable);
    }
}

impl<W: Work> Hands<W::Machine> for MachineHands<W> {
    type Note = Note;
    type Reply = oneshot::Sender<Result<(), MachineError>>;
    type Summary = SummaryOf<W::Machine>;
    type Failure = ActorProcessingErr;

    fn summary(state: &<W::Machine as Machine>::State) -> Option<SummaryOf<W::Machine>> {
        W::summary(state)
    }

    fn carry_out(
        &mut self,
        state: &<W::Machine as Machine>::State,
        command: <W::Machine as Machine>::Command,
        now: Timestamp,
    ) {
        self.work.carry_out(state, command, now, self.post.clone());
    }

    fn begin(
        &mut self,
        state: &<W::Machine as Machine>::State,
        standing: &<W::Machine as Machine>::Command,
        now: Timestamp,
    ) {
        self.work.begin(state, standing, now, self.post.clone());
    }

    fn end(&mut self, state: &<W::Machine as Machine>::State, standing: &<W::Machine as Machine>::Command) {
        self.work.end(state, standing);
    }

    fn append(
        &mut self,
        state: &<W::Machine as Machine>::State,
        batch: BatchOf<W::Machine>,
        _: Timestamp,
    ) -> Result<(), ActorProcessingErr> {
        let summary = W::summary(state).ok_or("a machine that has not begun cannot be written")?;
        let facts = AppendOf::new(self.line.id, batch.first_sequence, batch.facts, summary);
        let append = AppendOf { snapshot: batch.snapshot, ..facts };
        // By the time it is durable the state may hold more.
        self.on_its_way = Some(state.clone());
        let inbox = self.inbox.clone();
        let tell = Box::new(move |result| inbox.written(result));
        self.shared.log_actor.append(Box::new(|| append.encode()), tell);
        Ok(())
    }

    fn announce(&mut self, _: &<W::Machine as Machine>::State) {
        if let Some(durable) = self.on_its_way.take() {
            self.show(durable);
        }
    }

    fn set_alarm(&mut self, after: Option<Duration>) {
        self.alarm.set(after, &self.inbox);
    }

    fn reply(&mut self, reply: Self::Reply, answer: Result<(), <W::Machine as Machine>::Rejection>) {
        let refused = |rejection: <W::Machine as Machine>::Rejection| MachineError::Refused {
            machine: self.line.name(),
            reason: rejection.to_string(),
        };
        let _ = reply.send(answer.map_err(refused));
    }
}
