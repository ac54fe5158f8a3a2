//! What can reach a rollout: news of its operations and members, wishes of people, and other targets.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, HealthStatus, OperationId, OperationPhase};

use super::request::{MemberSpec, Request, Target};
use crate::fleet::Scope;
use crate::operation::{CallError, Verdict};

/// One thing that happened outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Somebody wants a rollout.
    Begin(Box<Request>),
    /// The answer to [`Command::Choose`](super::Command): an id that no operation has, or why there is none.
    Chosen {
        /// Which member it is for.
        member: String,
        /// The id.
        operation: Result<OperationId, CallError>,
    },
    /// News of an operation that is [run](super::Command::Run). It may come late or twice.
    Child {
        /// Whose it is.
        member: String,
        /// Which.
        operation: OperationId,
        /// What.
        news: ChildNews,
    },
    /// What a member is like, now and whenever that changes, while it is [watched](super::Command::Watch). Sights may be
    /// old or repeated.
    Sighted {
        /// Which member.
        member: String,
        /// What was seen.
        sight: Sight,
    },
    /// The answer to [`Command::Stop`](super::Command): the operation is over, or is sure never to begin.
    Stopped {
        /// Whose it is.
        member: String,
        /// Which.
        operation: OperationId,
        /// Or why that could not be brought about yet.
        result: Result<(), CallError>,
    },
    /// A gate has answered, again or for the first time. What it has said before is no news.
    Gate {
        /// The step it was asked about, from 0.
        step: u32,
        /// Its name.
        gate: String,
        /// Open, or closed because.
        verdict: Verdict,
    },
    /// An engine goes on with the rollout: gates that were open when the last one ended may be closed by now.
    Recovered,
    /// A member is no Application of the set any more.
    Gone {
        /// Its name.
        member: String,
    },
    /// The set has one Application more.
    Joined {
        /// It.
        member: Box<MemberSpec>,
    },
    /// The set has these targets now; its own are no news.
    NewTargets {
        /// What tells them from others.
        targets: Digest,
    },
    /// What a person asks for.
    Wish {
        /// What.
        wish: Wish,
        /// Who.
        by: String,
        /// Why; may be empty.
        why: String,
    },
    /// The engine itself gives up.
    Abort {
        /// Why.
        reason: String,
    },
}

/// What people may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A step may begin.
    Approve {
        /// Its number from 1; `None`: the one that waits for it now.
        step: Option<u32>,
    },
    /// Go on without a member, or all of a step that are not Healthy.
    Skip(Scope),
    /// Bring a member to its target once more, or all of a step that have failed.
    Retry(Scope),
    /// Begin nothing more. What is at work goes on; deadlines stand still.
    Pause,
    /// Go on.
    Resume,
    /// Stop what is at work, and end.
    Terminate,
}

/// News of an operation of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildNews {
    /// A sync window keeps it from beginning.
    Held {
        /// Which, and until when, in words.
        window: String,
    },
    /// Nobody has approved its plan.
    Unapproved {
        /// Which, and whose approval it needs, in words.
        plan: String,
    },
    /// It has begun.
    Begun,
    /// It is over.
    Ended {
        /// How.
        phase: OperationPhase,
        /// In its words.
        message: String,
    },
    /// It could not be begun, or nothing can be heard of it.
    Failed(CallError),
}

/// How an Application stood at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// The newest of its operations that has succeeded and was over *before* the Application was compared.
    pub operation: Option<OperationId>,
    /// What that operation has deployed.
    pub deployed: Option<Target>,
    /// Whether it is Synced.
    pub synced: bool,
    /// Its health.
    pub health: HealthStatus,
    /// Why it is not well; may be empty.
    pub message: String,
}

impl Sight {
    /// The operation that is evidence of this target: it has deployed it, and nothing has changed since.
    pub(crate) fn evidence(&self, target: &Target) -> Option<OperationId> {
        self.operation.filter(|_| self.synced && self.deployed.as_ref() == Some(target))
    }

    /// Whether it is Healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health == HealthStatus::Healthy
    }
}
