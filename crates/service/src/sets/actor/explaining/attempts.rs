//! What is told of members whose operation has failed and is tried again: a step that waits for them says so.

use tidegate_application::operation;
use tidegate_application::superseding::awaits_retry;
use tidegate_lifecycle::fleet::Explanation;
use tidegate_lifecycle::operation::{Explanation as OfOperation, OperationView};
use tidegate_lifecycle::rollout::{MemberStatus, MemberView, RolloutView};
use tidegate_model::OperationId;

use super::SetState;
use crate::sets::standing::member;

/// So many operations are asked how they stand.
const ASKED_MAX: usize = 20;

impl SetState {
    /// Says of each member whose operation has failed, and is tried again: why, which attempt it is, and when the next one comes.
    pub(super) async fn say_attempts(&self, view: Option<&mut RolloutView>, explanation: &mut Explanation) {
        let Some(view) = view else { return };
        let retried = view.members.iter_mut().filter_map(|one| {
            let (operation, limit) = self.retried(one)?;
            Some((one, operation, limit))
        });
        for (one, operation, limit) in retried.take(ASKED_MAX) {
            let asked = self.shared.applications.engine.inspect(operation).await;
            let words = asked.ok().and_then(|(operation, explained)| words(&operation, &explained, limit));
            let Some(words) = words else { continue };
            let what = format!("Application {}", one.application);
            one.message.push_str(&format!("; {words}"));
            let awaited = explanation.awaited.iter_mut().filter(|awaited| awaited.what == what);
            awaited.for_each(|awaited| awaited.why.push_str(&format!(": {words}")));
        }
    }

    /// The operation of a member that is at work and is not in its first attempt, or whose first attempt has failed; and how
    /// often it may be tried again.
    fn retried(&self, one: &MemberView) -> Option<(OperationId, Option<i64>)> {
        let is_at_work = one.status == MemberStatus::Progressing && one.outcome.is_none();
        let operation = one.operation.filter(|_| is_at_work)?;
        let live = self.shared.applications.board.get(&member(&self.key, &one.application))?;
        let state = live.status.operation_state.as_ref()?;
        let is_it = operation::id(&state.operation) == Some(operation) && !state.phase.is_completed();
        let is_retried = state.retry_count > 0 || awaits_retry(&state.message);
        (is_it && is_retried).then(|| (operation, state.operation.retry.as_ref().map(|retry| retry.limit)))
    }
}

/// `attempt 1 of 3 failed: it broke; attempt 2 in 40 s`; nothing where no attempt has failed.
fn words(view: &OperationView, explained: &OfOperation, limit: Option<i64>) -> Option<String> {
    let attempt = view.retry_count.saturating_add(1);
    let all = limit.filter(|limit| *limit >= 0).map(|limit| limit.saturating_add(1));
    let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
    if explained.awaits_attempt {
        let next = explained.next.as_deref().unwrap_or("it is tried again");
        let why = explained.progress.trim_end_matches('.');
        return Some(format!("attempt {attempt}{of} failed: {why}; {next}"));
    }
    (attempt > 1).then(|| format!("the attempts before have failed, and attempt {attempt}{of} is under way"))
}
