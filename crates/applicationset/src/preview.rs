//! What would a progressive sync and a deletion do? The same machines answer that carry them out, with nothing recorded but
//! their begin.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::deletion::{RESOURCES_FINALIZER, is_resources_finalizer};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::rollout::{self, Progressive, RolloutView};
use tidegate_lifecycle::teardown::{self, MemberSpec, OrderedDeletion, TeardownView};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::deletion::{preserved, why_outlived};
use crate::order::{InvalidOrder, order};
use crate::policy::Options;
use crate::rollout::BY;

/// Why it cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unforeseen {
    /// The order means nothing.
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    /// The machine does not begin.
    #[error("{0}")]
    Refused(String),
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
