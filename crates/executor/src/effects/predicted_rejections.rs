//! Predicts through dry runs which planned changes the server would reject.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_model::{Action, LiveObject, ObjectKey, OperationId, Severity, SyncRequest, Task, Warning};
use tidegate_planner::{Comparer, PlanResult};

use super::comparison::{ComparisonPurpose, compare, index_by_key};

/// Code of the finding about a field that can't be changed.
const IMMUTABLE: &str = "immutable-field";
/// Maximum number of attempts at a dry run that conflicts with other writers.
const DRY_RUN_ATTEMPTS_MAX: usize = 3;

/// Returns findings about planned changes that the server would reject according to dry runs. Doesn't write
/// to the cluster.
pub(super) async fn predict_rejections(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    planned: &PlanResult,
    live: &[LiveObject],
) -> Vec<Warning> {
    let by_key = index_by_key(live);
    let comparer = Comparer::default();
    let changes = |task: &Task| {
        let manifest = planned.manifests.get(task.manifest?.index())?;
        let live = by_key.get(&task.key())?.unpack();
        Some(!comparer.estimated_difference(manifest, &live, &[]).changes.is_empty())
    };
    let is_change = |task: &&Task| {
        matches!(task.action, Action::Apply | Action::Replace)
            && !task.options.force
            && !task.options.already_deleting
            && !task.options.checked
            && changes(task) == Some(true)
    };
    let mut changed: BTreeSet<ObjectKey> =
        planned.plan.tasks.iter().filter(is_change).map(Task::key).collect();
    let mut warnings = Vec::new();
    // Retry conflicts: the dry run of a replacement conflicts with concurrent updates of the object's status.
    for _ in 0..DRY_RUN_ATTEMPTS_MAX {
        if changed.is_empty() {
            break;
        }
        let asked_now = std::mem::take(&mut changed);
        let ask = |task: &Task, _| asked_now.contains(&task.key());
        let compared =
            compare(cluster, operation, request, planned, live, ComparisonPurpose::Sync, ask).await;
        for compared in compared {
            let (Err(refused), Some(task)) = (compared.outcome, planned.plan.task(compared.task)) else {
                continue;
            };
            if refused.kind == ErrorKind::Conflict {
                changed.insert(task.key());
            } else if !refused.immutable_fields().is_empty() {
                warnings.push(Warning {
                    severity: Severity::Warning,
                    code: IMMUTABLE.to_owned(),
                    object: Some(task.key().to_string()),
                    origin: None,
                    message: format!("the cluster will reject the change: {}", refused.message),
                });
            }
        }
    }
    warnings
}
