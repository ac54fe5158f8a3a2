//! What becomes of a new operation whose application has one that is not over: it is refused, waits, or has the other one
//! ended first.
//!
//! Who waits is asked for by somebody who waits for the answer: a queued operation is in no log, and nobody was told that
//! it has begun. Whoever lets go of the question takes the operation out of the queue.

use std::collections::VecDeque;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_lifecycle::operation::{ClaimNews, Input};
use tidegate_model::{ClaimHolder, IfTaken, OperationId, Wisher};
use tokio::sync::oneshot;

use super::state::{Submit, SupervisorMessage, SupervisorState};
use crate::actors::operation::{OperationMessage, Report};
use crate::error::EngineError;
use crate::log::{NotKept, keep};

/// So many operations of one application may wait for their turn.
const QUEUED_MAX: usize = 16;

impl SupervisorState {
    /// The application has an operation that is not over.
    pub(super) fn occupied(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        submit: Submit,
        open: OperationId,
    ) {
        let application = submit.request.application.clone();
        let queued = self.queues.get(&application).map_or(0, VecDeque::len);
        if submit.if_open == IfTaken::Refuse || submit.operation == open || queued >= QUEUED_MAX {
            return refuse(submit, open);
        }
        // The places for manifests in memory are for those that begin.
        let submit = Submit { handed_over: None, ..submit };
        let supersedes = (submit.if_open == IfTaken::Supersede).then(|| ClaimHolder {
            operation: submit.operation.to_string(),
            who: Wisher::read(&submit.request.initiated_by).by.to_owned(),
            revision: submit.request.revision.clone(),
            since: None,
        });
        let queue = self.queues.entry(application.clone()).or_default();
        match supersedes {
            Some(_) => queue.push_front(submit),
            None => queue.push_back(submit),
        }
        // One that lies in the log is gone on with, or it would never be over.
        let (reply, resumed) = oneshot::channel();
        self.resume(myself, open, reply.into(), true);
        let myself = myself.clone();
        self.tasks.spawn(async move {
            match resumed.await.unwrap_or(Err(EngineError::Stopped)) {
                Ok(()) => {
                    if let Some(by) = supersedes {
                        drop(myself.send_message(SupervisorMessage::Supersede { open, by }));
                    }
                }
                // It has ended in between.
                Err(EngineError::AlreadyFinished { .. }) => {
                    drop(myself.send_message(SupervisorMessage::BeginNext { application }));
                }
                Err(error) => {
                    tracing::warn!(operation = %open, application, %error, "an open operation cannot go on");
                    let _ = myself.send_message(SupervisorMessage::Stuck { application, open });
                }
            }
        });
    }

    /// Has an operation end for another one.
    pub(super) fn supersede(&self, open: OperationId, by: ClaimHolder) {
        if let Some(child) = self.running.get(&open) {
            let wish = Input::Claim(Ok(ClaimNews::EndWanted { by }));
            let _ = child.actor.send_message(OperationMessage::Tell(wish));
        }
    }

    /// Begins the next operation of an application that has none now.
    pub(super) fn begin_next(&mut self, myself: &ActorRef<SupervisorMessage>, application: &str) {
        while let Some(queue) = self.queues.get_mut(application) {
            let next = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(application);
            }
            let Some(next) = next.filter(|next| !next.reply.is_closed()) else { continue };
            let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
            self.tasks.spawn(async move {
                // Nothing in the log names its manifests, so a compaction may have removed them meanwhile.
                match keep(&shared.log, &shared.log_failure, &next.manifests).await {
                    Ok(targets) => {
                        let submit = Submit { targets, ..next };
                        drop(myself.send_message(SupervisorMessage::Submit(submit)));
                    }
                    Err(NotKept::Final(reason)) => {
                        let report = Report::LogFailed { reason: reason.clone() };
                        let _ = next.reply.send(Err(EngineError::LogFailed { reason }));
                        drop(myself.send_message(SupervisorMessage::Report(report)));
                    }
                    Err(refused) => {
                        let application = next.request.application.clone();
                        let _ = next.reply.send(Err(refused.into()));
                        drop(myself.send_message(SupervisorMessage::BeginNext { application }));
                    }
                }
            });
            return;
        }
    }

    /// Nobody works on the open operation, so those that wait would wait for ever.
    pub(super) fn stuck(&mut self, application: &str, open: OperationId) {
        // It may be over by now, or its end come to nothing.
        self.open = None;
        for submit in self.queues.remove(application).into_iter().flatten() {
            refuse(submit, open);
        }
    }

    /// Nothing begins any more.
    pub(super) fn clear_queues(&mut self, error: impl Fn() -> EngineError) {
        for submit in std::mem::take(&mut self.queues).into_values().flatten() {
            let _ = submit.reply.send(Err(error()));
        }
    }
}

pub(super) fn refuse(submit: Submit, open: OperationId) {
    let application = submit.request.application;
    let _ = submit.reply.send(Err(EngineError::Busy { application, open }));
}
