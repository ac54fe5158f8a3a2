//! When is a set looked at again, though nothing has happened that anybody told of?

use std::time::Duration;

use tidegate_model::argo::{ApplicationSet, ApplicationSetGenerator, Generator};

use crate::generators::any;
use crate::policy::Options;

/// How often generators are asked that look at Git or at resources, where nobody says it.
pub const REQUEUE_AFTER: Duration = Duration::from_secs(180);
/// What the service may say of it.
pub const REQUEUE_AFTER_MIN: Duration = Duration::from_secs(1);
/// What the service may say of it: a year.
pub const REQUEUE_AFTER_MAX: Duration = Duration::from_secs(8760 * 3600);
/// How often generators are asked that ask other services, where they do not say it.
const SERVICES_AFTER: Duration = Duration::from_secs(1800);
/// When a set is looked at again that could not be generated, or has Applications that are refused.
const AFTER_FAILURE: Duration = Duration::from_secs(180);

/// How a look at a set has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Not all of it was generated, because generators or templates have failed.
    Failed,
    /// Something of it is wrong, and the rest is done.
    Partly,
    /// All of it is done.
    Well,
}

/// How long after a look the next one is due by itself; `None`: it is not.
pub fn again_after(set: &ApplicationSet, ended: Ended, options: &Options) -> Option<Duration> {
    match ended {
        Ended::Failed => Some(AFTER_FAILURE),
        Ended::Partly => Some(soonest(&set.spec.generators, options).unwrap_or(AFTER_FAILURE)),
        Ended::Well => soonest(&set.spec.generators, options),
    }
}

/// Whether the clusters that are declared have to do with what a set generates.
pub fn asks_for_clusters(set: &ApplicationSet) -> bool {
    any(&set.spec.generators, &|generator| {
        matches!(generator, Generator::Clusters(_) | Generator::ClusterDecisionResource(_))
    })
}

fn soonest(entries: &[ApplicationSetGenerator], options: &Options) -> Option<Duration> {
    entries
        .iter()
        .flat_map(ApplicationSetGenerator::generators)
        .filter_map(|one| interval(one, options))
        .min()
}

fn interval(generator: Generator<'_>, options: &Options) -> Option<Duration> {
    let looks = |said: Option<i64>| said.and_then(seconds).or(Some(options.requeue_after));
    let asks = |said: Option<i64>| said.map_or(Some(SERVICES_AFTER), seconds);
    match generator {
        Generator::List(_) | Generator::Clusters(_) => None,
        Generator::Git(git) => looks(git.requeue_after_seconds),
        Generator::ClusterDecisionResource(one) => looks(one.requeue_after_seconds),
        Generator::ScmProvider(scm) => asks(scm.requeue_after_seconds),
        Generator::PullRequest(requests) => asks(requests.requeue_after_seconds),
        Generator::Plugin(plugin) => asks(plugin.requeue_after_seconds),
        Generator::Matrix(matrix) => soonest(&matrix.generators, options),
        Generator::Merge(merge) => soonest(&merge.generators, options),
    }
}

/// An interval that somebody wrote down; nothing where it is none.
fn seconds(said: i64) -> Option<Duration> {
    let said = u64::try_from(said).ok().filter(|said| *said > 0)?;
    Some(Duration::from_secs(said).min(REQUEUE_AFTER_MAX))
}
