//! Operations of applications that ended, as Argo CD counts them.

use std::collections::BTreeMap;

use tidegate_model::argo::Time;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

/// What is counted of each application; what is gone is forgotten, so there are no more than applications.
#[derive(Default)]
pub(crate) struct Syncs(BTreeMap<AppKey, Of>);

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
    /// How an application stands now, and whether its operation was a dry run. The first time, what has ended is known and
    /// not counted.
    pub fn stands(&mut self, key: &AppKey, line: Option<(&ApplicationLine, bool)>) {
        let Some((line, dry_run)) = line else {
            self.0.remove(key);
            return;
        };
        let ended = line.operation.as_ref().and_then(|operation| Some((operation, operation.finished_at?)));
        let is_new = !self.0.contains_key(key);
        let of = self.0.entry(key.clone()).or_default();
        of.project.clone_from(&line.project);
        of.cluster.clone_from(&line.destination.cluster);
        let Some((operation, at)) = ended else { return };
        if of.last.replace(at) == Some(at) || is_new {
            return;
        }
        let count = of.ended.entry((operation.phase.to_string(), dry_run)).or_default();
        *count = count.saturating_add(1);
        let took = operation.started_at.map(|began| at.moment().since(began.moment()).as_secs());
        of.seconds = of.seconds.saturating_add(took.unwrap_or_default());
    }

    pub fn all(&self) -> impl Iterator<Item = (&AppKey, &Of)> {
        self.0.iter()
    }
}
