//! What is due for the deletion of an application.

use ractor::ActorRef;
use tidegate_application::deletion::{self, Asker, Next, is_own_finalizer};
use tidegate_application::operation::{self, Progress};
use tidegate_application::refresh::{self, Level, REFRESH_ANNOTATION};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Cascade, Timestamp};

use super::{AGAIN_AFTER, AppState};
use crate::applications::messages::AppMessage;
use crate::applications::recorded;

impl AppState {
    /// Somebody deletes it. What is answered with a yes is durable.
    pub(super) async fn remove(&mut self, cascade: Cascade, by: &str, reason: &str) -> Result<(), String> {
        if deletion::is_under_way(&self.application, cascade) {
            return Ok(());
        }
        if let Some(why) = deletion::in_the_way(&self.application, &self.key.to_string(), cascade) {
            return Err(why);
        }
        let mut removed = Application::clone(&self.application);
        removed.metadata.finalizers = deletion::finalizers(&self.application, cascade);
        let now = self.now().into();
        removed.metadata.deletion_timestamp = Some(now);
        if let Some(asker) = Asker::new(by, reason, now) {
            asker.annotate(&mut removed.metadata.annotations);
        }
        // What was known before may not be written after that.
        self.await_write(None).await;
        self.shared.store.delete(&removed).await.map_err(|error| error.to_string())?;
        // A cluster tells of its own time, and of what it keeps.
        if !self.shared.store.is_shared() {
            self.application.metadata = removed.metadata;
            self.kept = None;
        }
        Ok(())
    }

    /// Begins its deletion, tries it again, or lets it go.
    pub(super) async fn delete(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if refresh::is_skipped(&self.application) {
            return;
        }
        self.take_back(now).await;
        let mut asked = false;
        if self.application.is_deleting() && !self.waits_to_go {
            // It is compared no more: who asks for that wants it to be tried again.
            let annotated = self.application.metadata.annotations.remove(REFRESH_ANNOTATION).is_some();
            asked = annotated || self.asked.take().is_some_and(|level| level >= Level::Forced);
        }
        self.drop_outdated();
        let is_other =
            |asked: &OperationRequest| operation::id(asked).is_none() && operation::cascade(asked).is_none();
        if self.application.is_deleting()
            && !self.preparing
            && self.application.operation.as_ref().is_some_and(is_other)
        {
            // It was not begun yet, and may wait for what never comes.
            operation::take_in(
                &mut self.application,
                Progress::terminated("the deletion of the application", now),
            );
        }
        match deletion::take_in(&mut self.application, asked, now) {
            Next::Nothing => {}
            Next::Begin(begun) => self.application.operation = Some(*begun),
            Next::Wait(until) => self.set_alarm(myself, until),
            Next::Release => self.release(myself, now).await,
        }
    }

    /// A deletion that has waited until its finalizers said something else is not begun as it was meant first.
    fn drop_outdated(&mut self) {
        let cascade = deletion::cascade(&self.application);
        let is_outdated = |asked: &OperationRequest| {
            let meant = operation::cascade(asked);
            operation::id(asked).is_none() && meant.is_some() && meant != cascade
        };
        let waits = self.application.is_deleting() && !self.preparing;
        if waits && self.application.operation.as_ref().is_some_and(is_outdated) {
            self.application.operation = None;
        }
    }

    /// Nobody deletes it, or it is written down again: a deletion that the engine has not begun is not begun any more.
    async fn take_back(&mut self, now: Timestamp) {
        let Some(why) = deletion::is_unfounded(&self.application) else { return };
        let id = self.application.operation.as_ref().and_then(operation::id);
        if id.is_some() && self.taken_back == id {
            return;
        }
        // What leads to the engine ends first, so that it is asked about what it will ever know.
        self.carrying.shutdown().await;
        (self.preparing, self.carried) = (false, None);
        let is_begun = match id {
            Some(id) => recorded::is_known(&self.shared, id).await,
            None => false,
        };
        if is_begun {
            self.taken_back = id;
        } else {
            operation::take_in(&mut self.application, Progress::refused(why, now));
            self.ask(Level::Latest);
        }
    }

    /// Its deletion is done.
    async fn release(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        let mut released = Application::clone(&self.application);
        released.metadata.finalizers.retain(|one| !is_own_finalizer(one));
        self.await_write(None).await;
        match self.shared.store.release(&released).await {
            Ok(()) => self.application.metadata.finalizers = released.metadata.finalizers,
            Err(error) => {
                tracing::error!(application = %self.key, %error, "an application that is deleted cannot be let go");
                self.set_alarm(myself, now + AGAIN_AFTER);
            }
        }
    }
}
