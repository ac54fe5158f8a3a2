//! New operations: an application has at most one that is not over.

use std::collections::HashMap;

use ractor::ActorRef;
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, Lookup};

use super::state::{About, Submit, SupervisorMessage, SupervisorState};
use crate::actors::operation::Start;
use crate::error::EngineError;
use crate::log::blocking;
use crate::offline::operations;
use crate::summary::Summary;

/// Which operation of an application is not over.
enum Open {
    None,
    One(OperationId),
    /// Only the log knows.
    Unsure,
}

impl SupervisorState {
    pub(super) async fn submit(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submit) {
        match self.open_operation(&submit.request.application) {
            Open::None => self.begin(myself, submit).await,
            Open::One(open) => self.occupied(myself, submit, open),
            Open::Unsure => {
                self.submits.push(submit);
                if self.submits.len() == 1 {
                    self.read_open(myself);
                }
            }
        }
    }

    /// Reading what is open for each submit would cost too much beside thousands of operations. This engine is the
    /// only one to begin operations in its log, but others may record that one is over.
    fn open_operation(&self, application: &str) -> Open {
        match self.open.as_ref().map(|known| known.get(application)) {
            Some(None) => Open::None,
            Some(Some(operation)) if self.running.contains_key(operation) => Open::One(*operation),
            Some(Some(_)) | None => Open::Unsure,
        }
    }

    fn read_open(&self, myself: &ActorRef<SupervisorMessage>) {
        let (shared, myself) = (self.shared.clone(), myself.clone());
        tokio::spawn(async move {
            let open = blocking(&shared.log, |log| operations(log, Lookup::open())).await;
            let _ = myself.send_message(SupervisorMessage::OpenRead(open));
        });
    }

    /// Begins what has waited to know which operations are open, or refuses it.
    pub(super) async fn open_read(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        open: Result<Vec<Summary>, LogError>,
    ) {
        let mut submits = std::mem::take(&mut self.submits).into_iter();
        let open = match open {
            Ok(open) => open,
            Err(error) => {
                if let Some(Submit { reply, .. }) = submits.next() {
                    let _ = reply.send(Err(error.into()));
                }
                // The others ask for themselves.
                submits.for_each(|submit| drop(myself.send_message(SupervisorMessage::Submit(submit))));
                return;
            }
        };
        let open = open.into_iter().map(|summary| (summary.application, summary.operation));
        let mut known: HashMap<_, _> = open.collect();
        // One that has just begun may not be in the log yet.
        known.extend(self.running.iter().map(|(id, child)| (child.application.clone(), *id)));
        self.open = Some(known);
        for submit in submits {
            let known = self.open.as_ref().and_then(|known| known.get(&submit.request.application));
            match known.copied() {
                Some(open) => self.occupied(myself, submit, open),
                None => self.begin(myself, submit).await,
            }
        }
    }

    pub(super) async fn begin(&mut self, myself: &ActorRef<SupervisorMessage>, submit: Submit) {
        let Submit { operation, request, targets, plan, handed_over, reply, .. } = submit;
        let application = request.application.clone();
        if reply.is_closed() {
            // Whoever asked has let go, and relies on it that nothing begins any more.
            return self.begin_next(myself, &application);
        }
        if let Err(error) = self.check_open() {
            return drop(reply.send(Err(error)));
        }
        // Whoever chose the id may have asked before.
        if let Some(message) = self.ends.message(operation).map(str::to_owned) {
            let _ = reply.send(Err(EngineError::AlreadyFinished { operation, message }));
            return self.begin_next(myself, &application);
        }
        let about = About::new(&request);
        let start = Start::New { request, targets, plan, handed_over };
        let begun = self.spawn(myself, operation, about, start).await;
        match (&begun, &mut self.open) {
            (Ok(()), Some(open)) => drop(open.insert(application, operation)),
            (Ok(()), None) => {}
            (Err(_), _) => self.begin_next(myself, &application),
        }
        let _ = reply.send(begun);
    }
}
