//! Operations that progressive syncs want of an application: each is begun once, under the id that was recorded before, and
//! whoever wants it is told how it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::running::{self, Next};
use tidegate_application::{approval, operation};
use tidegate_executor::EngineError;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{OperationId, Timestamp};
use tokio::sync::mpsc::UnboundedSender;

use super::AppState;
use crate::applications::admission::admit;
use crate::applications::messages::{Answer, AppMessage};
use crate::applications::places::NoPlace;
use crate::applications::shared::Shared;
use crate::applications::{carrying, recorded};

/// What progressive syncs want of the application.
#[derive(Default)]
pub(super) struct Runs {
    wanted: BTreeMap<OperationId, Wanted>,
    /// The operation that has its place, and that the engine knows.
    begun: Option<OperationId>,
}

struct Wanted {
    asked: Box<OperationRequest>,
    tell: UnboundedSender<ChildNews>,
    told: Option<ChildNews>,
}

impl Wanted {
    /// Tells what is news.
    fn tell(&mut self, news: ChildNews) {
        if self.told.as_ref() != Some(&news) {
            // Whoever does not listen any more asks again, if that matters.
            let _ = self.tell.send(news.clone());
            self.told = Some(news);
        }
    }
}

impl AppState {
    /// An operation is wanted, and `tell` is told how it stands from now on.
    pub(super) async fn run(
        &mut self,
        operation: OperationId,
        asked: Box<OperationRequest>,
        tell: UnboundedSender<ChildNews>,
    ) {
        let mut wanted = Wanted { asked, tell, told: None };
        let is_known = running::placed(&self.application) == Some(operation)
            || running::ended(&self.application, operation).is_some();
        if !is_known {
            match recorded::ended(&self.shared, operation).await {
                Ok(None) => {}
                Ok(Some((phase, message))) => return wanted.tell(ChildNews::Ended { phase, message }),
                Err(error) => {
                    let problem = format!("the operation log cannot be read: {error}");
                    return wanted.tell(ChildNews::Failed(CallError::transient(problem)));
                }
            }
        }
        self.runs.wanted.insert(operation, wanted);
    }

    /// Gives the next operation that is wanted its place, or says why it has none.
    pub(super) fn place_runs(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.application.is_deleting()
            && let Some(placed) = running::placed(&self.application).filter(|_| !self.is_carried())
        {
            running::take_back(&mut self.application, placed, now);
        }
        let placed = running::placed(&self.application);
        let ended = |operation: &OperationId| running::ended(&self.application, *operation).is_some();
        let waiting: Vec<OperationId> =
            self.runs.wanted.keys().copied().filter(|one| Some(*one) != placed && !ended(one)).collect();
        for operation in waiting {
            match self.next_run(now) {
                Ok(Next::Wait) => {}
                Ok(Next::Begin) => {
                    let Some(wanted) = self.runs.wanted.get(&operation) else { continue };
                    running::place(&mut self.application, operation, wanted.asked.as_ref().clone());
                }
                Ok(Next::Held(held)) => {
                    self.set_alarm(myself, held.until);
                    if let Some(wanted) = self.runs.wanted.get_mut(&operation) {
                        wanted.tell(ChildNews::Held { window: held.reason });
                    }
                }
                Ok(Next::Later(why)) => self.refuse_run(operation, CallError::transient(why)),
                Err(error) => self.refuse_run(operation, error),
            }
        }
    }

    fn next_run(&self, now: Timestamp) -> Result<Next, CallError> {
        match running::next(&self.application, &self.shared.windows(&self.application), now) {
            Next::Begin | Next::Held(_) if self.problem.is_some() => {
                let problem = self.problem.clone().unwrap_or_default();
                Err(CallError::permanent(format!("application {} cannot be synced: {problem}", self.key)))
            }
            next @ (Next::Begin | Next::Held(_)) => match admit(&self.shared, &self.application) {
                Ok(_) => Ok(next),
                Err(NoPlace::Wrong(problem)) => Err(CallError::permanent(problem)),
                Err(NoPlace::Away(problem)) => Err(CallError::outage(problem)),
                // It is looked at again when the cluster has answered, or has not.
                Err(NoPlace::Unasked(_)) => Ok(Next::Wait),
            },
            next => Ok(next),
        }
    }

    fn refuse_run(&mut self, operation: OperationId, error: CallError) {
        if let Some(mut wanted) = self.runs.wanted.remove(&operation) {
            wanted.tell(ChildNews::Failed(error));
        }
    }

    /// Tells what is on the disk.
    pub(super) fn tell_runs(&mut self) {
        let (application, begun) = (&self.application, self.runs.begun);
        let unapproved = approval::waiting(application).filter(|_| running::placed(application) != begun);
        self.runs.wanted.retain(|operation, wanted| {
            if let Some((phase, message)) = running::ended(application, *operation) {
                wanted.tell(ChildNews::Ended { phase, message });
                return false;
            }
            if begun == Some(*operation) && running::placed(application) == begun {
                wanted.tell(ChildNews::Begun);
            } else if let Some(plan) = unapproved.filter(|_| running::placed(application) == Some(*operation))
            {
                wanted.tell(ChildNews::Unapproved { plan: plan.to_owned() });
            }
            true
        });
    }

    /// The engine knows the operation that has its place.
    pub(super) fn run_begun(&mut self, operation: OperationId) {
        self.runs.begun = Some(operation);
    }

    /// Whether something leads to the engine with what a progressive sync wants, or has come there.
    fn is_carried(&self) -> bool {
        let placed = running::placed(&self.application);
        placed.is_some() && (placed == self.carried || placed == self.runs.begun)
    }

    /// Whether the operation that is asked for may still be kept from beginning.
    pub(super) fn may_be_held(&self, asked: &OperationRequest) -> bool {
        operation::id(asked).is_none() || running::is_of_rollout(asked) && !self.is_carried()
    }

    /// An operation is not wanted any more. If it has not begun, it never does.
    pub(super) async fn take_back_run(&mut self, operation: OperationId, now: Timestamp) {
        self.runs.wanted.remove(&operation);
        if running::placed(&self.application) != Some(operation) {
            return;
        }
        let is_begun = self.runs.begun == Some(operation);
        if is_begun || self.is_carried() && !self.withdraw(operation).await {
            return self.run_begun(operation);
        }
        running::take_back(&mut self.application, operation, now);
    }

    /// Ends what leads to the engine, and says whether the engine is sure not to know the operation.
    async fn withdraw(&mut self, operation: OperationId) -> bool {
        self.carrying.shutdown().await;
        (self.preparing, self.carried) = (false, None);
        !recorded::is_known(&self.shared, operation).await
    }

    /// Sees to it that an operation is over, or never begins. Answers when that is sure.
    pub(super) async fn stop_run(
        &mut self,
        myself: &ActorRef<AppMessage>,
        (operation, by): (OperationId, &str),
        reply: Answer,
    ) {
        let now = self.now();
        self.take_back_run(operation, now).await;
        self.is_urgent = true;
        // What was taken back is written down before anybody relies on that.
        if let Err(problem) = self.keep_now(myself).await {
            return drop(reply.send(Err(problem)));
        }
        self.tasks.spawn(end_in_engine(Arc::clone(&self.shared), (operation, by.to_owned()), reply));
    }

    /// An earlier actor has left an operation in its place: it stays there if the engine knows it.
    pub(super) async fn recall_run(&mut self, now: Timestamp) {
        let Some(placed) = running::placed(&self.application) else { return };
        match recorded::is_known(&self.shared, placed).await {
            true => self.run_begun(placed),
            false => running::take_back(&mut self.application, placed, now),
        }
    }
}

/// Ends an operation that the engine may know, and answers when it is over. When the engine stops, nobody is told anything.
pub(crate) async fn end_in_engine(
    shared: Arc<Shared>,
    (operation, by): (OperationId, String),
    reply: Answer,
) {
    let is_over = || async { matches!(recorded::ended(&shared, operation).await, Ok(Some(_))) };
    let answer = match carrying::terminate(&shared, operation, &by).await {
        Ok(false) => Ok(()),
        Ok(true) => match shared.engine.wait(operation).await {
            Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => return,
            Ok(_) | Err(EngineError::Unknown { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        // It has come to its end by itself.
        Err(_) if is_over().await => Ok(()),
        Err(problem) => Err(problem),
    };
    drop(reply.send(answer));
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
