//! What would a progressive sync and a deletion do? The same machines answer that carry them out, with nothing recorded but
//! their begin.

use tidegate_lifecycle::Machine;
use tidegate_lifecycle::rollout::{self, Progressive, RolloutView};
use tidegate_lifecycle::teardown::{self, MemberSpec, Options, OrderedDeletion, TeardownView};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::order::{InvalidOrder, order};
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
        options: Options::default(),
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
