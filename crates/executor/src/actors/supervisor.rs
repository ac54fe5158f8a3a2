//! The supervisor, linked to all of the engine's actors. It starts actors, restarts failed actors as often as
//! [`restarts`](crate::restarts) allows, and keeps track of waiting callers. When it stops, all actors stop.
//!
//! | failed actor | consequence | consequence for its dependents |
//! | --- | --- | --- |
//! | an operation | continues from the log; after too many failures it is recorded as failed | – |
//! | the log's actor | restarts; after too many failures the engine stops all work | operations with events in flight continue from it |
//! | a cluster's actor | restarts | operations subscribe again; after too many failures they are recorded as failed |
//!
//! It never blocks on the log: results of reads arrive as messages.

mod admission;
mod compaction;
mod handover;
mod linked_actors;
mod recent_results;
mod recovery;
mod state;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, Lookup};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::actors::operation::{
    Inspection, OperationActor, OperationArguments, OperationMessage, Report, Start,
};
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::log::run_blocking;
use crate::offline::list_summaries;
use crate::summary::Summary;

use self::recent_results::RecentResults;
use self::state::{ActorRole, CONCURRENT_READS_MAX, Child, OperationMetadata, Reply, SupervisorState};
pub(crate) use self::state::{Submission, SupervisorMessage};

pub(crate) struct Supervisor;

/// Open operation of an application. An application has at most one.
enum OpenOperation {
    None,
    One(OperationId),
    /// Not known without reading the log.
    Unknown,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = Arc<EngineContext>;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        shared: Arc<EngineContext>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let clusters = shared.clusters.all();
        let mut state = SupervisorState {
            shared,
            running: HashMap::new(),
            actor_roles: HashMap::new(),
            restarts: BTreeMap::new(),
            write_permit: Arc::new(Semaphore::new(1)),
            tasks: JoinSet::new(),
            open: None,
            waiting_submissions: Vec::new(),
            queues: HashMap::new(),
            resuming: HashMap::new(),
            recent_results: RecentResults::default(),
            reads: Arc::new(Semaphore::new(CONCURRENT_READS_MAX)),
            handovers: Vec::new(),
            shard_changes: 0,
            is_stopping: false,
            shutdown_replies: Vec::new(),
        };
        state.start_log(&myself).await?;
        for (destination, _) in &clusters {
            state.start_cluster(&myself, destination).await?;
        }
        state.start_periodic_compaction();
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let Some(message) = state.defer(message) else { return Ok(()) };
        match message {
            SupervisorMessage::Submit(submit) => state.submit(&myself, submit).await,
            SupervisorMessage::OpenOperationsLoaded { shard_changes, open } => {
                state.receive_open_operations(&myself, shard_changes, open).await
            }
            SupervisorMessage::Resume { operation, reply } => state.resume(&myself, operation, reply, false),
            SupervisorMessage::OperationRead { operation, purpose, result } => {
                state.handle_read(&myself, operation, purpose, result).await;
            }
            SupervisorMessage::Wait { operation, reply } => state.add_waiter(operation, reply),
            SupervisorMessage::Request { operation, input, reply } => match state.actor(operation) {
                Ok(actor) => {
                    forward_query(operation, actor, reply, |reply| OperationMessage::Request { input, reply })
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Inspect { operation, reply } => match state.actor(operation) {
                Ok(actor) => {
                    forward_query(operation, actor, reply, |reply| OperationMessage::Inspect { reply })
                }
                Err(error) => drop(reply.send(state.find_result(operation, error))),
            },
            SupervisorMessage::RunningHooks { operation, reply } => match state.actor(operation) {
                Ok(actor) => {
                    forward_query(operation, actor, reply, |reply| OperationMessage::RunningHooks { reply })
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::AddCluster { destination, cluster, reply } => {
                drop(reply.send(state.add_cluster(&myself, destination, cluster).await));
            }
            SupervisorMessage::SetHealthRules { rules, reply } => {
                drop(reply.send(state.set_health_rules(rules)))
            }
            SupervisorMessage::ListRunning { reply } => {
                drop(reply.send(state.check_log().map(|()| state.running.keys().copied().collect())));
            }
            SupervisorMessage::Entries { reply } => drop(reply.send(Ok(state.entries()))),
            SupervisorMessage::Supersede { open, by } => state.supersede(open, by),
            SupervisorMessage::OpenOperationStuck { application, open } => {
                state.reject_queued(&application, open)
            }
            SupervisorMessage::StartNext { application } => state.start_next(&myself, &application),
            SupervisorMessage::Report(Report::Finished { operation, end }) => {
                state.handle_finished(&myself, operation, *end);
            }
            SupervisorMessage::StartLinkedActor(part) => state.start_linked_actor(&myself, part).await,
            SupervisorMessage::Report(Report::LogFailed { reason }) => state.handle_log_failure(&reason),
            SupervisorMessage::SetOwnedShards { owned, shard_of, reply } => {
                state.set_owned_shards(owned, shard_of, reply);
            }
            SupervisorMessage::Shutdown { reply } => state.shutdown(reply),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        for reply in state.running.drain().flat_map(|(_, child)| child.waiters) {
            let _ = reply.send(Err(EngineError::ShuttingDown));
        }
        state.reject_all_queued(|| EngineError::ShuttingDown);
        let submits = state.waiting_submissions.drain(..).map(|submit| submit.reply);
        for reply in submits.chain(state.resuming.drain().map(|(_, resuming)| resuming.reply)) {
            let _ = reply.send(Err(EngineError::ShuttingDown));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        while state.tasks.try_join_next().is_some() {}
        let (cell, error, ended) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error, false),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell, reason.unwrap_or_else(|| "the actor was stopped".to_owned()).into(), true)
            }
            _ => return Ok(()),
        };
        match state.actor_roles.remove(&cell.get_id()) {
            Some(ActorRole::Operation(operation)) if ended => state.handle_actor_end(operation),
            Some(ActorRole::Operation(operation)) => {
                state.handle_actor_failure(&myself, operation, error.as_ref())
            }
            Some(part) => state.handle_linked_actor_failure(&myself, part, &error.to_string()),
            None => {}
        }
        Ok(())
    }
}

/// Forwards a query to an operation. An operation that has just failed can't reply while it is restarting.
fn forward_query<T: Send + 'static>(
    operation: OperationId,
    actor: &ActorRef<OperationMessage>,
    reply: Reply<T>,
    message: impl FnOnce(Reply<T>) -> OperationMessage,
) {
    let (send, receive) = oneshot::channel();
    let sent = actor.send_message(message(send.into()));
    tokio::spawn(async move {
        let answer = match sent {
            Ok(()) => receive.await.unwrap_or(Err(EngineError::Restarted { operation })),
            Err(_) => Err(EngineError::Restarted { operation }),
        };
        let _ = reply.send(answer);
    });
}

impl SupervisorState {
    fn actor(&self, operation: OperationId) -> Result<&ActorRef<OperationMessage>, EngineError> {
        self.check_log()?;
        self.running.get(&operation).map(|child| &child.actor).ok_or(EngineError::NotRunning { operation })
    }

    fn check_log(&self) -> Result<(), EngineError> {
        match self.shared.log_failure.get() {
            Some(reason) => Err(EngineError::LogFailed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Returns an error if operations can't start.
    fn check_can_start(&self) -> Result<(), EngineError> {
        self.check_log()?;
        if self.is_stopping { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }

    /// Defers a message while its operation is being read. Otherwise, hands it back.
    fn defer(&mut self, message: SupervisorMessage) -> Option<SupervisorMessage> {
        let about = match &message {
            SupervisorMessage::Resume { operation, .. }
            | SupervisorMessage::Wait { operation, .. }
            | SupervisorMessage::Request { operation, .. }
            | SupervisorMessage::Inspect { operation, .. }
            | SupervisorMessage::RunningHooks { operation, .. } => self.resuming.get_mut(operation),
            _ => None,
        };
        match about {
            Some(resuming) => {
                resuming.deferred_messages.push(message);
                None
            }
            None => Some(message),
        }
    }

    async fn submit(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submission) {
        if let Err(error) = self.check_managed(&submit.request.application) {
            return drop(submit.reply.send(Err(error)));
        }
        match self.find_open_operation(&submit.request.application) {
            OpenOperation::None => self.start_operation(myself, submit).await,
            OpenOperation::One(open) => self.handle_open_operation(myself, submit, open),
            OpenOperation::Unknown => {
                self.waiting_submissions.push(submit);
                if self.waiting_submissions.len() == 1 {
                    self.load_open_operations(myself);
                }
            }
        }
    }

    /// Returns an application's open operation from memory. Reading the log for each submission would be too
    /// slow with thousands of operations. Only this engine starts operations of its applications, but other
    /// processes can record their end.
    fn find_open_operation(&self, application: &str) -> OpenOperation {
        match self.open.as_ref().map(|known| known.get(application)) {
            Some(None) => OpenOperation::None,
            Some(Some(operation)) if self.running.contains_key(operation) => OpenOperation::One(*operation),
            Some(Some(_)) | None => OpenOperation::Unknown,
        }
    }

    fn load_open_operations(&self, myself: &ActorRef<SupervisorMessage>) {
        let (shared, myself, shard_changes) = (self.shared.clone(), myself.clone(), self.shard_changes);
        tokio::spawn(async move {
            let open = run_blocking(&shared.log, |log| list_summaries(log, Lookup::open())).await;
            let _ = myself.send_message(SupervisorMessage::OpenOperationsLoaded { shard_changes, open });
        });
    }

    /// Starts or rejects the submissions that waited for the list of open operations.
    async fn receive_open_operations(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        shard_changes: u64,
        open: Result<Vec<Summary>, LogError>,
    ) {
        if shard_changes != self.shard_changes {
            return self.load_open_operations(myself);
        }
        let mut submits = std::mem::take(&mut self.waiting_submissions).into_iter();
        let open = match open {
            Ok(open) => open,
            Err(error) => {
                if let Some(Submission { reply, .. }) = submits.next() {
                    let _ = reply.send(Err(error.into()));
                }
                // The list can't be read. Resubmit the remaining operations; each triggers a new read.
                submits.for_each(|submit| drop(myself.send_message(SupervisorMessage::Submit(submit))));
                return;
            }
        };
        let open = open.into_iter().map(|summary| (summary.application, summary.operation));
        let mut known: HashMap<_, _> = open.collect();
        // An operation that just started may not be in the log yet.
        known.extend(self.running.iter().map(|(id, child)| (child.application.clone(), *id)));
        self.open = Some(known);
        for submit in submits {
            let known = self.open.as_ref().and_then(|known| known.get(&submit.request.application));
            match known.copied() {
                Some(open) => self.handle_open_operation(myself, submit, open),
                None => self.start_operation(myself, submit).await,
            }
        }
    }

    async fn start_operation(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submission) {
        let Submission { operation, request, targets, plan, submitted: handed_over, reply, .. } = submit;
        let application = request.application.clone();
        if reply.is_closed() {
            // The submitter has dropped its request and assumes that the operation hasn't started.
            return self.start_next(myself, &application);
        }
        let shard = match self.check_can_start().and_then(|()| self.check_managed(&application)) {
            Ok(shard) => shard,
            Err(error) => return drop(reply.send(Err(error))),
        };
        // The caller chose this ID, and may have submitted the same operation before.
        if let Some(message) = self.recent_results.final_message(operation).map(str::to_owned) {
            let _ = reply.send(Err(EngineError::AlreadyFinished { operation, message }));
            return self.start_next(myself, &application);
        }
        let about = OperationMetadata::new(&request, shard);
        let start = Start::New { request, targets, plan, submitted: handed_over };
        let begun = self.spawn_operation(myself, operation, about, start).await;
        match (&begun, &mut self.open) {
            (Ok(()), Some(open)) => drop(open.insert(application, operation)),
            (Ok(()), None) => {}
            (Err(_), _) => self.start_next(myself, &application),
        }
        let _ = reply.send(begun);
    }

    async fn spawn_operation(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        about: OperationMetadata,
        start: Start,
    ) -> Result<(), EngineError> {
        let arguments = OperationArguments {
            shared: Arc::clone(&self.shared),
            report: {
                let myself = myself.clone();
                Arc::new(move |report| drop(myself.send_message(SupervisorMessage::Report(report))))
            },
            operation,
            shard: about.shard,
            claim_held: Arc::clone(&about.claim_held),
            start,
        };
        let (actor, _) = OperationActor::spawn_linked(None, OperationActor, arguments, myself.get_cell())
            .await
            .map_err(|error| EngineError::StartFailed { operation, reason: error.to_string() })?;
        self.actor_roles.insert(actor.get_id(), ActorRole::Operation(operation));
        let waiters = self.running.remove(&operation).map(|child| child.waiters).unwrap_or_default();
        let OperationMetadata { application, shard, destination, restarts, claim_held } = about;
        let child =
            Child { actor, application, shard, destination, restarts, claim_held, is_down: false, waiters };
        self.running.insert(operation, child);
        Ok(())
    }

    fn add_waiter(&mut self, operation: OperationId, reply: Reply<OperationView>) {
        match (self.check_log(), self.running.get_mut(&operation)) {
            (Err(error), _) => drop(reply.send(Err(error))),
            (Ok(()), Some(child)) => child.waiters.push(reply),
            (Ok(()), None) => {
                let end = self.find_result(operation, EngineError::NotRunning { operation });
                drop(reply.send(end.map(|end| end.view)));
            }
        }
    }

    /// Returns the result of an operation without an actor. Passes through any error other than
    /// [`EngineError::NotRunning`].
    fn find_result(&self, operation: OperationId, error: EngineError) -> Result<Inspection, EngineError> {
        match error {
            EngineError::NotRunning { .. } => {
                self.recent_results.get_as_of(operation, self.shared.clock.now()).ok_or(error)
            }
            error => Err(error),
        }
    }

    /// Returns the number of in-memory entries about operations: actors, submissions, recent results,
    /// listeners and slots in concurrency groups.
    fn entries(&self) -> usize {
        let counts = [
            self.running.len(),
            self.actor_roles.len(),
            self.restarts.len(),
            self.open.as_ref().map_or(0, HashMap::len),
            self.waiting_submissions.len(),
            self.queues.values().map(VecDeque::len).sum(),
            self.queues.len(),
            self.resuming.len(),
            self.recent_results.len(),
            self.shared.broadcaster.entries(),
            self.shared.groups.entries(),
        ];
        counts.into_iter().sum()
    }

    fn handle_finished(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        end: Inspection,
    ) {
        if let Some(child) = self.running.remove(&operation) {
            self.actor_roles.remove(&child.actor.get_id());
            child.actor.stop(None);
            if let Some(open) = &mut self.open {
                open.remove(&child.application);
            }
            for reply in child.waiters {
                let _ = reply.send(Ok(end.view.clone()));
            }
            self.recent_results.insert(operation, end);
            self.start_next(myself, &child.application);
        }
        self.finish_handovers();
        self.finish_shutdown_if_empty();
    }

    /// Handles an actor that was asked to stop and exited without a report.
    fn handle_actor_end(&mut self, operation: OperationId) {
        let child = self.running.get(&operation).filter(|_| self.is_handed_over(operation));
        let handed_over = child.map(|child| child.application.clone());
        self.abandon_operation(operation, || match &handed_over {
            Some(application) => EngineError::HandedOver { application: application.clone() },
            None => EngineError::ShuttingDown,
        });
    }

    /// Handles an open operation that lost its actor.
    fn abandon_operation(&mut self, operation: OperationId, error: impl Fn() -> EngineError) {
        if let Some(child) = self.running.remove(&operation) {
            for reply in child.waiters {
                let _ = reply.send(Err(error()));
            }
            self.reject_queued(&child.application, operation);
        }
        self.finish_handovers();
        self.finish_shutdown_if_empty();
    }

    fn fail_all(&mut self, reason: &str) {
        tracing::error!(reason, "the operation log failed; all work is stopped until the log is reopened");
        // Keep queued calls from reaching the clusters, because their results can't be recorded.
        self.actor_roles.clear();
        self.reject_all_queued(|| EngineError::LogFailed { reason: reason.to_owned() });
        self.shared.log_actor.set_actor(None);
        self.shared.machines.log_failed(reason);
        self.shared.clusters.all().iter().for_each(|(_, cluster)| cluster.stop());
        for (_, child) in self.running.drain() {
            child.actor.stop(None);
            for reply in child.waiters {
                let _ = reply.send(Err(EngineError::LogFailed { reason: reason.to_owned() }));
            }
        }
        for handover in self.handovers.drain(..) {
            let _ = handover.reply.send(Err(EngineError::LogFailed { reason: reason.to_owned() }));
        }
        self.finish_shutdown_if_empty();
    }

    fn shutdown(&mut self, reply: Reply<()>) {
        self.is_stopping = true;
        self.reject_all_queued(|| EngineError::ShuttingDown);
        // An operation with a failed actor needn't be stopped. It can be resumed from the log.
        let down: Vec<_> =
            self.running.iter().filter(|(_, child)| child.is_down).map(|(id, _)| *id).collect();
        down.into_iter()
            .for_each(|operation| self.abandon_operation(operation, || EngineError::ShuttingDown));
        for child in self.running.values() {
            let _ = child.actor.send_message(OperationMessage::Shutdown);
        }
        self.shutdown_replies.push(reply);
        self.finish_shutdown_if_empty();
    }

    /// Notifies all callers waiting for the shutdown.
    fn answer_waiters(&mut self) {
        self.shutdown_replies.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
    }

    fn finish_shutdown_if_empty(&mut self) {
        if self.running.is_empty() && self.resuming.is_empty() {
            self.answer_waiters();
        }
    }
}
