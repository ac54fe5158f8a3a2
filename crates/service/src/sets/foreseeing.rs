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

use super::pass::generated_by;
use super::shared::SetShared;
use super::standing::{Found, Standings};
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
        let place = self.place(key_of(set));
        let mut place = place.lock().await;
        let counts = |one: &&Answered| one.spec == set.spec && SystemClock.now().since(one.at) < COUNTS;
        if let Some(known) = place.as_ref().filter(counts) {
            return known.answer.clone();
        }
        let answer = generated_by(shared, set, true).await.map(Arc::new);
        *place = Some(Answered { at: SystemClock.now(), spec: set.spec.clone(), answer: answer.clone() });
        answer
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
        Ok(generated) => coming(shared, set, generated, &existing)?,
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
) -> Result<(Vec<Application>, MembersPreview), String> {
    let (known, options) = (shared.applications.as_ref(), &shared.options);
    let changes = reconcile(set, Ok(generated), existing, known, options);
    let who = participants(generated, &changes).cloned().collect();
    let applications = preview::members(set, generated, existing, (known, options), SystemClock.now());
    Ok((who, applications.map_err(|why| why.to_string())?))
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
