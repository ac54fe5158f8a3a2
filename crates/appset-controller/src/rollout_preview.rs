//! Preview of a progressive sync: the Applications that it would create and delete, and the targets of each
//! step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::AppKey;
use tidegate_applicationset::changes::{AppSetOutput, reconcile};
use tidegate_applicationset::ownership;
use tidegate_applicationset::preview::{self, MembersPreview};
use tidegate_applicationset::rollout::{KnownMember, TargetIdentities, participants, rollout_request};
use tidegate_applicationset::status::ReconcileFailure;
use tidegate_applicationset::sync_policy::is_progressive;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationSetSpec};

use super::live_inputs::GenerationPurpose;
use super::member_status::{MemberStatusCache, MemberStatuses, ObservedAppSet};
use super::members;
use super::reconcile::{generate_applications, generation_failure};
use super::shared::AppSetShared;

/// Lifetime of a cached generator result. The generators run at most once in this period, no matter how many
/// previews are requested.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);

/// Preview of an ApplicationSet's progressive sync, based on the Applications that it currently generates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPreview {
    /// The rollout as it would start. `None` if each Application is synced according to its own policy.
    pub rollout: Option<RolloutView>,
    /// Deployed revisions, one per source, by Application name. Applications without deployed revisions are
    /// omitted.
    #[serde(rename = "currentRevisions")]
    pub before: BTreeMap<String, Vec<String>>,
    /// Reasons why the targets of some Applications couldn't be determined yet, by Application name.
    #[serde(rename = "unresolved")]
    pub unknown: BTreeMap<String, String>,
    /// Applications that would be created, updated and deleted before the rollout. If the generators fail,
    /// this field contains only the reason, and the preview is based on the existing Applications.
    pub applications: MembersPreview,
}

type GeneratorResult = Result<Arc<AppSetOutput>, ReconcileFailure>;

/// Cached result of an ApplicationSet's generators.
struct CachedResult {
    at: Timestamp,
    spec: ApplicationSetSpec,
    result: GeneratorResult,
}

/// Cache entry for an ApplicationSet.
type CacheEntry = Arc<tokio::sync::Mutex<Option<CachedResult>>>;

/// Cache of generator results for previews. Concurrent previews of an ApplicationSet share a run of its
/// generators.
#[derive(Clone, Default)]
pub(super) struct PreviewCache(Arc<Mutex<BTreeMap<AppKey, CacheEntry>>>);

impl PreviewCache {
    async fn generate(&self, shared: &Arc<AppSetShared>, set: &ApplicationSet) -> GeneratorResult {
        let (shared, appset) = (Arc::clone(shared), set.clone());
        self.get_or_run(set, async move {
            generate_applications(&shared, &appset, GenerationPurpose::Preview).await.map(Arc::new)
        })
        .await
    }

    /// Returns the cached result, or waits for the current run or a new one. A run continues even if its
    /// callers are canceled, so that the next caller gets its result.
    async fn get_or_run(
        &self,
        set: &ApplicationSet,
        ask: impl Future<Output = GeneratorResult> + Send + 'static,
    ) -> GeneratorResult {
        let mut place = self.entry(AppKey::of_appset(set)).lock_owned().await;
        let counts =
            |one: &&CachedResult| one.spec == set.spec && SystemClock.now().since(one.at) < CACHE_LIFETIME;
        if let Some(known) = place.as_ref().filter(counts) {
            return known.result.clone();
        }
        let spec = set.spec.clone();
        let asking = tokio::spawn(async move {
            let answer = ask.await;
            *place = Some(CachedResult { at: SystemClock.now(), spec, result: answer.clone() });
            answer
        });
        asking.await.unwrap_or_else(|fault| {
            Err(generation_failure(format!(
                "generating the Applications failed with an internal error: {fault}"
            )))
        })
    }

    /// Returns the cache entry for an ApplicationSet, removing expired entries.
    fn entry(&self, set: AppKey) -> CacheEntry {
        let now = SystemClock.now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old =
            |one: &Option<CachedResult>| one.as_ref().is_none_or(|one| now.since(one.at) >= CACHE_LIFETIME);
        all.retain(|_, place| {
            Arc::strong_count(place) > 1 || !place.try_lock().is_ok_and(|one| is_old(&one))
        });
        Arc::clone(all.entry(set).or_default())
    }
}

/// Previews an ApplicationSet's progressive sync. Runs the generators, but never starts a rollout or writes
/// an Application.
pub(super) async fn preview_rollout(
    shared: &Arc<AppSetShared>,
    set: &ApplicationSet,
    outlook: &PreviewCache,
) -> Result<RolloutPreview, String> {
    let generated = outlook.generate(shared, set).await;
    let existing = members::existing_members(shared, set, generated.as_deref().ok());
    let (who, applications) = match &generated {
        Ok(generated) => preview_members(shared, set, generated, &existing),
        Err(failure) => {
            let problems = vec![failure.message.clone()];
            let there = ownership::owned_applications(set, &existing).cloned().collect();
            (there, MembersPreview { problems, ..MembersPreview::default() })
        }
    };
    let preview = RolloutPreview { applications, ..RolloutPreview::default() };
    if is_progressive(set, &shared.options) {
        add_rollout(shared, set, &who, preview).await
    } else {
        Ok(preview)
    }
}

/// Returns the participants in a progressive sync, and the preceding changes to Applications.
fn preview_members(
    shared: &AppSetShared,
    set: &ApplicationSet,
    generated: &AppSetOutput,
    existing: &[Application],
) -> (Vec<Application>, MembersPreview) {
    let (known, options) = (shared.applications.as_ref(), &shared.options);
    let changes = reconcile(set, Ok(generated), existing, known, options);
    let who = participants(generated, &changes).cloned().collect();
    let applications = preview::preview_members(set, generated, existing, known, options, SystemClock.now());
    let problem = |reason: String| MembersPreview { problems: vec![reason], ..MembersPreview::default() };
    (who, applications.unwrap_or_else(|reason| problem(reason.to_string())))
}

/// Adds the participants' rollout to the preview.
async fn add_rollout(
    shared: &Arc<AppSetShared>,
    set: &ApplicationSet,
    who: &[Application],
    preview: RolloutPreview,
) -> Result<RolloutPreview, String> {
    let targets = TargetIdentities::from_appset(set)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let key = AppKey::of_appset(set);
    let observed = ObservedAppSet { key: &key, targets: &targets, last: None };
    let finding = MemberStatusCache::default().collect(&shared.applications, observed, who, false).await;
    let MemberStatuses { mut members, unknown, .. } = finding;
    let has = |(name, one): (&String, &KnownMember)| {
        Some((name.clone(), one.deployed.as_ref()?.target.revisions.clone()))
    };
    let before = members.iter().filter_map(has).collect();
    // Applications with unknown targets also appear in their steps.
    members.extend(unknown.keys().map(|name| (name.clone(), KnownMember::default())));
    let asked =
        rollout_request(set, &targets, who, &members, shared.cases).map_err(|reason| reason.to_string())?;
    let rollout =
        preview::preview_rollout(asked, SystemClock.now()).map_err(|refused| refused.to_string())?;
    Ok(RolloutPreview { rollout: Some(rollout), before, unknown, ..preview })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt as _;
    use tidegate_model::argo;
    use tokio::sync::watch;

    use super::*;

    fn sample_appset(name: &str) -> ApplicationSet {
        argo::read_resource(&serde_json::json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name},
            "spec": {
                "generators": [{"list": {"elements": []}}],
                "template": {"metadata": {"name": "a"}, "spec": {"project": "default", "destination": {}}},
            },
        }))
        .unwrap()
    }

    /// Concurrent previews share a run of the generators, even if some of the previews are canceled.
    #[tokio::test]
    async fn concurrent_previews_share_one_run_of_the_generators() {
        let (outlook, queries) = (PreviewCache::default(), Arc::new(AtomicU32::new(0)));
        let (open, is_open) = watch::channel(false);
        let ask = || {
            let (queries, mut is_open) = (Arc::clone(&queries), is_open.clone());
            async move {
                queries.fetch_add(1, Ordering::SeqCst);
                is_open.wait_for(|is_open| *is_open).await.unwrap();
                Ok(Arc::new(AppSetOutput::default()))
            }
        };
        let (fleet, other) = (sample_appset("fleet"), sample_appset("other"));
        for _ in 0..3 {
            assert!(outlook.get_or_run(&fleet, ask()).now_or_never().is_none(), "it gives up");
        }
        let waiting = tokio::spawn({
            let (outlook, ask, fleet) = (outlook.clone(), ask(), fleet.clone());
            async move { outlook.get_or_run(&fleet, ask).await }
        });
        open.send_replace(true);
        waiting.await.unwrap().unwrap();
        outlook.get_or_run(&fleet, ask()).await.unwrap();
        assert_eq!(queries.load(Ordering::SeqCst), 1);
        outlook.get_or_run(&other, ask()).await.unwrap();
        assert_eq!(queries.load(Ordering::SeqCst), 2, "another ApplicationSet is generated separately");
    }
}
