//! Time of an ApplicationSet's next scheduled reconciliation.

use std::time::Duration;

use tidegate_model::argo::{ApplicationSet, ApplicationSetGenerator, Generator};

use crate::generators::has_generator;
use crate::sync_policy::AppSetRuleOptions;
pub use crate::sync_policy::REQUEUE_AFTER;

/// Minimum value of the service option.
pub const REQUEUE_AFTER_MIN: Duration = Duration::from_secs(1);
/// Maximum value of the service option: a year.
pub const REQUEUE_AFTER_MAX: Duration = Duration::from_secs(8760 * 3600);
/// Default interval for generators that send requests to other services.
const REMOTE_REQUEUE_AFTER: Duration = Duration::from_secs(1800);
/// Delay after failed generators or rejected Applications.
const FAILURE_REQUEUE_AFTER: Duration = Duration::from_secs(180);

/// Result of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileOutcome {
    /// The output is incomplete because generators or templates have failed.
    Failed,
    /// Problems occurred, but the output is complete.
    Partial,
    /// The reconciliation is complete.
    Complete,
}

/// Returns the delay before the next scheduled reconciliation, or `None` if there is none.
pub fn requeue_delay(
    set: &ApplicationSet,
    ended: ReconcileOutcome,
    options: &AppSetRuleOptions,
) -> Option<Duration> {
    match ended {
        ReconcileOutcome::Failed => Some(FAILURE_REQUEUE_AFTER),
        ReconcileOutcome::Partial => {
            Some(shortest_interval(&set.spec.generators, options).unwrap_or(FAILURE_REQUEUE_AFTER))
        }
        ReconcileOutcome::Complete => shortest_interval(&set.spec.generators, options),
    }
}

/// Returns true if an ApplicationSet's output depends on the declared clusters.
pub fn uses_clusters(set: &ApplicationSet) -> bool {
    has_generator(&set.spec.generators, &|generator| {
        matches!(generator, Generator::Clusters(_) | Generator::ClusterDecisionResource(_))
    })
}

fn shortest_interval(entries: &[ApplicationSetGenerator], options: &AppSetRuleOptions) -> Option<Duration> {
    entries
        .iter()
        .flat_map(ApplicationSetGenerator::generators)
        .filter_map(|one| interval(one, options))
        .min()
}

fn interval(generator: Generator<'_>, options: &AppSetRuleOptions) -> Option<Duration> {
    let interval_or_default =
        |said: Option<i64>| said.and_then(positive_seconds).or(Some(options.requeue_after));
    let asks = |said: Option<i64>| said.map_or(Some(REMOTE_REQUEUE_AFTER), positive_seconds);
    match generator {
        Generator::List(_) | Generator::Clusters(_) => None,
        Generator::Git(git) => interval_or_default(git.requeue_after_seconds),
        Generator::ClusterDecisionResource(one) => interval_or_default(one.requeue_after_seconds),
        Generator::ScmProvider(scm) => asks(scm.requeue_after_seconds),
        Generator::PullRequest(requests) => asks(requests.requeue_after_seconds),
        Generator::Plugin(plugin) => asks(plugin.requeue_after_seconds),
        Generator::Matrix(matrix) => shortest_interval(&matrix.generators, options),
        Generator::Merge(merge) => shortest_interval(&merge.generators, options),
    }
}

/// Returns the configured interval, or `None` if it isn't positive.
fn positive_seconds(said: i64) -> Option<Duration> {
    let said = u64::try_from(said).ok().filter(|said| *said > 0)?;
    Some(Duration::from_secs(said).min(REQUEUE_AFTER_MAX))
}
