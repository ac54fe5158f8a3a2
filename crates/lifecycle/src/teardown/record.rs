//! What the log keeps of a teardown: the kinds of its records, and what a list of teardowns says of one.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, Records, StreamKind};

use super::earlier::{FactOfKind5, StateOfKind1};
use super::fact::Fact;
use super::state::{End, Progress, State};
use super::view::message;
use crate::fleet::count;

impl LogRecord for Fact {
    type Earlier = FactOfKind5;

    const HIGHEST_KIND: u16 = 20;

    fn is_earlier(kind: u16) -> bool {
        kind == 5
    }

    fn kind(&self) -> u16 {
        match self {
            // Programs that know no such order are to say so, and not that it is damaged.
            Self::Begun { order, .. } if order.is_witnessed() => 19,
            Self::Begun { .. } => 1,
            Self::Moved { .. } => 2,
            Self::Condemned { .. } => 3,
            Self::Going { .. } => 4,
            Self::KeptBy { .. } => 18,
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
            Self::Approved(_) => 17,
            Self::Released { .. } => 20,
        }
    }
}

impl LogRecord for State {
    type Earlier = StateOfKind1;

    const HIGHEST_KIND: u16 = 3;

    fn is_earlier(kind: u16) -> bool {
        kind == 1
    }

    /// As with the facts: what is only witnessed earlier programs cannot read.
    fn kind(&self) -> u16 {
        let is_witnessed = self.teardown().is_some_and(|teardown| teardown.order.is_witnessed());
        if is_witnessed { 3 } else { 2 }
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
    /// Members that are gone or let go, and members in all.
    pub members: (u32, u32),
    /// Who asked for it; empty where it is not known.
    pub by: String,
}

/// As programs wrote it that did not keep who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailsOfKind1 {
    end: Option<End>,
    paused: bool,
    message: String,
    members: (u32, u32),
}

impl From<DetailsOfKind1> for Details {
    fn from(earlier: DetailsOfKind1) -> Self {
        let DetailsOfKind1 { end, paused, message, members } = earlier;
        Self { end, paused, message, members, by: String::new() }
    }
}

impl Details {
    /// Of a teardown in this state; `None` before it has begun. It is asked for with every batch, and so builds no view.
    pub fn of(state: &State) -> Option<Self> {
        let teardown = state.teardown()?;
        let is_done = |progress: &Progress| matches!(progress, Progress::Gone | Progress::Released);
        let done = teardown.members.values().filter(|member| is_done(&member.progress));
        Some(Self {
            end: teardown.outcome.as_ref().map(|outcome| outcome.end),
            paused: teardown.paused.is_some(),
            message: message(teardown),
            members: (count(done), count(teardown.members.values())),
            by: teardown.by.clone(),
        })
    }
}

impl LogRecord for Details {
    type Earlier = DetailsOfKind1;

    const HIGHEST_KIND: u16 = 2;

    fn is_earlier(kind: u16) -> bool {
        kind == 1
    }

    fn kind(&self) -> u16 {
        2
    }
}

impl Records for Fact {
    const KIND: StreamKind = StreamKind::TEARDOWN;
    type Snapshot = State;
    type Details = Details;
}
