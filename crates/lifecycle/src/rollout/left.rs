//! The Applications that a rollout was about and that left the set while it went on. The set has nothing more to say of them;
//! the record has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{OperationId, Timestamp};

use super::evolve;
use super::fact::Fact;
use super::state::{Member, Progress, Rollout, State};
use super::status::MemberStatus;
use super::view::{MemberOutcome, has_or_gets, outcome_of, step_text};
use crate::machine::Illegal;

/// What is said of one of which no more is known.
const LEFT: &str = "left the ApplicationSet";

/// An Application that left the set while a rollout went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutLeft")]
pub struct LeftView {
    /// Its name.
    pub application: String,
    /// The number of its step, from 1; `-1`: none had selected it.
    pub step: String,
    /// When it left.
    pub at: Timestamp,
    /// Its status by then; absent while the rollout goes on, and where the facts that say so are not kept any more.
    pub status: Option<MemberStatus>,
    /// How it had come to that, where the status does not say it.
    pub outcome: Option<MemberOutcome>,
    /// How far it was, in words.
    pub message: String,
    /// What it was to be brought to; of one that was rolled back, what it had again.
    pub target_revisions: Vec<String>,
    /// The operation that had brought it there, or was about to.
    pub operation: Option<OperationId>,
}

/// Those of a rollout, by its facts from the first on, each with how far it was; by name. One that came back is none.
///
/// # Errors
///
/// The facts are those of no rollout.
pub fn left(facts: &[Fact]) -> Result<Vec<LeftView>, Illegal> {
    let mut state = State::New;
    let mut left = BTreeMap::new();
    for fact in facts {
        let goes = match fact {
            Fact::Gone { member, at } | Fact::Stopped { member, at } => member_of(&state, member)
                .filter(|before| before.progress != Progress::Gone)
                .map(|before| (member, before.clone(), *at)),
            _ => None,
        };
        state = evolve(state, fact)?;
        if let Fact::Joined { member, .. } = fact {
            left.remove(&member.name);
        }
        if let Some((name, before, at)) = goes
            && member_of(&state, name).is_some_and(|now| now.progress == Progress::Gone)
        {
            left.insert(name.clone(), known(name, &before, at));
        }
    }
    Ok(left.into_values().collect())
}

fn member_of<'a>(state: &'a State, name: &str) -> Option<&'a Member> {
    state.rollout()?.members.get(name)
}

/// Those of a rollout, as its state has them.
pub(super) fn by_state(rollout: &Rollout) -> Vec<LeftView> {
    let gone = rollout.members.iter().filter(|(_, member)| member.progress == Progress::Gone);
    let left = |(name, member): (&String, &Member)| LeftView {
        application: name.clone(),
        step: step_text(member),
        at: member.since,
        status: None,
        outcome: None,
        message: LEFT.to_owned(),
        target_revisions: member.target.revisions.clone(),
        operation: None,
    };
    gone.map(left).collect()
}

fn known(name: &str, before: &Member, at: Timestamp) -> LeftView {
    LeftView {
        application: name.to_owned(),
        step: step_text(before),
        at,
        status: Some(before.status()),
        outcome: outcome_of(before),
        message: format!("{LEFT} {}", when(before)),
        target_revisions: has_or_gets(before).revisions.clone(),
        operation: before.progress.operation(),
    }
}

/// How far it was, in words that follow "left".
fn when(before: &Member) -> String {
    match &before.progress {
        _ if before.place.step.is_none() => "while no step selected it".to_owned(),
        Progress::Waiting | Progress::Late | Progress::Gone => "before its turn came".to_owned(),
        Progress::Promoted | Progress::Named { .. } => "before its sync had begun".to_owned(),
        Progress::Running { .. } | Progress::Stopping { .. } => "while its sync was under way".to_owned(),
        Progress::Settling { .. } => "after its sync, and was not Healthy yet".to_owned(),
        Progress::Healthy { .. } => "after it had reached its target and was Healthy".to_owned(),
        Progress::RolledBack { .. } => "after it was rolled back".to_owned(),
        Progress::Assumed => "after it was taken for Healthy".to_owned(),
        Progress::Failed { message, .. } => format!("after it had failed: {message}"),
        Progress::Skipped(said) => format!("after it was skipped by {}", said.words()),
    }
}
