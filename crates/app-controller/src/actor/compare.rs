//! Starts an Application's comparisons and handles their results.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::comparison::{self, ComparisonOutcome};
use tidegate_application::operation;
use tidegate_application::refresh::{self, REFRESH_ANNOTATION, RefreshLevel};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Timestamp;
use tidegate_model::argo::ConditionType;
use tokio::time::Instant;

use super::ActorState;
use crate::compare;
use crate::comparison_cache::ComparisonCache;
use crate::comparison_result::{ComparisonResult, ComparisonStart, OperationRelation};
use crate::messages::AppMessage;
use crate::watches::WatchPosition;

impl ActorState {
    pub(super) fn handle_comparison(&mut self, compared: ComparisonResult, with: ComparisonStart) {
        self.is_comparing = false;
        let ComparisonResult { outcome, objects, read_since, cache, operation_relation, is_access_denied: _ } =
            compared;
        self.comparison_cache = cache;
        if with.ended_operations != self.ended_operations || self.application.operation.is_some() {
            // The watches may not have reported the operation's writes yet.
            self.comparison_cache.clear();
        }
        if let Some(objects) = objects
            && let Ok(place) = self.shared.destinations.resolve(&self.application.spec.destination)
        {
            let since = read_since.unwrap_or_else(|| WatchPosition::before_all(&place.destination));
            let all_up_to = self.shared.watches.set_objects(&self.key, place, objects, &since);
            match all_up_to {
                Some(mark) => self.comparison_cache.extend_to(mark),
                // The cached result may be outdated, so the next comparison must read the objects again.
                None if self.shared.watches.is_outdated(&self.key) => self.comparison_cache.clear(),
                None => {}
            }
        }
        if refresh::compared_to(&self.application) != with.compared_to {
            // The desired state changed during the comparison.
            self.request_comparison(RefreshLevel::Forced);
            self.requeue_refreshes();
            return;
        }
        if with.ended_operations != self.ended_operations {
            // The comparison started before an operation finished, so it may have missed the operation's
            // effects.
            self.request_comparison(with.level);
            self.requeue_refreshes();
            return;
        }
        self.complete_refreshes();
        if self.application.is_deleting() && !self.is_deletion_blocked {
            // The comparison may have observed a partly deleted Application.
            return;
        }
        let now = self.now();
        self.next_health_change = outcome.health_changes_at();
        comparison::apply_comparison(&mut self.application, outcome, with.level, now);
        refresh::complete_refresh(&mut self.application, with.refresh_annotation.as_deref());
        self.undecided_comparisons = self.undecided_comparisons.saturating_add(1);
        if self.shared.store.is_shared() {
            self.application.status.controller_namespace = self.shared.store.project_namespace();
        }
        // The revisions of this comparison replace those from the preparation.
        self.prepared_revisions = None;
        self.mark_plan_stale();
        self.record_operation_comparison(operation_relation);
        (self.deployments.evidence, self.deployments.is_compared) = (with.newest_deployment, true);
    }

    pub(super) fn start_comparison(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.is_comparing || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        let Some(level) =
            refresh::due_refresh(&self.application, self.requested_level, now, self.shared.interval)
        else {
            return;
        };
        if self.unknown_cluster_reason().is_some() {
            // Wait until the cluster has responded or failed to respond.
            return;
        }
        // The comparison includes all changes reported before it started.
        (self.requested_level, self.pending_change, self.is_comparing) = (None, None, true);
        self.assign_refreshes();
        let start = Box::new(ComparisonStart {
            compared_to: refresh::compared_to(&self.application),
            level,
            refresh_annotation: self.application.annotation(REFRESH_ANNOTATION).map(str::to_owned),
            newest_deployment: self.deployments.newest.clone(),
            ended_operations: self.ended_operations,
        });
        let memory = std::mem::take(&mut self.comparison_cache);
        let operation = self.application.operation.as_ref().and_then(operation::engine_id);
        let (shared, application, actor) =
            (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        self.tasks.spawn(async move {
            let permits = shared.destinations.comparison_permits(&application.spec.destination);
            let _permit = permits.acquire().await;
            let began_at = SystemClock.now();
            let inner = Arc::clone(&shared);
            let comparing = tokio::spawn(async move {
                let begin = Instant::now();
                let compared = compare::compare(&inner, &application, level, memory).await;
                inner.reconcile_metrics.observe(&application, begin.elapsed());
                compared
            })
            .await;
            let result = Box::new(comparing.unwrap_or_else(|fault| {
                let message = format!("the comparison failed with an internal error: {fault}");
                let outcome = ComparisonOutcome::without_cluster_state(ConditionType::UnknownError, message);
                ComparisonResult {
                    outcome,
                    objects: None,
                    read_since: None,
                    cache: ComparisonCache::default(),
                    operation_relation: OperationRelation { operation, ..OperationRelation::default() },
                    is_access_denied: false,
                }
            }));
            drop(actor.send_message(AppMessage::ComparisonDone { result, start, began_at }));
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
