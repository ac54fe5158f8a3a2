//! Applications that left the ApplicationSet during its rollout. Only the rollout's recorded events still
//! know about them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{OperationId, Timestamp};

use super::apply;
use super::event::Event;
use super::state::{Member, Progress, Rollout, State};
use super::status::{MemberOutcome, MemberStatus, effective_target, format_step_number, member_outcome};
use crate::machine::IllegalEvent;

/// Message for an Application without other information.
const LEFT_MESSAGE: &str = "left the ApplicationSet";

/// Application that left the ApplicationSet during a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DepartedApplication")]
pub struct DepartedMemberView {
    /// Name of the Application.
    pub application: String,
    /// Number of the Application's step, starting at 1. `-1` if no step selected it.
    pub step: String,
    /// Time at which the Application left.
    pub at: Timestamp,
    /// Status when the Application left. Absent while the rollout is running, or if the events were
    /// compacted.
    pub status: Option<MemberStatus>,
    /// Outcome, if the status alone doesn't show it.
    pub outcome: Option<MemberOutcome>,
    /// Description of the progress when the Application left.
    pub message: String,
    /// Revisions of the Application's target. After a rollback, these are the revisions of its previous
    /// deployment.
    pub target_revisions: Vec<String>,
    /// Operation that deployed the target revisions, or was about to deploy them.
    pub operation: Option<OperationId>,
}

/// Returns the Applications that left, with their progress at that time, sorted by name. `events` must
/// contain all events of a rollout. Applications that came back are omitted.
///
/// # Errors
///
/// Returns an error if the events aren't those of a rollout.
pub fn departed_members(events: &[Event]) -> Result<Vec<DepartedMemberView>, IllegalEvent> {
    let mut state = State::New;
    let mut left = BTreeMap::new();
    for event in events {
        let goes = match event {
            Event::Removed { member, at } | Event::Stopped { member, at } => find_member(&state, member)
                .filter(|before| before.progress != Progress::Gone)
                .map(|before| (member, before.clone(), *at)),
            _ => None,
        };
        state = apply(state, event)?;
        if let Event::Added { member, .. } = event {
            left.remove(&member.name);
        }
        if let Some((name, before, at)) = goes
            && find_member(&state, name).is_some_and(|now| now.progress == Progress::Gone)
        {
            left.insert(name.clone(), departed_view(name, &before, at));
        }
    }
    Ok(left.into_values().collect())
}

fn find_member<'a>(state: &'a State, name: &str) -> Option<&'a Member> {
    state.rollout()?.members.get(name)
}

/// Returns the departed Applications that are still in the state, without their progress.
pub(super) fn departed_from_state(rollout: &Rollout) -> Vec<DepartedMemberView> {
    let gone = rollout.members.iter().filter(|(_, member)| member.progress == Progress::Gone);
    let left = |(name, member): (&String, &Member)| DepartedMemberView {
        application: name.clone(),
        step: format_step_number(member),
        at: member.since,
        status: None,
        outcome: None,
        message: LEFT_MESSAGE.to_owned(),
        target_revisions: member.target.revisions.clone(),
        operation: None,
    };
    gone.map(left).collect()
}

fn departed_view(name: &str, before: &Member, at: Timestamp) -> DepartedMemberView {
    DepartedMemberView {
        application: name.to_owned(),
        step: format_step_number(before),
        at,
        status: Some(before.status()),
        outcome: member_outcome(before),
        message: format!("{LEFT_MESSAGE} {}", describe_progress(before)),
        target_revisions: effective_target(before).revisions.clone(),
        operation: before.progress.operation(),
    }
}

/// Describes the progress of an Application, as a phrase that follows "left".
fn describe_progress(before: &Member) -> String {
    match &before.progress {
        _ if before.place.step.is_none() => "while no step selected it".to_owned(),
        Progress::Waiting | Progress::Late | Progress::Gone => "before its turn came".to_owned(),
        Progress::Promoted | Progress::Named { .. } => "before its sync had started".to_owned(),
        Progress::Running { .. } | Progress::Stopping { .. } => "while its sync was running".to_owned(),
        Progress::Settling { .. } => "after its sync but before it became Healthy".to_owned(),
        Progress::Healthy { .. } => "after it reached its target and became Healthy".to_owned(),
        Progress::RolledBack { .. } => "after it was rolled back".to_owned(),
        Progress::Assumed => "after it was assumed Healthy".to_owned(),
        Progress::Failed { message, .. } => format!("after it failed: {message}"),
        Progress::Skipped(attribution) => format!("after it was skipped by {}", attribution.display()),
    }
}
