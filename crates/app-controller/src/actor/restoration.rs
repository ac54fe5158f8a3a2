//! Restoration of an Application's operations from the operation log.

use tidegate_model::OperationId;

use super::ActorState;
use crate::operation_history;
use crate::plan_approval::load_pending_plan;

impl ActorState {
    /// Restores operations that are in the operation log but not in the status, so that no operation runs
    /// twice.
    pub(super) async fn restore(
        &mut self,
        lost_state: Option<String>,
        is_own_state: bool,
        first_operation: Option<OperationId>,
    ) {
        let requested_end = self.machine.requested_end();
        self.restore_history(lost_state, is_own_state, first_operation).await;
        // Another client may have set the phase to `Terminating` while the service was down. If the log
        // already records the termination, the engine stops the operation.
        if let Some(end) = requested_end
            && self.machine.is_to_end(end)
            && let Some(by) = self.shared.store.writer_of_phase(self.key()).await
        {
            self.end_operation(&by).await;
        }
        self.machine.restore_conditions(self.shared.as_ref(), self.now());
    }

    async fn restore_history(
        &mut self,
        lost_state: Option<String>,
        is_own_state: bool,
        first_operation: Option<OperationId>,
    ) {
        let now = self.now();
        let application = self.machine.application().share();
        let history = operation_history::load_history(&self.shared, &application, first_operation).await;
        let (unknown, summaries) = match history {
            Ok(history) => history,
            Err(error) => {
                return self.machine.set_problem(format!(
                    "cannot read the operation log, so the application is not managed: {error}"
                ));
            }
        };
        let restored = self.machine.apply_history(unknown, &summaries, self.shared.as_ref(), now);
        if !is_own_state {
            // Without a Lease, another service may still be running the operation.
            self.machine.verify_operation(&summaries, self.shared.destinations.is_fenced(), now);
        } else if let Some(child) = self.machine.child_operation() {
            let is_begun = operation_history::is_operation_known(&self.shared, child).await;
            self.machine.restore_child(child, is_begun, now);
        }
        self.load_plan().await;
        let newest = match self.machine.last_deployment() {
            None if !summaries.is_empty() => {
                let application = self.machine.application().share();
                operation_history::newest_deployment(&self.shared, &application, first_operation).await
            }
            deployment => deployment,
        };
        self.machine.set_newest_deployment(newest);
        let source = match restored {
            0 if lost_state.is_none() => return,
            0 => "the operation log contains no operations of this application".to_owned(),
            1 => "the application's last operation was restored from the operation log".to_owned(),
            count => {
                format!("the application's last {count} operations were restored from the operation log")
            }
        };
        let reason = lost_state.unwrap_or_else(|| "no current status was stored".to_owned());
        let message = format!("{reason}; {source}");
        tracing::warn!(application = %self.key(), message, "application status rebuilt");
        self.machine.report_rebuilt_status(message, now);
    }

    /// Loads the plan of an operation that hasn't started.
    pub(super) async fn load_plan(&mut self) {
        if let Some(hash) = self.machine.plan_to_load()
            && let Ok(plan) = load_pending_plan(&self.shared, hash).await
        {
            self.machine.set_pending_plan(plan);
        }
    }
}
