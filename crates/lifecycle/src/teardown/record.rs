//! What the log keeps of a teardown: the kinds of its records, and what a list of teardowns says of one.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, Records, StreamKind};

use super::fact::Fact;
use super::state::{End, State};
use super::view::{MemberStatus, view};

impl LogRecord for Fact {
    type Earlier = Self;

    const HIGHEST_KIND: u16 = 16;

    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Begun { .. } => 1,
            Self::Moved { .. } => 2,
            Self::Condemned { .. } => 3,
            Self::Going { .. } => 4,
            Self::KeptBy { .. } => 5,
            Self::SeenGone { .. } => 6,
            Self::StillThere { .. } => 7,
            Self::Gone { .. } => 8,
            Self::CallFailed { .. } => 9,
            Self::Left { .. } => 10,
            Self::Joined { .. } => 11,
            Self::DeadlinePassed { .. } => 12,
            Self::Paused(_) => 13,
            Self::Resumed(_) => 14,
            Self::TerminateRequested(_) => 15,
            Self::Finished { .. } => 16,
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

/// What a list of teardowns says of one. The log keeps it longer than the facts; its layout is part of the format on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// How it ended.
    pub end: Option<End>,
    /// Whether it is held.
    pub paused: bool,
    /// How it stands, in words.
    pub message: String,
    /// Members that are gone, and members in all.
    pub members: (u32, u32),
}

impl Details {
    /// Of a teardown in this state; `None` before it has begun.
    pub fn of(state: &State) -> Option<Self> {
        let view = view(state)?;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let gone = view.members.iter().filter(|member| member.status == MemberStatus::Gone).count();
        Some(Self {
            end: view.end,
            paused: view.paused.is_some(),
            message: view.message.clone(),
            members: (number(gone), number(view.members.len())),
        })
    }
}

impl LogRecord for Details {
    type Earlier = Self;

    const HIGHEST_KIND: u16 = 1;

    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

impl Records for Fact {
    const KIND: StreamKind = StreamKind::TEARDOWN;
    type Snapshot = State;
    type Details = Details;
}
