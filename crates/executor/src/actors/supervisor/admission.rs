//! Admission of a new operation while its application has an open one. The new operation is rejected, is
//! queued, or supersedes the open operation.
//!
//! A queued operation exists only while its submitter waits for the response. It isn't in the log, its start
//! hasn't been announced to any caller, and it leaves the queue if the submitter drops its request.

use std::collections::VecDeque;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_lifecycle::operation::{ClaimEvent, Input};
use tidegate_model::{ClaimConflictPolicy, ClaimHolder, OperationId, Requester};
use tokio::sync::oneshot;

use super::state::{Submission, SupervisorMessage, SupervisorState};
use crate::actors::operation::{OperationMessage, Report};
use crate::error::EngineError;
use crate::log::{StoreError, store_json};

/// Maximum number of queued operations per application.
const QUEUED_MAX: usize = 16;

impl SupervisorState {
    /// Handles a submission for an application that has an open operation.
    pub(super) fn handle_open_operation(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        submit: Submission,
        open: OperationId,
    ) {
        let application = submit.request.application.clone();
        let queued = self.queues.get(&application).map_or(0, VecDeque::len);
        if submit.if_open == ClaimConflictPolicy::Refuse || submit.operation == open || queued >= QUEUED_MAX {
            return reject_submission(submit, open);
        }
        // Only a started operation may keep its manifests in memory.
        let submit = Submission { submitted: None, ..submit };
        let supersedes = (submit.if_open == ClaimConflictPolicy::Supersede).then(|| ClaimHolder {
            operation: submit.operation.to_string(),
            who: Requester::parse(&submit.request.initiated_by).name.to_owned(),
            revision: submit.request.revision.clone(),
            since: None,
        });
        let queue = self.queues.entry(application.clone()).or_default();
        match supersedes {
            Some(_) => queue.push_front(submit),
            None => queue.push_back(submit),
        }
        // If the open operation has no actor, resume it: otherwise, it would never finish.
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
                // The open operation has finished in the meantime.
                Err(EngineError::AlreadyFinished { .. }) => {
                    drop(myself.send_message(SupervisorMessage::StartNext { application }));
                }
                Err(error) => {
                    tracing::warn!(operation = %open, application, %error, "failed to continue the operation");
                    let _ = myself.send_message(SupervisorMessage::OpenOperationStuck { application, open });
                }
            }
        });
    }

    /// Asks an open operation to end in favor of another.
    pub(super) fn supersede(&self, open: OperationId, by: ClaimHolder) {
        if let Some(child) = self.running.get(&open) {
            let request = Input::Claim(Ok(ClaimEvent::EndWanted { by }));
            let _ = child.actor.send_message(OperationMessage::Input(request));
        }
    }

    /// Starts an application's next queued operation after the open operation has finished.
    pub(super) fn start_next(&mut self, myself: &ActorRef<SupervisorMessage>, application: &str) {
        while let Some(queue) = self.queues.get_mut(application) {
            let next = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(application);
            }
            let Some(next) = next.filter(|next| !next.reply.is_closed()) else { continue };
            let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
            self.tasks.spawn(async move {
                // The log doesn't reference the operation's manifests yet, so a compaction may have removed
                // them.
                match store_json(&shared.log, &shared.log_failure, &next.manifests).await {
                    Ok(targets) => {
                        let submit = Submission { targets, ..next };
                        drop(myself.send_message(SupervisorMessage::Submit(submit)));
                    }
                    Err(StoreError::Final(reason)) => {
                        let report = Report::LogFailed { reason: reason.clone() };
                        let _ = next.reply.send(Err(EngineError::LogFailed { reason }));
                        drop(myself.send_message(SupervisorMessage::Report(report)));
                    }
                    Err(refused) => {
                        let application = next.request.application.clone();
                        let _ = next.reply.send(Err(refused.into()));
                        drop(myself.send_message(SupervisorMessage::StartNext { application }));
                    }
                }
            });
            return;
        }
    }

    /// Rejects queued operations that would wait forever because the open operation has no actor.
    pub(super) fn reject_queued(&mut self, application: &str, open: OperationId) {
        // Reread the open operations. The open operation may have finished by now, or the message about its
        // end may have been discarded.
        self.open = None;
        for submit in self.queues.remove(application).into_iter().flatten() {
            reject_submission(submit, open);
        }
    }

    pub(super) fn reject_all_queued(&mut self, error: impl Fn() -> EngineError) {
        for submit in std::mem::take(&mut self.queues).into_values().flatten() {
            let _ = submit.reply.send(Err(error()));
        }
    }
}

pub(super) fn reject_submission(submit: Submission, open: OperationId) {
    let application = submit.request.application;
    let _ = submit.reply.send(Err(EngineError::Busy { application, open }));
}
