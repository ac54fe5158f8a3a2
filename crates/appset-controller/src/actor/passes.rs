//! Reconcile passes: starts them, and carries out their results.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use ractor::ActorRef;
use tidegate_applicationset::changes::AppSetChanges;
use tidegate_applicationset::pass_results::FinishedPass;
use tidegate_applicationset::reconcile_schedule::{Pass, PassEnd, PassId, ScheduleInput, TargetResolution};
use tidegate_applicationset::requeue::requeue_delay;
use tidegate_applicationset::rollout::RolloutRequestError;
use tidegate_applicationset::status::ConditionReason;
use tidegate_applicationset::teardown_steps::OrderedDeletions;
use tidegate_applicationset::triggers::REFRESH_ANNOTATION;
use tidegate_lifecycle::rollout::Request;
use tidegate_lifecycle::teardown::Order;

use super::ActorState;
use crate::messages::AppSetMessage;
use crate::reconcile::{ReconcileInput, ReconcileResult, run_pass};
use crate::write_failure;

impl ActorState {
    /// Starts a pass, which reports back with a message.
    pub(super) fn start_pass(&mut self, myself: &ActorRef<AppSetMessage>, pass: Pass) {
        let Pass { id, generates, is_fresh } = pass;
        let input = ReconcileInput {
            set: self.set.clone(),
            generated: self.results.generated.clone().filter(|_| !generates),
            refused: Arc::clone(&self.results.last_rejected),
            is_fresh,
            last: self.own_rollout().cloned(),
            member_status: Arc::clone(&self.rollouts.member_status),
            prunes: self.rollouts.prunes.clone(),
        };
        let (shared, actor) = (Arc::clone(&self.shared), myself.clone());
        let running = self.tasks.running.spawn(async move {
            // A panic in a pass is reported like any other failure. An aborted pass sends nothing.
            let passed =
                AssertUnwindSafe(run_pass(shared, input)).catch_unwind().await.unwrap_or_else(|_| {
                    let text =
                        "processing the ApplicationSet failed with an internal error; see the log of this process";
                    let failure = write_failure(ConditionReason::ApplicationGenerationFromParamsError, text);
                    ReconcileResult { failure: Some(failure), ..ReconcileResult::default() }
                });
            drop(actor.send_message(AppSetMessage::PassEnded(id, Box::new(passed))));
        });
        self.tasks.pass = Some((id, running));
    }

    /// Handles a reconcile pass's result.
    pub(super) async fn handle_pass(&mut self, id: PassId, passed: ReconcileResult) {
        // An aborted pass may already have sent its result while its replacement is still running.
        let Some(pass) = self.schedule.running_pass().filter(|pass| pass.id == id) else { return };
        self.tasks.pass = None;
        let ReconcileResult {
            generated,
            changes,
            failure,
            finalizers,
            needs_another_pass,
            request,
            awaited,
            saw_running_rollout,
            duration,
        } = passed;
        self.shared.cache.record_pass(&self.key, duration);
        if let Some(finalizers) = finalizers {
            self.set.metadata.finalizers = finalizers;
        }
        let awaited = (request.is_some() || !needs_another_pass).then_some(awaited);
        self.results.record(FinishedPass { generated, failure, changes: &changes, awaited });
        // The rollout may have finished after the pass observed it.
        let is_outdated = saw_running_rollout && self.own_rollout().is_some_and(|last| last.is_finished());
        let targets = match &request {
            None => TargetResolution::Skipped,
            Some(Ok(_)) if is_outdated => TargetResolution::Outdated,
            Some(Ok(_)) => TargetResolution::Resolved,
            Some(Err(RolloutRequestError::Unresolved(_))) => TargetResolution::Unresolved,
            Some(Err(_)) => TargetResolution::Invalid,
        };
        let end = PassEnd {
            duration,
            has_output: self.results.generated.is_some(),
            requeue_after: requeue_delay(&self.set, self.results.outcome(), &self.shared.options),
            needs_another_pass,
            awaits_comparison: !self.results.awaited.is_empty(),
            targets,
        };
        self.apply(ScheduleInput::PassEnded(id, end));
        if pass.generates {
            self.end_refresh().await;
        }
        self.carry_out_pass(changes, request, targets, needs_another_pass).await;
    }

    /// Starts, updates or ends the rollout and the ordered deletion that a pass calls for.
    async fn carry_out_pass(
        &mut self,
        changes: AppSetChanges,
        request: Option<Result<Request, RolloutRequestError>>,
        targets: TargetResolution,
        needs_another_pass: bool,
    ) {
        if changes.order != Order::AllAtOnce {
            let AppSetChanges { order, delete, permit, .. } = changes;
            self.tear_down(
                OrderedDeletions { order, deletions: &delete, permit },
                "it is no longer generated",
            )
            .await;
        }
        self.keep_generated().await;
        if !needs_another_pass {
            self.remove_approval().await;
        }
        match request {
            Some(Ok(_)) if targets == TargetResolution::Outdated => {}
            Some(Ok(request)) => self.update_rollout(request).await,
            Some(Err(not)) => self.handle_request_error(&not),
            None if self.results.generated.is_some() && !needs_another_pass => {
                self.end_unwanted_rollout().await
            }
            None => {}
        }
        // This pass carried out the retry, unless it couldn't determine the targets.
        let is_unresolved = targets == TargetResolution::Unresolved;
        let is_done = self.results.is_complete() && !needs_another_pass && !is_unresolved;
        if is_done && !self.schedule.is_recall_pending() {
            self.remove_retry().await;
        }
    }

    /// Handles a failure to request a progressive sync. Unresolved targets are usually temporary, so they
    /// count as an error only if they persist.
    fn handle_request_error(&mut self, not: &RolloutRequestError) {
        let is_unresolved = matches!(not, RolloutRequestError::Unresolved(_));
        if !(is_unresolved && self.schedule.tolerates_unresolved_targets(self.now())) {
            self.results.add_failure(not.failure());
        }
    }

    /// Removes the refresh annotation once the refresh is complete.
    async fn end_refresh(&mut self) {
        if self.set.metadata.annotations.remove(REFRESH_ANNOTATION).is_none() {
            return;
        }
        if let Err(error) = self.shared.store.write_finalizer(&self.set).await {
            tracing::warn!(set = %self.key, %error, "failed to remove the {REFRESH_ANNOTATION} annotation");
        }
    }
}
