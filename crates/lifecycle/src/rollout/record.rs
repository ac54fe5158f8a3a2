//! What the log keeps of a rollout: the kinds of its records, and what a list of rollouts says of one.

use serde::{Deserialize, Serialize};
use tidegate_model::{Content, Digest, LogRecord, Records, StreamKind};

use super::fact::Fact;
use super::state::{End, Progress, State};
use super::status::MemberStatus;
use super::view::message;
use crate::fleet::count;

/// So many revisions are named in a list, where each Application may have its own.
const REVISIONS_MAX: usize = 5;

impl LogRecord for Fact {
    type Earlier = Self;

    const HIGHEST_KIND: u16 = 28;

    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Begun { .. } => 1,
            Self::Moved { .. } => 2,
            Self::GateAnswered { .. } => 3,
            Self::Approved { .. } => 4,
            Self::Promoted { .. } => 5,
            Self::Named { .. } => 6,
            Self::WindowSeen { .. } => 7,
            Self::Started { .. } => 8,
            Self::CallFailed { .. } => 9,
            Self::Ended { .. } => 10,
            Self::Seen { .. } => 11,
            Self::Adopted { .. } => 12,
            Self::BecameHealthy { .. } => 13,
            Self::Worsened { .. } => 14,
            Self::Overdue { .. } => 15,
            Self::StopBegun { .. } => 16,
            Self::Stopped { .. } => 17,
            Self::RollBackBegun { .. } => 18,
            Self::Skipped { .. } => 19,
            Self::Retried { .. } => 20,
            Self::Gone { .. } => 21,
            Self::Joined { .. } => 22,
            Self::StepFailed { .. } => 23,
            Self::Paused(_) => 24,
            Self::Resumed(_) => 25,
            Self::TerminateRequested(_) => 26,
            Self::NewTargets { .. } => 27,
            Self::Finished { .. } => 28,
        }
    }
}

impl LogRecord for State {
    type Earlier = Self;

    const HIGHEST_KIND: u16 = 1;

    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

/// What a list of rollouts says of one. The log keeps it longer than the facts; its layout is part of the format on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// What tells its targets from others of the set.
    pub targets: Digest,
    /// How it ended.
    pub end: Option<End>,
    /// Whether it is held.
    pub paused: bool,
    /// How it stands, in words.
    pub message: String,
    /// Steps that are done, and steps in all.
    pub steps: (u32, u32),
    /// Members that are Healthy, and members that a step selects.
    pub members: (u32, u32),
    /// Who asked for it; empty where it is not known.
    pub by: String,
    /// What its members are brought to, each revision once; of many the first few. Empty where it is not known.
    pub revisions: Vec<String>,
    /// Members that a step selects and a person went on without: they are none of those that are Healthy. `None` where an
    /// earlier program has counted them among these.
    pub skipped: Option<u32>,
}

/// As programs wrote it that did not keep who asked and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsOfKind1 {
    targets: Digest,
    end: Option<End>,
    paused: bool,
    message: String,
    steps: (u32, u32),
    members: (u32, u32),
}

impl From<DetailsOfKind1> for Details {
    fn from(earlier: DetailsOfKind1) -> Self {
        let DetailsOfKind1 { targets, end, paused, message, steps, members } = earlier;
        let (by, revisions) = (String::new(), Vec::new());
        Self { targets, end, paused, message, steps, members, by, revisions, skipped: None }
    }
}

/// As programs wrote it that took those for Healthy that were skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsOfKind2 {
    targets: Digest,
    end: Option<End>,
    paused: bool,
    message: String,
    steps: (u32, u32),
    members: (u32, u32),
    by: String,
    revisions: Vec<String>,
}

impl From<DetailsOfKind2> for Details {
    fn from(earlier: DetailsOfKind2) -> Self {
        let DetailsOfKind2 { targets, end, paused, message, steps, members, by, revisions } = earlier;
        Self { targets, end, paused, message, steps, members, by, revisions, skipped: None }
    }
}

impl Details {
    /// Of a rollout in this state; `None` before it has begun. It is asked for with every batch, and so builds no view.
    pub fn of(state: &State) -> Option<Self> {
        let rollout = state.rollout()?;
        let selected = || rollout.members.values().filter(|member| member.is_selected());
        let skipped = count(selected().filter(|member| matches!(member.progress, Progress::Skipped(_))));
        let healthy = count(selected().filter(|member| member.status() == MemberStatus::Healthy));
        let revisions = selected().flat_map(|member| &member.target.revisions);
        let revisions = revisions.fold(Vec::<String>::new(), |mut named, revision| {
            if named.len() < REVISIONS_MAX && !named.contains(revision) {
                named.push(revision.clone());
            }
            named
        });
        Some(Self {
            targets: rollout.targets,
            end: rollout.outcome.as_ref().map(|outcome| outcome.end),
            paused: rollout.paused.is_some(),
            message: message(rollout),
            steps: (
                count(rollout.steps.iter().filter(|step| step.passed_at.is_some())),
                count(rollout.steps.iter()),
            ),
            members: (healthy.saturating_sub(skipped), count(selected())),
            by: rollout.by.clone(),
            revisions,
            skipped: Some(skipped),
        })
    }
}

impl LogRecord for Details {
    type Earlier = DetailsOfKind2;

    const HIGHEST_KIND: u16 = 3;

    fn is_earlier(kind: u16) -> bool {
        matches!(kind, 1 | 2)
    }

    fn kind(&self) -> u16 {
        3
    }

    fn read_earlier<C: Content>(kind: u16, content: &C) -> Result<Self, C::Error> {
        match kind {
            1 => content.read::<DetailsOfKind1>().map(Into::into),
            _ => content.read::<DetailsOfKind2>().map(Into::into),
        }
    }
}

impl Records for Fact {
    const KIND: StreamKind = StreamKind::ROLLOUT;
    type Snapshot = State;
    type Details = Details;
}
