//! What is done about its operation when something newer is wanted.

use ractor::ActorRef;
use tidegate_application::operation::{self, Progress};
use tidegate_application::refresh::Level;
use tidegate_application::superseding::{self, Decision, Given, NOT_TAKEN, POLICY_REMARK, WAITING};
use tidegate_model::argo::OperationRequest;
use tidegate_model::{OperationId, Timestamp};

use super::AppState;
use crate::applications::carrying;
use crate::applications::messages::AppMessage;

/// What waits for its operation.
#[derive(Default)]
pub(super) struct Superseding {
    /// The operation that is ending for it.
    ending: Option<OperationId>,
    /// What its operation does that is not broken off.
    in_the_way: Option<String>,
    /// The operation whose very manifests the revisions have that were compared last.
    pub(super) same: Option<OperationId>,
}

impl AppState {
    /// Somebody has written an operation into the resource. Nobody there hears an answer: that it is not taken is said in the
    /// conditions, until the operation under way is over.
    pub(super) fn written(&mut self, asked: OperationRequest) {
        if self.application.operation.is_none() {
            self.application.operation = Some(asked);
            return;
        }
        let refused = self.sync(superseding::of_writer(asked), None).err().map(|why| {
            format!(
                "the operation that was written into the resource is not taken: {why}; written with {POLICY_REMARK} in its info, as queue or supersede, it follows the one under way or takes its place"
            )
        });
        self.say(NOT_TAKEN, refused.as_slice(), self.now());
    }

    /// Another attempt may take a newer revision, which is looked for before it begins.
    pub(super) fn look_before_retry(&mut self, progress: &Progress) {
        let takes_newest = |asked: &tidegate_model::argo::OperationRequest| {
            asked.retry.as_ref().is_some_and(|retry| retry.refresh)
        };
        let told = self.application.status.operation_state.as_ref();
        let is_news = told.is_none_or(|told| told.message != progress.message);
        if is_news
            && superseding::awaits_retry(&progress.message)
            && self.application.operation.as_ref().is_some_and(takes_newest)
        {
            self.ask(Level::Forced);
        }
    }

    /// Decides about its operation by what was compared last, and says in the conditions what waits for it.
    pub(super) fn compare_with_newer(&mut self, now: Timestamp) -> Decision {
        if self.problem.is_none() {
            superseding::refresh_retry(&mut self.application);
        }
        let current = self.application.operation.as_ref();
        let is_held = current.is_some() && self.shared.windows(&self.application).held(false, now).is_some();
        let is_same = current.and_then(operation::id).is_some_and(|id| self.superseding.same == Some(id));
        let decided = superseding::decide(&self.application, Given { is_held, is_same }, now);
        let words = match &decided {
            Decision::GoOn => None,
            Decision::Finish(why) => Some(why.clone()),
            Decision::Supersede { why, .. } => Some(match &self.superseding.in_the_way {
                Some(in_the_way) => format!("{why}: {in_the_way}"),
                None => why.clone(),
            }),
        };
        self.say(WAITING, words.as_slice(), now);
        if self.application.operation.is_none() {
            self.say(NOT_TAKEN, &[], now);
        }
        decided
    }

    /// Has its operation end, where that is decided and does no harm now. It is asked again whenever the operation has moved.
    pub(super) async fn supersede(&mut self, myself: &ActorRef<AppMessage>, decided: Decision) {
        let current = self.application.operation.as_ref().and_then(operation::id);
        let (Decision::Supersede { by, when, .. }, Some(id)) = (decided, current) else {
            (self.superseding.ending, self.superseding.in_the_way) = (None, None);
            return;
        };
        if self.superseding.ending == Some(id) {
            return;
        }
        let in_the_way = match carrying::supersede(&self.shared, id, by, when).await {
            Ok(()) => {
                tracing::info!(application = %self.key, operation = %id, "an operation is superseded");
                self.superseding.ending = Some(id);
                None
            }
            Err(why) => Some(why),
        };
        if self.superseding.in_the_way != in_the_way {
            self.superseding.in_the_way = in_the_way;
            // It is shown, and nothing else may happen for long.
            drop(myself.send_message(AppMessage::Related));
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
