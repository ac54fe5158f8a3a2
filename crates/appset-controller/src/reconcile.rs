//! A reconcile pass, which generates and updates an ApplicationSet's Applications and prepares a progressive
//! sync. All of its steps are safe to repeat, so it can be aborted at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_applicationset::changes::{AppSetChanges, AppSetOutput, reconcile};
use tidegate_applicationset::deletion;
use tidegate_applicationset::rollout::{
    RolloutRequestError, TargetIdentities, participants, rollout_request,
};
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_applicationset::sync_policy::is_progressive;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{GenerateOutcome, generate};
use tidegate_lifecycle::rollout::{Request, State};
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;
use tokio::sync::Mutex;

use super::live_inputs::{GenerationPurpose, LiveInputs};
use super::member_status::{MemberStatusCache, MemberStatuses, ObservedAppSet};
use super::rollout_effects::PruningApplications;
use super::shared::AppSetShared;
use super::writes::{self, WriteSummary};
use super::{members, write_failure};

/// Input for a pass.
pub struct ReconcileInput {
    pub set: ApplicationSet,
    /// Most recently generated Applications, or `None` to regenerate them.
    pub generated: Option<Arc<AppSetOutput>>,
    /// Rejected names and the reasons, from the last pass without failed generators.
    pub refused: Arc<BTreeMap<String, String>>,
    /// True if repositories must be queried for new revisions.
    pub is_fresh: bool,
    /// The ApplicationSet's newest rollout.
    pub last: Option<State>,
    pub member_status: Arc<Mutex<MemberStatusCache>>,
    pub prunes: PruningApplications,
}

/// Result of a pass.
#[derive(Default)]
pub struct ReconcileResult {
    /// Generated Applications, except those of failed generators. `None` if all generators failed.
    pub generated: Option<Arc<AppSetOutput>>,
    /// Required changes to the Applications.
    pub changes: AppSetChanges,
    /// Reason the pass failed.
    pub failure: Option<ReconcileFailure>,
    /// New finalizers for the ApplicationSet, or `None` if they are unchanged.
    pub finalizers: Option<Vec<String>>,
    /// True if another pass is needed, because a write conflicted, failed temporarily, or hasn't shown up in
    /// an event yet.
    pub needs_another_pass: bool,
    /// Requested progressive sync.
    pub request: Option<Result<Request, RolloutRequestError>>,
    /// Reasons manifests couldn't be compared with the target's, by Application.
    pub awaited: BTreeMap<String, String>,
    /// True if the newest rollout was running when the Applications were observed.
    pub saw_running_rollout: bool,
    /// Duration of the pass.
    pub duration: Duration,
}

/// Runs a pass.
pub async fn run_pass(shared: Arc<AppSetShared>, input: ReconcileInput) -> ReconcileResult {
    let began = SystemClock.now();
    let mut passed = compute_pass(&shared, input).await;
    passed.duration = SystemClock.now().since(began);
    passed
}

async fn compute_pass(shared: &Arc<AppSetShared>, input: ReconcileInput) -> ReconcileResult {
    let ReconcileInput { mut set, generated, refused, is_fresh, last, member_status, prunes } = input;
    let mut passed = ReconcileResult::default();
    // Set the finalizers before creating the first Application, or else the deletion order couldn't be
    // enforced.
    if let Some(finalizers) = deletion::with_finalizer(&set, &shared.options) {
        set.metadata.finalizers.clone_from(&finalizers);
        if let Err(error) = shared.store.write_finalizer(&set).await {
            passed.failure =
                Some(write_failure(ConditionReason::RefreshApplicationError, &error.to_string()));
            return passed;
        }
        passed.finalizers = Some(finalizers);
    }
    let generated = match generated {
        Some(generated) => Ok(generated),
        None => generate_applications(shared, &set, GenerationPurpose::Reconcile { is_fresh }).await.map(
            |mut generated| {
                generated.keep_rejected(&refused);
                Arc::new(generated)
            },
        ),
    };
    let existing = members::existing_members(shared, &set, generated.as_deref().ok());
    let known = shared.applications.as_ref();
    let changes = reconcile(&set, generated.as_deref(), &existing, known, &shared.options);
    let in_order = changes.order != Order::AllAtOnce;
    let deletes = if in_order { &[] } else { changes.delete.as_slice() };
    let WriteSummary { has_written, is_outdated, failures, is_transient } =
        writes::write_changes(shared, &changes, deletes).await;
    passed.failure = changes.failure().or_else(|| failures.values().next_back().cloned());
    // After a temporary failure, another pass is needed so that no step completes without an Application.
    passed.needs_another_pass = has_written || is_outdated || is_transient;
    if let Ok(generated) = generated {
        // A step that must wait for a failed generator's Applications could complete if they were simply
        // missing.
        let is_whole = generated.errors.is_empty();
        if is_whole {
            prunes.set(generated.applications.values());
        }
        if is_progressive(&set, &shared.options) && is_whole && !passed.needs_another_pass {
            let who =
                participants(&generated, &changes).filter(|one| !failures.contains_key(&one.metadata.name));
            let who: Vec<_> = who.cloned().collect();
            passed.saw_running_rollout = last.as_ref().is_some_and(|last| !last.is_finished());
            let (request, awaited) =
                requested_rollout(shared, &set, &who, last.as_ref(), &member_status, is_fresh).await;
            (passed.request, passed.awaited) = (Some(request), awaited);
        }
        passed.generated = Some(generated);
    }
    passed.changes = changes;
    passed
}

/// Generates an ApplicationSet's Applications in the form that the pure crates use. Starts comparing
/// Applications of changed repositories.
pub(super) async fn generate_applications(
    shared: &Arc<AppSetShared>,
    set: &ApplicationSet,
    occasion: GenerationPurpose,
) -> Result<AppSetOutput, ReconcileFailure> {
    let (shared, set) = (Arc::clone(shared), set.clone());
    let work = move || {
        let now = SystemClock.now().as_millis().div_euclid(1000);
        let options = tidegate_generate::Options { now: Some(now), ..shared.generator_options.clone() };
        let mut world = LiveInputs::new(&shared.applications, &set, occasion);
        let generated = match generate(&set, &mut world, &options) {
            Ok(GenerateOutcome::Done(done)) => Ok(to_appset_output(done)),
            Ok(GenerateOutcome::Incomplete) => Err(generation_failure(
                "the data for the ApplicationSet's generators is not available yet; retrying".to_owned(),
            )),
            Err(errors) => Err(generation_failure(errors.to_string())),
        };
        shared.applications.notify_changed_repositories(world.changed_repositories(), None);
        generated
    };
    let fault = |error| {
        Err(generation_failure(format!("generating the Applications failed with an internal error: {error}")))
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(fault)
}

pub(super) fn generation_failure(message: String) -> ReconcileFailure {
    ReconcileFailure { reason: ConditionReason::ApplicationGenerationFromParamsError, message }
}

/// Converts a generator result for comparison with existing Applications.
pub fn to_appset_output(done: tidegate_generate::GenerateOutput) -> AppSetOutput {
    let tidegate_generate::GenerateOutput {
        applications,
        rejected: refused,
        skipped: passed,
        errors: failed,
        unknown_tags,
    } = done;
    let name = |one: tidegate_generate::GeneratedApplication| {
        (one.application.metadata.name.clone(), one.application)
    };
    AppSetOutput {
        applications: applications.into_iter().map(name).collect(),
        rejected: refused.iter().map(|one| (one.name().to_owned(), one.to_string())).collect(),
        without_output: passed.iter().map(|one| format!("{}: {}", one.place, one.reason)).collect(),
        errors: failed.iter().map(ToString::to_string).collect(),
        warnings: unknown_tags.iter().map(ToString::to_string).collect(),
    }
}

fn first_error(errors: Vec<IgnoreError>) -> RolloutRequestError {
    // The list isn't empty, or the request wouldn't have been rejected.
    errors.into_iter().next().map_or_else(
        || RolloutRequestError::Unresolved(String::new()),
        RolloutRequestError::InvalidIgnoreRules,
    )
}

/// Returns the progressive sync that an ApplicationSet requests, and the reasons manifests couldn't be
/// compared with the target's. An Application that can't be written doesn't block others.
async fn requested_rollout(
    shared: &Arc<AppSetShared>,
    set: &ApplicationSet,
    who: &[Application],
    last: Option<&State>,
    member_status: &Mutex<MemberStatusCache>,
    is_fresh: bool,
) -> (Result<Request, RolloutRequestError>, BTreeMap<String, String>) {
    let targets = match TargetIdentities::from_appset(set) {
        Ok(targets) => targets,
        Err(errors) => return (Err(first_error(errors)), BTreeMap::new()),
    };
    let key = AppKey::of_appset(set);
    let observed = ObservedAppSet { key: &key, targets: &targets, last };
    let mut member_status = member_status.lock().await;
    let MemberStatuses { members, unknown, awaited } =
        member_status.collect(&shared.applications, observed, who, is_fresh).await;
    for (application, reason) in unknown {
        tracing::debug!(set = %key, application, reason, "failed to determine the target or deployed revisions of an Application");
    }
    (rollout_request(set, &targets, who, &members, shared.cases), awaited)
}
