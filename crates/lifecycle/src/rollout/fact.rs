//! What is recorded. Facts are append-only: a variant is never removed or reordered, because logs hold it. Where a field of
//! one changes, the variant gets the next kind number and its old layout is still read.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, OperationPhase, Timestamp};

use super::input::Sight;
use super::request::{Deployed, Options, Step, Target};
use super::state::{End, Failure, Stage, Then};
use crate::fleet::{Assignment, Said};
use crate::operation::Verdict;

/// Something that happened to a rollout, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The rollout exists from here on, and this is who is in which step.
    Begun {
        /// The ApplicationSet: `namespace/name`.
        set: String,
        /// Its `metadata.uid`.
        uid: String,
        /// What tells its targets from others of the set.
        targets: Digest,
        /// Who asked for it.
        by: String,
        /// The steps, in order.
        steps: Vec<Step>,
        /// All Applications of the set.
        members: Vec<Listed>,
        /// What is to be done in cases.
        options: Options,
        /// When.
        at: Timestamp,
    },
    /// An arrow of the state machine.
    Moved {
        /// The new stage.
        to: Stage,
        /// When.
        at: Timestamp,
    },
    /// A gate has answered about the step that is held.
    GateAnswered {
        /// Its name.
        gate: String,
        /// Open, or closed because.
        verdict: Verdict,
        /// When.
        at: Timestamp,
    },
    /// A person approves a step.
    Approved {
        /// Which.
        step: u32,
        /// Who, and why.
        said: Said,
    },
    /// A member's turn has come.
    Promoted {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// What a member's operation will be called, before anybody hears of it.
    Named {
        /// Which member.
        member: String,
        /// The operation.
        operation: OperationId,
    },
    /// A sync window, or an approval that is missing, keeps a member's operation from beginning, or does not any more.
    WindowSeen {
        /// Which member.
        member: String,
        /// In words; `None` when none does any more.
        window: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// A member's operation has begun.
    Started {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A call about a member failed in a way that may pass; it is made again at `retry_at`.
    CallFailed {
        /// Which member.
        member: String,
        /// Why.
        message: String,
        /// When it is made again.
        retry_at: Timestamp,
    },
    /// A member's operation is over.
    Ended {
        /// Which member.
        member: String,
        /// How.
        phase: OperationPhase,
        /// In its words.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// What a member is seen like, that is not what it is awaited to be.
    Seen {
        /// Which member.
        member: String,
        /// What was seen.
        sight: Sight,
        /// When.
        at: Timestamp,
    },
    /// An operation that somebody else began has brought a member to its target.
    Adopted {
        /// Which member.
        member: String,
        /// The operation.
        operation: OperationId,
        /// When that was seen.
        at: Timestamp,
    },
    /// A member was seen Synced and Healthy after its operation.
    BecameHealthy {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A member that was Healthy is not any more, while it is watched before the next step.
    Worsened {
        /// Which member.
        member: String,
        /// What was seen.
        sight: Sight,
        /// When.
        at: Timestamp,
    },
    /// A member is Pending for longer than it may be, and is awaited all the same.
    Overdue {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A member's operation is to be over, or never to begin.
    StopBegun {
        /// Which member.
        member: String,
        /// What becomes of it then.
        then: Then,
        /// When.
        at: Timestamp,
    },
    /// It is over, or is sure never to begin.
    Stopped {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A member is to be brought back to what it had before.
    RollBackBegun {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A person goes on without a member.
    Skipped {
        /// Which member.
        member: String,
        /// Who, and why.
        said: Said,
    },
    /// A person wants a member brought to its target once more.
    Retried {
        /// Which member.
        member: String,
        /// Who, and why.
        said: Said,
    },
    /// A member is no Application of the set any more.
    Gone {
        /// Which member.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// The set has one Application more.
    Joined {
        /// It.
        member: Box<Listed>,
        /// When.
        at: Timestamp,
    },
    /// A step has failed.
    StepFailed {
        /// Which.
        step: u32,
        /// Why.
        failure: Failure,
        /// When.
        at: Timestamp,
    },
    /// A person holds the rollout.
    Paused(Said),
    /// A person lets it go on.
    Resumed(Said),
    /// A person wants its end.
    TerminateRequested(Said),
    /// The set has other targets by now, or these again.
    NewTargets {
        /// What tells them from others.
        targets: Digest,
        /// When.
        at: Timestamp,
    },
    /// The rollout is over.
    Finished {
        /// How.
        end: End,
        /// In words.
        message: String,
        /// When.
        at: Timestamp,
    },
}

/// An Application of the set, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Which step it is in.
    pub place: Assignment,
    /// What it is brought to.
    pub target: Target,
    /// What it had before; `None` when nothing was deployed.
    pub before: Option<Deployed>,
    /// The operation by which it is there already.
    pub done_by: Option<OperationId>,
}

impl Fact {
    /// The member it is about, if it is about one that is known.
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::Promoted { member, .. }
            | Self::Named { member, .. }
            | Self::WindowSeen { member, .. }
            | Self::Started { member, .. }
            | Self::CallFailed { member, .. }
            | Self::Ended { member, .. }
            | Self::Seen { member, .. }
            | Self::Adopted { member, .. }
            | Self::BecameHealthy { member, .. }
            | Self::Worsened { member, .. }
            | Self::Overdue { member, .. }
            | Self::StopBegun { member, .. }
            | Self::Stopped { member, .. }
            | Self::RollBackBegun { member, .. }
            | Self::Skipped { member, .. }
            | Self::Retried { member, .. }
            | Self::Gone { member, .. } => Some(member),
            _ => None,
        }
    }
}
