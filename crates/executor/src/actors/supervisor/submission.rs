//! Submission of new operations. An application has at most one open operation.

use std::collections::HashMap;

use ractor::ActorRef;
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, Lookup};

use super::state::{OperationMetadata, Submission, SupervisorMessage, SupervisorState};
use crate::actors::operation::Start;
use crate::error::EngineError;
use crate::log::run_blocking;
use crate::offline::list_summaries;
use crate::summary::Summary;

/// An application's open operation.
enum OpenOperation {
    None,
    One(OperationId),
    /// Not known without reading the log.
    Unknown,
}

impl SupervisorState {
    pub(super) async fn submit(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submission) {
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
    /// slow with thousands of operations. Only this engine starts operations in its log, but other processes
    /// can record their end.
    fn find_open_operation(&self, application: &str) -> OpenOperation {
        match self.open.as_ref().map(|known| known.get(application)) {
            Some(None) => OpenOperation::None,
            Some(Some(operation)) if self.running.contains_key(operation) => OpenOperation::One(*operation),
            Some(Some(_)) | None => OpenOperation::Unknown,
        }
    }

    fn load_open_operations(&self, myself: &ActorRef<SupervisorMessage>) {
        let (shared, myself) = (self.shared.clone(), myself.clone());
        tokio::spawn(async move {
            let open = run_blocking(&shared.log, |log| list_summaries(log, Lookup::open())).await;
            let _ = myself.send_message(SupervisorMessage::OpenOperationsLoaded(open));
        });
    }

    /// Starts or rejects the submissions that waited for the list of open operations.
    pub(super) async fn receive_open_operations(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        open: Result<Vec<Summary>, LogError>,
    ) {
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

    pub(super) async fn start_operation(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submission) {
        let Submission { operation, request, targets, plan, submitted: handed_over, reply, .. } = submit;
        let application = request.application.clone();
        if reply.is_closed() {
            // The submitter has dropped its request and assumes that the operation hasn't started.
            return self.start_next(myself, &application);
        }
        if let Err(error) = self.check_can_start() {
            return drop(reply.send(Err(error)));
        }
        // The caller chose this ID, and may have submitted the same operation before.
        if let Some(message) = self.recent_results.final_message(operation).map(str::to_owned) {
            let _ = reply.send(Err(EngineError::AlreadyFinished { operation, message }));
            return self.start_next(myself, &application);
        }
        let about = OperationMetadata::new(&request);
        let start = Start::New { request, targets, plan, submitted: handed_over };
        let begun = self.spawn_operation(myself, operation, about, start).await;
        match (&begun, &mut self.open) {
            (Ok(()), Some(open)) => drop(open.insert(application, operation)),
            (Ok(()), None) => {}
            (Err(_), _) => self.start_next(myself, &application),
        }
        let _ = reply.send(begun);
    }
}
