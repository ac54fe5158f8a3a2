//! Operations of applications that ended, as Argo CD counts them.

use std::collections::BTreeMap;

use tidegate_model::Timestamp;
use tidegate_model::argo::Time;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

/// What is counted of each application; what is gone is forgotten, so there are no more than applications.
pub(crate) struct Syncs {
    /// What ended before is known, and not counted.
    since: Time,
    of: BTreeMap<AppKey, Of>,
}

/// What is counted of one.
#[derive(Default)]
pub(crate) struct Of {
    pub project: String,
    pub cluster: String,
    /// By phase, and whether it was a dry run.
    pub ended: BTreeMap<(String, bool), u64>,
    pub seconds: u64,
    /// When the operation ended that was counted last.
    last: Option<Time>,
}

impl Syncs {
    /// Nothing has ended since then.
    pub fn new(since: Timestamp) -> Self {
        Self { since: since.into(), of: BTreeMap::new() }
    }

    /// How an application stands now, and whether its operation was a dry run. It may have ended before anybody looked.
    pub fn stands(&mut self, key: &AppKey, line: Option<(&ApplicationLine, bool)>) {
        let Some((line, dry_run)) = line else {
            self.of.remove(key);
            return;
        };
        let ended = line.operation.as_ref().and_then(|operation| Some((operation, operation.finished_at?)));
        let of = self.of.entry(key.clone()).or_default();
        of.project.clone_from(&line.project);
        of.cluster.clone_from(&line.destination.cluster);
        let Some((operation, at)) = ended else { return };
        if of.last.replace(at) == Some(at) || at.moment() < self.since.moment() {
            return;
        }
        let count = of.ended.entry((operation.phase.to_string(), dry_run)).or_default();
        *count = count.saturating_add(1);
        let took = operation.started_at.map(|began| at.moment().since(began.moment()).as_secs());
        of.seconds = of.seconds.saturating_add(took.unwrap_or_default());
    }

    pub fn all(&self) -> impl Iterator<Item = (&AppKey, &Of)> {
        self.of.iter()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;
    use tidegate_model::argo::Application;

    use super::*;

    /// An application whose operation has ended so many seconds after midnight.
    fn ended(second: i64) -> ApplicationLine {
        let at = |second: i64| Time::from(Timestamp::from_millis(second * 1000)).to_string();
        let operation = json!({
            "operation": {"sync": {}}, "phase": "Succeeded", "startedAt": at(second - 3), "finishedAt": at(second),
        });
        let application: Application = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {"operationState": operation},
        }))
        .unwrap();
        ApplicationLine::from(&application)
    }

    #[test]
    fn what_ends_is_counted_once_also_if_nobody_saw_it_begin_and_what_ended_before_is_not() {
        let key = AppKey { namespace: "argocd".to_owned(), name: "shop".to_owned() };
        for (seconds, counted) in
            [(vec![99], 0), (vec![101], 1), (vec![101, 101], 1), (vec![99, 101], 1), (vec![101, 105], 2)]
        {
            let mut syncs = Syncs::new(Timestamp::from_millis(100_400));
            for second in &seconds {
                syncs.stands(&key, Some((&ended(*second), false)));
            }
            let found: u64 = syncs.all().flat_map(|(_, of)| of.ended.values()).sum();
            assert_eq!(found, counted, "{seconds:?}");
        }
    }
}
