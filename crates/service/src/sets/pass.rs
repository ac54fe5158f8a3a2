//! One look at a set: what it generates, what is done to its Applications, and what a progressive sync would be about. It
//! can be given up at any moment: all that it does is safe to be done again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_applicationset::changes::{Changes, Generated, reconcile};
use tidegate_applicationset::deletion;
use tidegate_applicationset::policy::is_progressive;
use tidegate_applicationset::rollout::{NotAsked, Targets, participants, request};
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{Outcome, generate};
use tidegate_lifecycle::rollout::{Request, State};
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;
use tokio::sync::Mutex;

use super::rolling::Prunes;
use super::shared::SetShared;
use super::standing::{Found, Standings};
use super::world::{LiveWorld, Occasion};
use super::writing::{self, Writes};
use super::{key_of, members, wrote};

/// What is looked at.
pub(crate) struct Look {
    pub set: ApplicationSet,
    /// What it has generated the last time; it is generated anew where there is nothing.
    pub generated: Option<Arc<Generated>>,
    /// Names that were refused when all was known that it generates, and why.
    pub refused: Arc<BTreeMap<String, String>>,
    /// Whether repositories are asked for what is new.
    pub is_fresh: bool,
    /// The newest rollout of the set.
    pub last: Option<State>,
    pub standings: Arc<Mutex<Standings>>,
    pub prunes: Prunes,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Passed {
    /// What is generated, as far as its generators have not failed; `None` where all have.
    pub generated: Option<Arc<Generated>>,
    /// What was to be done.
    pub changes: Changes,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// The finalizers that it has now, where they are others.
    pub finalizers: Option<Vec<String>>,
    /// Something was written of which nobody has told yet, or somebody was faster: it is looked at again when that is told. Or
    /// something could not be written for the moment, and is tried again.
    pub is_unsettled: bool,
    /// The progressive sync that it asks for.
    pub request: Option<Result<Request, NotAsked>>,
    /// Whether the newest rollout was under way when it was looked how all stand.
    pub saw_open: bool,
    /// How long it took.
    pub took: Duration,
}

/// Looks at a set.
pub(crate) async fn pass(shared: Arc<SetShared>, look: Look) -> Passed {
    let began = SystemClock.now();
    let mut passed = looked(&shared, look).await;
    passed.took = SystemClock.now().since(began);
    passed
}

async fn looked(shared: &Arc<SetShared>, look: Look) -> Passed {
    let Look { mut set, generated, refused, is_fresh, last, standings, prunes } = look;
    let mut passed = Passed::default();
    // Before the first of its Applications: nobody could keep their order otherwise.
    if let Some(finalizers) = deletion::finalizers(&set, &shared.options) {
        set.metadata.finalizers.clone_from(&finalizers);
        if let Err(error) = shared.store.mark(&set).await {
            passed.failure = Some(wrote(Reason::RefreshApplicationError, &error.to_string()));
            return passed;
        }
        passed.finalizers = Some(finalizers);
    }
    let generated = match generated {
        Some(generated) => Ok(generated),
        None => generated_by(shared, &set, Occasion::Pass { is_fresh }).await.map(|mut generated| {
            generated.keep_refused(&refused);
            Arc::new(generated)
        }),
    };
    let existing = members::existing(shared, &set, generated.as_deref().ok());
    let known = shared.applications.as_ref();
    let changes = reconcile(&set, generated.as_deref(), &existing, known, &shared.options);
    let in_order = changes.order != Order::AllAtOnce;
    let deletes = if in_order { &[] } else { changes.delete.as_slice() };
    let Writes { done, outdated, failed, is_passing } = writing::write(shared, &changes, deletes).await;
    passed.failure = changes.failure().or_else(|| failed.values().next_back().cloned());
    // A step must not pass without one of its Applications because the cluster was away for a moment.
    passed.is_unsettled = done || outdated || is_passing;
    if let Ok(generated) = generated {
        // Without those of a generator that has failed, a step could pass that waits for them.
        let is_whole = generated.failed.is_empty();
        if is_whole {
            prunes.set(generated.applications.values());
        }
        if is_progressive(&set, &shared.options) && is_whole && !passed.is_unsettled {
            let who =
                participants(&generated, &changes).filter(|one| !failed.contains_key(&one.metadata.name));
            let who: Vec<_> = who.cloned().collect();
            passed.saw_open = last.as_ref().is_some_and(|last| !last.is_finished());
            passed.request = Some(asked(shared, &set, &who, last.as_ref(), (&standings, is_fresh)).await);
        }
        passed.generated = Some(generated);
    }
    passed.changes = changes;
    passed
}

/// What a set generates, as the pure part of the house takes it. Applications of repositories that have moved are compared.
pub(super) async fn generated_by(
    shared: &Arc<SetShared>,
    set: &ApplicationSet,
    occasion: Occasion,
) -> Result<Generated, Failure> {
    let (shared, set) = (Arc::clone(shared), set.clone());
    let work = move || {
        let now = SystemClock.now().as_millis().div_euclid(1000);
        let options = tidegate_generate::Options { now: Some(now), ..shared.generating.clone() };
        let mut world = LiveWorld::new(&shared.applications, &set, occasion);
        let generated = match generate(&set, &mut world, &options) {
            Ok(Outcome::Done(done)) => Ok(taken(done)),
            Ok(Outcome::Unknown) => {
                Err(failed("what its generators ask for is not there yet; it is asked again".to_owned()))
            }
            Err(errors) => Err(failed(errors.to_string())),
        };
        shared.applications.tell_moved(world.moved(), None);
        generated
    };
    let fault = |error| Err(failed(format!("generating it met a fault: {error}")));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(fault)
}

pub(super) fn failed(message: String) -> Failure {
    Failure { reason: Reason::ApplicationGenerationFromParamsError, message }
}

/// What a set has generated, as it is compared with what is there.
pub fn taken(done: tidegate_generate::Generated) -> Generated {
    let tidegate_generate::Generated { applications, refused, passed, failed } = done;
    let name = |one: tidegate_generate::Made| (one.application.metadata.name.clone(), one.application);
    Generated {
        applications: applications.into_iter().map(name).collect(),
        refused: refused.iter().map(|one| (one.name().to_owned(), one.to_string())).collect(),
        silent: passed.iter().map(|one| format!("{}: {}", one.place, one.reason)).collect(),
        failed: failed.iter().map(ToString::to_string).collect(),
    }
}

fn first(errors: Vec<IgnoreError>) -> NotAsked {
    // There is one, or nothing would have been refused.
    errors.into_iter().next().map_or_else(|| NotAsked::Unresolved(String::new()), NotAsked::Ignore)
}

/// The progressive sync that a set asks for. What is not to be written holds nobody else up.
async fn asked(
    shared: &Arc<SetShared>,
    set: &ApplicationSet,
    who: &[Application],
    last: Option<&State>,
    (standings, is_fresh): (&Mutex<Standings>, bool),
) -> Result<Request, NotAsked> {
    let targets = Targets::of(set).map_err(first)?;
    let key = key_of(set);
    let mut standings = standings.lock().await;
    let Found { standing, unknown } =
        standings.find(&shared.applications, (&key, &targets), who, last, is_fresh).await;
    for (application, why) in unknown {
        tracing::debug!(set = %key, application, why, "what an Application is to be brought to is not known");
    }
    request(set, &targets, who, &standing, shared.cases)
}
