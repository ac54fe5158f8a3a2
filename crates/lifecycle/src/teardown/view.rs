//! What people see of a teardown, also before it begins: the view of a state in which nothing but `Begun` is recorded is
//! its plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Timestamp, Wisher};

use super::order::{Order, OrderWord};
use super::state::{Approval, End, Progress, State, Teardown};
use crate::fleet::{Said, count};

/// How the deletion of an Application stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionStatus")]
pub enum MemberStatus {
    /// Its turn has not come.
    Waiting,
    /// It is being deleted.
    Deleting,
    /// It is gone.
    Gone,
    /// A person does not await it.
    Left,
    /// It is not the set's any more, and stays.
    Released,
}

impl OrderWord {
    /// Whether that is what is to become of each Application.
    pub fn is_end(self, status: MemberStatus) -> bool {
        match self {
            Self::Orphan => status == MemberStatus::Released,
            _ => status == MemberStatus::Gone,
        }
    }
}

/// A teardown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Deletion")]
pub struct TeardownView {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// Who asked for it.
    pub by: String,
    /// Why; absent where nobody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In which order.
    #[serde(default)]
    pub order: OrderWord,
    /// Where it stands, in words.
    pub stage: String,
    /// The number of the step that is at work, from 1 as the strategy counts them; absent also where it is about those
    /// that no step selects.
    pub step: Option<u32>,
    /// Its steps, in the order of deletion.
    pub steps: Vec<StepView>,
    /// How it ended.
    pub end: Option<End>,
    /// Where it stands, or why it ended, in words.
    pub message: String,
    /// Who holds it, and why.
    pub paused: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The Applications, in the order of deletion.
    pub members: Vec<MemberView>,
    /// Who has let deletions be done that were held because they are too many, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
}

/// That somebody has let deletions be done which were held because they are too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionsApproval")]
pub struct ApprovalView {
    /// Who.
    pub by: String,
    /// Why; absent where nobody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Stood for the Applications that were to stay.
    pub token: String,
}

impl From<&Approval> for ApprovalView {
    fn from(Approval { token, said }: &Approval) -> Self {
        Self { by: said.by.clone(), reason: said.wisher().why(), at: said.at, token: token.clone() }
    }
}

/// A step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionStep")]
pub struct StepView {
    /// Its number, from 1 as the strategy counts its steps; absent: those that no step selects.
    #[serde(default)]
    pub step: Option<u32>,
    /// Whom it selects.
    pub selects: String,
    /// How many it has.
    pub members: u32,
    /// How many of them may be on their way at once; absent: all.
    pub max_update: Option<u32>,
}

/// An Application that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionMember")]
pub struct MemberView {
    /// Its name.
    pub application: String,
    /// The number of its step, from 1 as the strategy counts them; `-1`: none selects it.
    pub step: String,
    /// How it stands.
    pub status: MemberStatus,
    /// Why; may be empty.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// How a teardown stands; `None` before it has begun.
pub fn view(state: &State) -> Option<TeardownView> {
    let teardown = state.teardown()?;
    let (outcome, asker) = (teardown.outcome.as_ref(), Wisher::read(&teardown.by));
    Some(TeardownView {
        set: teardown.set.clone(),
        by: asker.by.to_owned(),
        reason: asker.why(),
        order: teardown.order.word(),
        stage: state.name(),
        step: teardown
            .current_step()
            .filter(|_| outcome.is_none())
            .and_then(|step| teardown.order.number(step)),
        steps: (0..teardown.order.step_count()).map(|step| step_view(teardown, step)).collect(),
        end: outcome.map(|outcome| outcome.end),
        message: message(teardown),
        paused: teardown.paused.as_ref().map(Said::words),
        started_at: teardown.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        members: members(teardown),
        approvals: teardown.approvals.iter().map(Into::into).collect(),
    })
}

fn step_view(teardown: &Teardown, step: u32) -> StepView {
    let budget = teardown.budget(step);
    StepView {
        step: teardown.order.number(step),
        selects: teardown.order.words(step),
        members: count(teardown.members_of(step)),
        max_update: (budget < u32::MAX).then_some(budget),
    }
}

/// Where it stands, or why it ended, in words.
pub(super) fn message(teardown: &Teardown) -> String {
    match (&teardown.outcome, teardown.current_step()) {
        (Some(outcome), _) => outcome.message.clone(),
        (None, Some(_)) if teardown.order == Order::Orphaned => "letting all Applications go".to_owned(),
        (None, Some(step)) => format!("deleting {}", teardown.order.name(step)),
        (None, None) if teardown.order == Order::Orphaned => "beginning to let them go".to_owned(),
        (None, None) => "beginning to delete".to_owned(),
    }
}

fn members(teardown: &Teardown) -> Vec<MemberView> {
    let mut members: Vec<_> = teardown.members.iter().collect();
    members.sort_by_key(|(name, member)| (member.place.step, *name));
    members
        .into_iter()
        .map(|(name, member)| {
            let (status, message) = match &member.progress {
                Progress::Waiting => (MemberStatus::Waiting, String::new()),
                Progress::Condemned | Progress::Going | Progress::Confirming { .. } => {
                    (MemberStatus::Deleting, member.kept_by.clone())
                }
                Progress::Gone => (MemberStatus::Gone, String::new()),
                Progress::Released => {
                    (MemberStatus::Released, "let go: it is not the set's any more, and stays".to_owned())
                }
                Progress::Left(said) => (MemberStatus::Left, format!("skipped by {}", said.words())),
            };
            let number = member.place.step.and_then(|step| teardown.order.number(step));
            let step = number.map_or_else(|| "-1".to_owned(), |number| number.to_string());
            MemberView { application: name.clone(), step, status, message, since: member.since }
        })
        .collect()
}
