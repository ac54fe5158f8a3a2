//! Explains failed operations that are being retried, for the step that is waiting for their Applications.

use tidegate_application::operation;
use tidegate_application::supersede::awaits_retry;
use tidegate_lifecycle::fleet::Explanation;
use tidegate_lifecycle::operation::{Explanation as OfOperation, OperationView};
use tidegate_lifecycle::rollout::{MemberStatus, MemberView, RolloutView};
use tidegate_model::OperationId;

use super::ActorState;
use crate::member_status::member_key;

/// Maximum number of operations to query.
const QUERIES_MAX: usize = 20;

impl ActorState {
    /// Adds the failure, the attempt number and the time of the next attempt to each member with an operation
    /// that is being retried.
    pub(super) async fn add_attempts(&self, view: Option<&mut RolloutView>, explanation: &mut Explanation) {
        let Some(view) = view else { return };
        let retried = view.members.iter_mut().filter_map(|one| {
            let (operation, limit) = self.retried_operation(one)?;
            Some((one, operation, limit))
        });
        for (one, operation, limit) in retried.take(QUERIES_MAX) {
            let inspected = self.shared.applications.engine.inspect(operation).await;
            let text = inspected
                .ok()
                .and_then(|(operation, explained)| describe_attempts(&operation, &explained, limit));
            let Some(text) = text else { continue };
            let what = format!("Application {}", one.application);
            one.message.push_str(&format!("; {text}"));
            let awaited = explanation.awaited.iter_mut().filter(|awaited| awaited.what == what);
            awaited.for_each(|awaited| awaited.why.push_str(&format!(": {text}")));
        }
    }

    /// Returns a member's running operation and its maximum number of retries, if the operation is being
    /// retried or its first attempt failed.
    fn retried_operation(&self, one: &MemberView) -> Option<(OperationId, Option<i64>)> {
        let is_at_work = one.status == MemberStatus::Progressing && one.outcome.is_none();
        let operation = one.operation.filter(|_| is_at_work)?;
        let live =
            self.shared.applications.application_cache.get(&member_key(&self.key, &one.application))?;
        let state = live.status.operation_state.as_ref()?;
        let is_it = operation::engine_id(&state.operation) == Some(operation) && !state.phase.is_completed();
        let is_retried = state.retry_count > 0 || awaits_retry(&state.message);
        (is_it && is_retried).then(|| (operation, state.operation.retry.as_ref().map(|retry| retry.limit)))
    }
}

/// Returns text such as `attempt 1 of 3 failed: it broke; attempt 2 in 40 s`, or `None` if no attempt has
/// failed.
fn describe_attempts(view: &OperationView, explained: &OfOperation, limit: Option<i64>) -> Option<String> {
    let attempt = view.retry_count.saturating_add(1);
    let all = limit.filter(|limit| *limit >= 0).map(|limit| limit.saturating_add(1));
    let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
    if explained.awaits_attempt {
        let next = explained.next.as_deref().unwrap_or("a retry follows");
        let reason = explained.progress.trim_end_matches('.');
        return Some(format!("attempt {attempt}{of} failed: {reason}; {next}"));
    }
    (attempt > 1).then(|| format!("the previous attempts failed, and attempt {attempt}{of} is in progress"))
}
