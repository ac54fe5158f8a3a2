//! What would a progressive sync and a deletion do? The same machines answer that carry them out, with nothing recorded but
//! their begin.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::deletion::{RESOURCES_FINALIZER, is_resources_finalizer};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::fleet::assign;
use tidegate_lifecycle::rollout::{self, Progressive, RolloutView};
use tidegate_lifecycle::teardown::{self, MemberSpec, OrderedDeletion, TeardownView};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::changes::Generated;
use crate::deletion::{preserved, why_outlived};
use crate::foreseen::{FieldChange, What, foresee_with};
use crate::known::Known;
use crate::order::{InvalidOrder, order};
use crate::policy::{Options, rolling_steps};
use crate::rollout::BY;
use crate::steps::{InvalidStep, Step, steps};

/// Why it cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unforeseen {
    /// The order means nothing.
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    /// A step of its progressive sync means nothing.
    #[error(transparent)]
    Step(#[from] InvalidStep),
    /// The machine does not begin.
    #[error("{0}")]
    Refused(String),
}

/// What becomes of the Applications of a set before its progressive sync begins, because its generators, its template or what
/// is in its repositories have changed. Steps are those of the progressive sync, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MembersPreview {
    /// Those that would be made, by name.
    pub created: Vec<CreatedMember>,
    /// Those of which fields would change, by name.
    pub changed: Vec<ChangedMember>,
    /// Those that would be deleted, because they are not generated any more, by name.
    pub deleted: Vec<DeletedMember>,
    /// In which order those would be deleted; absent where none would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionPreview>,
    /// Those that would stay as they are, though they are not as they are generated, or are not generated any more; with the
    /// reason.
    pub left: BTreeMap<String, String>,
    /// What keeps some of this from being known or done.
    pub problems: Vec<String>,
}

/// An Application that would be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedMember {
    /// Its name.
    pub application: String,
    /// The step that selects it; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

/// An Application that would be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedMember {
    /// Its name.
    pub application: String,
    /// The step that selects it then; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// From what to what. Secrets are hidden.
    pub fields: Vec<FieldChange>,
}

/// An Application that would be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedMember {
    /// Its name.
    pub application: String,
    /// The step that selects it now; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Whether what it has deployed stays.
    pub keeps_objects: bool,
}

/// The deletion of a set, before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPreview {
    /// Its steps, and the Applications that go with it.
    #[serde(flatten)]
    pub deletion: TeardownView,
    /// What stays.
    pub kept: Vec<Kept>,
}

/// What a deletion leaves behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// What it is.
    pub what: KeptWhat,
    /// Why it stays.
    pub why: String,
    /// The Applications, by name.
    pub applications: Vec<String>,
}

/// What stays of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum KeptWhat {
    /// It outlives the set, with all it has.
    Application,
    /// It goes; what it has deployed stays.
    Objects,
}

/// A progressive sync before it begins.
///
/// # Errors
///
/// Two of its members have one name.
pub fn rollout(request: rollout::Request, at: Timestamp) -> Result<RolloutView, Unforeseen> {
    let state = begun::<Progressive>(&rollout::Input::Begin(Box::new(request)), at)?;
    rollout::view(&state).ok_or_else(nothing)
}

/// What a look at a set would do to its Applications, and in which step of its progressive sync each is. `existing` are those
/// there are, whether its own or not; with a set that has no progressive sync, none is in a step.
///
/// # Errors
///
/// A step means nothing, or nobody knows in which order Applications go that are to be deleted.
pub fn members(
    set: &ApplicationSet,
    generated: &Generated,
    existing: &[Application],
    (known, options): (&dyn Known, &Options),
    at: Timestamp,
) -> Result<MembersPreview, Unforeseen> {
    let steps = steps("spec.strategy.rollingSync", rolling_steps(set))?;
    let foreseen = foresee_with(set, generated, existing, &BTreeMap::new(), (known, options));
    let mut preview = MembersPreview { left: foreseen.held, ..MembersPreview::default() };
    preview.problems = generated.failed.iter().cloned().chain(foreseen.wrong).collect();
    for (application, change) in foreseen.members {
        let step = generated.applications.get(&application).and_then(|one| step_of(&steps, one));
        match change.what {
            What::Created => preview.created.push(CreatedMember { application, step }),
            What::Changed => {
                preview.changed.push(ChangedMember { application, step, fields: change.fields });
            }
            What::LeftAlone => drop(preview.left.insert(application, change.why.unwrap_or_default())),
            What::Unchanged => {}
        }
    }
    let deleted = foreseen.removed.iter().map(|one| DeletedMember {
        application: one.metadata.name.clone(),
        step: step_of(&steps, one),
        keeps_objects: keeps_objects(set, one),
    });
    preview.deleted = deleted.collect();
    if !foreseen.removed.is_empty() {
        preview.deletion = Some(deletion(set, &foreseen.removed, options, at)?);
    }
    Ok(preview)
}

/// The step that selects an Application, from 1.
fn step_of(steps: &[Step], application: &Application) -> Option<u32> {
    let expressions = steps.iter().map(|step| step.expressions.as_slice());
    assign(expressions, &application.metadata.labels).step.map(|step| step.saturating_add(1))
}

/// The deletion of Applications of a set before it begins. Those that are only generated have no UID yet.
///
/// # Errors
///
/// What is wrong with the order, and what to do; or two of the Applications have one name.
pub fn deletion<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    options: &Options,
    at: Timestamp,
) -> Result<DeletionPreview, Unforeseen> {
    let mut members: Vec<&Application> = members.into_iter().collect();
    let mut kept = BTreeMap::<_, Vec<String>>::new();
    let outlived = why_outlived(set, options);
    for member in &members {
        let stays = match &outlived {
            Some(why) => Some((KeptWhat::Application, why.clone())),
            None => why_objects_stay(set, member).map(|why| (KeptWhat::Objects, why)),
        };
        if let Some(stays) = stays {
            kept.entry(stays).or_default().push(member.metadata.name.clone());
        }
    }
    if outlived.is_some() {
        members.clear();
    }
    let kept = kept.into_iter().map(|((what, why), mut applications)| {
        applications.sort_unstable();
        Kept { what, why, applications }
    });
    Ok(DeletionPreview { deletion: ordered(set, members, at)?, kept: kept.collect() })
}

/// Whether what an Application has deployed stays when the set deletes it.
pub fn keeps_objects(set: &ApplicationSet, member: &Application) -> bool {
    why_objects_stay(set, member).is_some()
}

/// Why what an Application has deployed stays when it goes with its set.
fn why_objects_stay(set: &ApplicationSet, member: &Application) -> Option<String> {
    let has_finalizer = member.metadata.finalizers.iter().any(|one| is_resources_finalizer(one));
    let missing = || (!has_finalizer).then(|| format!("no finalizer {RESOURCES_FINALIZER}"));
    preserved(set).or_else(missing)
}

fn ordered<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    at: Timestamp,
) -> Result<TeardownView, Unforeseen> {
    let member = |one: &Application| MemberSpec {
        name: one.metadata.name.clone(),
        uid: one.metadata.uid.clone(),
        labels: one.metadata.labels.clone(),
    };
    let request = teardown::Request {
        set: format!("{}/{}", set.metadata.home(), set.metadata.name),
        uid: set.metadata.uid.clone(),
        by: BY.to_owned(),
        order: order(set)?,
        members: members.into_iter().map(member).collect(),
        options: teardown::Options::default(),
        kept: std::collections::BTreeMap::new(),
        approved: None,
    };
    let state = begun::<OrderedDeletion>(&teardown::Input::Begin(Box::new(request)), at)?;
    teardown::view(&state).ok_or_else(nothing)
}

fn begun<M: Machine>(begin: &M::Input, at: Timestamp) -> Result<M::State, Unforeseen> {
    let facts = M::decide(&M::State::default(), begin, at);
    let facts = facts.map_err(|rejection| Unforeseen::Refused(rejection.to_string()))?;
    let state = facts.iter().try_fold(M::State::default(), M::evolve);
    state.map_err(|illegal| Unforeseen::Refused(illegal.to_string()))
}

fn nothing() -> Unforeseen {
    Unforeseen::Refused("nothing has begun".to_owned())
}
