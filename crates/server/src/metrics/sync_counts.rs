//! Finished operations of applications, counted as in Argo CD.

use std::collections::BTreeMap;

use tidegate_application::AppKey;
use tidegate_model::Timestamp;
use tidegate_model::argo::Time;
use tidegate_state::summaries::ApplicationSummary;

/// Counts of finished operations, by application. Those of removed applications are dropped.
pub(crate) struct SyncCounts {
    /// Operations that finished before this time are ignored.
    since: Time,
    applications: BTreeMap<AppKey, ApplicationCounts>,
}

/// Counts of one application.
#[derive(Default)]
pub(crate) struct ApplicationCounts {
    pub project: String,
    pub cluster: String,
    /// Number of operations, by outcome and dry run.
    pub outcomes: BTreeMap<(String, bool), u64>,
    pub total_seconds: u64,
    /// End time of the last counted operation.
    last_ended_at: Option<Time>,
}

impl SyncCounts {
    /// Creates empty counts that start at `since`.
    pub fn new(since: Timestamp) -> Self {
        Self { since: since.into(), applications: BTreeMap::new() }
    }

    /// Updates an application's state and dry-run flag. An operation may already have finished when first
    /// observed.
    pub fn record_application(&mut self, key: &AppKey, line: Option<(&ApplicationSummary, bool)>) {
        let Some((line, dry_run)) = line else {
            self.applications.remove(key);
            return;
        };
        let ended = line.operation.as_ref().and_then(|operation| Some((operation, operation.finished_at?)));
        let of = self.applications.entry(key.clone()).or_default();
        of.project.clone_from(&line.project);
        of.cluster.clone_from(&line.destination.cluster);
        let Some((operation, at)) = ended else { return };
        if of.last_ended_at.replace(at) == Some(at) || at.timestamp() < self.since.timestamp() {
            return;
        }
        let count = of.outcomes.entry((operation.outcome.to_string(), dry_run)).or_default();
        *count = count.saturating_add(1);
        let took = operation.started_at.map(|began| at.timestamp().since(began.timestamp()).as_secs());
        of.total_seconds = of.total_seconds.saturating_add(took.unwrap_or_default());
    }

    pub fn applications(&self) -> impl Iterator<Item = (&AppKey, &ApplicationCounts)> {
        self.applications.iter()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;
    use tidegate_model::argo::Application;

    use super::*;

    /// Returns an application whose operation ended at this second after midnight.
    fn ended_operation(second: i64) -> ApplicationSummary {
        ended_operation_with(second, "Succeeded", "successfully synced")
    }

    fn ended_operation_with(second: i64, phase: &str, message: &str) -> ApplicationSummary {
        let at = |second: i64| Time::from(Timestamp::from_millis(second * 1000)).to_string();
        let operation = json!({
            "operation": {"sync": {}}, "phase": phase, "message": message, "startedAt": at(second - 3), "finishedAt": at(second),
        });
        let application: Application = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {"operationState": operation},
        }))
        .unwrap();
        ApplicationSummary::from(&application)
    }

    #[test]
    fn a_superseded_operation_does_not_count_as_failed() {
        let key = AppKey { namespace: "argocd".to_owned(), name: "shop".to_owned() };
        let mut syncs = SyncCounts::new(Timestamp::from_millis(0));
        let superseded = "Operation terminated, superseded by another sync (revision c2)";
        for (second, message) in
            [(11, superseded), (22, "one or more objects failed to apply"), (33, superseded)]
        {
            syncs.record_application(&key, Some((&ended_operation_with(second, "Failed", message), false)));
        }
        let counted: Vec<_> = syncs.applications().flat_map(|(_, of)| of.outcomes.clone()).collect();
        let of = |phase: &str, count| ((phase.to_owned(), false), count);
        assert_eq!(counted, [of("Failed", 1), of("Superseded", 2)]);
    }

    #[test]
    fn operations_that_end_after_the_start_are_counted_once() {
        let key = AppKey { namespace: "argocd".to_owned(), name: "shop".to_owned() };
        for (seconds, counted) in
            [(vec![99], 0), (vec![101], 1), (vec![101, 101], 1), (vec![99, 101], 1), (vec![101, 105], 2)]
        {
            let mut syncs = SyncCounts::new(Timestamp::from_millis(100_400));
            for second in &seconds {
                syncs.record_application(&key, Some((&ended_operation(*second), false)));
            }
            let found: u64 = syncs.applications().flat_map(|(_, of)| of.outcomes.values()).sum();
            assert_eq!(found, counted, "{seconds:?}");
        }
    }
}
