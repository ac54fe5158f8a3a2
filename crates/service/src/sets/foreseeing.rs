//! A progressive sync before it begins: which Applications would come and go, and what would be brought where, step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_applicationset::changes::{Generated, reconcile};
use tidegate_applicationset::ownership;
use tidegate_applicationset::policy::is_progressive;
use tidegate_applicationset::preview::{self, MembersPreview};
use tidegate_applicationset::rollout::{Standing, Targets, participants, request};
use tidegate_applicationset::status::Failure;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationSetSpec};

use super::pass::{failed, generated_by};
use super::shared::SetShared;
use super::standing::{Found, Standings};
use super::world::Occasion;
use super::{key_of, members};
use crate::applications::store::AppKey;

/// For so long what the generators of a set have answered counts for whoever looks ahead: they are not asked more often,
/// however many people look.
const COUNTS: Duration = Duration::from_secs(10);

/// A progressive sync of an ApplicationSet with the Applications that it generates, were it begun now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPreview {
    /// It, with nothing done yet; nothing where each Application is synced by its own policy.
    pub rollout: Option<RolloutView>,
    /// What its Applications have now, by name: one revision a source. Those that have nothing yet are not here.
    pub before: BTreeMap<String, Vec<String>>,
    /// Applications of which it is not known yet what they would be brought to, by name, and why.
    pub unknown: BTreeMap<String, String>,
    /// Which Applications would be made, changed and deleted before. Where the generators cannot be asked, nothing but why:
    /// then it is about the Applications there are.
    pub applications: MembersPreview,
}

type Answer = Result<Arc<Generated>, Failure>;

/// What the generators of a set have answered, when, and to which specification of it.
struct Answered {
    at: Timestamp,
    spec: ApplicationSetSpec,
    answer: Answer,
}

/// Where the answer for a set is, if there is one.
type Place = Arc<tokio::sync::Mutex<Option<Answered>>>;

/// What generators have answered to those who have looked ahead lately. Whoever looks at a set that is being asked waits for
/// that answer.
#[derive(Clone, Default)]
pub(super) struct Outlook(Arc<Mutex<BTreeMap<AppKey, Place>>>);

impl Outlook {
    async fn generated(&self, shared: &Arc<SetShared>, set: &ApplicationSet) -> Answer {
        let (shared, asked) = (Arc::clone(shared), set.clone());
        self.answer(set, async move { generated_by(&shared, &asked, Occasion::Preview).await.map(Arc::new) })
            .await
    }

    /// What was answered lately, or is answered now. Where nobody waits for that any more it comes all the same, for whoever looks
    /// next: a look that is given up has no other begun beside it.
    async fn answer(
        &self,
        set: &ApplicationSet,
        ask: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        let mut place = self.place(key_of(set)).lock_owned().await;
        let counts = |one: &&Answered| one.spec == set.spec && SystemClock.now().since(one.at) < COUNTS;
        if let Some(known) = place.as_ref().filter(counts) {
            return known.answer.clone();
        }
        let spec = set.spec.clone();
        let asking = tokio::spawn(async move {
            let answer = ask.await;
            *place = Some(Answered { at: SystemClock.now(), spec, answer: answer.clone() });
            answer
        });
        asking.await.unwrap_or_else(|fault| Err(failed(format!("generating it met a fault: {fault}"))))
    }

    /// That of a set. Answers that count no more are not kept.
    fn place(&self, set: AppKey) -> Place {
        let now = SystemClock.now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |one: &Option<Answered>| one.as_ref().is_none_or(|one| now.since(one.at) >= COUNTS);
        all.retain(|_, place| {
            Arc::strong_count(place) > 1 || !place.try_lock().is_ok_and(|one| is_old(&one))
        });
        Arc::clone(all.entry(set).or_default())
    }
}

/// What a progressive sync of a set would do. Its generators are asked; nothing is begun, and no Application is written.
pub(super) async fn foresee(
    shared: &Arc<SetShared>,
    set: &ApplicationSet,
    outlook: &Outlook,
) -> Result<RolloutPreview, String> {
    let generated = outlook.generated(shared, set).await;
    let existing = members::existing(shared, set, generated.as_deref().ok());
    let (who, applications) = match &generated {
        Ok(generated) => coming(shared, set, generated, &existing),
        Err(failure) => {
            let problems = vec![failure.message.clone()];
            let there = ownership::members(set, &existing).cloned().collect();
            (there, MembersPreview { problems, ..MembersPreview::default() })
        }
    };
    let preview = RolloutPreview { applications, ..RolloutPreview::default() };
    if is_progressive(set, &shared.options) { rolled(shared, set, &who, preview).await } else { Ok(preview) }
}

/// Those that a progressive sync would be about, and what would become of each before.
fn coming(
    shared: &SetShared,
    set: &ApplicationSet,
    generated: &Generated,
    existing: &[Application],
) -> (Vec<Application>, MembersPreview) {
    let (known, options) = (shared.applications.as_ref(), &shared.options);
    let changes = reconcile(set, Ok(generated), existing, known, options);
    let who = participants(generated, &changes).cloned().collect();
    let applications = preview::members(set, generated, existing, (known, options), SystemClock.now());
    let problem = |why: String| MembersPreview { problems: vec![why], ..MembersPreview::default() };
    (who, applications.unwrap_or_else(|why| problem(why.to_string())))
}

/// The preview, with the progressive sync of these.
async fn rolled(
    shared: &Arc<SetShared>,
    set: &ApplicationSet,
    who: &[Application],
    preview: RolloutPreview,
) -> Result<RolloutPreview, String> {
    let targets = Targets::of(set)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let key = key_of(set);
    let finding = Standings::default().find(&shared.applications, (&key, &targets), who, None, false).await;
    let Found { mut standing, unknown, .. } = finding;
    let has = |(name, one): (&String, &Standing)| {
        Some((name.clone(), one.before.as_ref()?.target.revisions.clone()))
    };
    let before = standing.iter().filter_map(has).collect();
    // They are shown in their steps all the same.
    standing.extend(unknown.keys().map(|name| (name.clone(), Standing::default())));
    let asked = request(set, &targets, who, &standing, shared.cases).map_err(|why| why.to_string())?;
    let rollout = preview::rollout(asked, SystemClock.now()).map_err(|refused| refused.to_string())?;
    Ok(RolloutPreview { rollout: Some(rollout), before, unknown, ..preview })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt as _;
    use tidegate_model::argo;
    use tokio::sync::watch;

    use super::*;

    fn set(name: &str) -> ApplicationSet {
        argo::read(&serde_json::json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name},
            "spec": {
                "generators": [{"list": {"elements": []}}],
                "template": {"metadata": {"name": "a"}, "spec": {"project": "default", "destination": {}}},
            },
        }))
        .unwrap()
    }

    /// However many look, and whoever of them gives up.
    #[tokio::test]
    async fn generators_are_asked_once_by_all_who_look_ahead() {
        let (outlook, asked) = (Outlook::default(), Arc::new(AtomicU32::new(0)));
        let (open, is_open) = watch::channel(false);
        let ask = || {
            let (asked, mut is_open) = (Arc::clone(&asked), is_open.clone());
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                is_open.wait_for(|is_open| *is_open).await.unwrap();
                Ok(Arc::new(Generated::default()))
            }
        };
        let (fleet, other) = (set("fleet"), set("other"));
        for _ in 0..3 {
            assert!(outlook.answer(&fleet, ask()).now_or_never().is_none(), "it gives up");
        }
        let waiting = tokio::spawn({
            let (outlook, ask, fleet) = (outlook.clone(), ask(), fleet.clone());
            async move { outlook.answer(&fleet, ask).await }
        });
        open.send_replace(true);
        waiting.await.unwrap().unwrap();
        outlook.answer(&fleet, ask()).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        outlook.answer(&other, ask()).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "another set is asked for itself");
    }
}
