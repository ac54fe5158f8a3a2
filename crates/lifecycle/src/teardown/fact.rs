//! What is recorded. Facts are append-only: a variant is never removed or reordered, because logs hold it. Where a field of
//! one changes, the variant gets the next kind number and its old layout is still read.

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::Options;
use super::state::{Approval, End, Stage};
use crate::fleet::{Assignment, Said};

/// Something that happened to a teardown, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The teardown exists from here on, and this is who is deleted when.
    Begun {
        /// The ApplicationSet: `namespace/name`.
        set: String,
        /// Its `metadata.uid`.
        uid: String,
        /// Who asked for it.
        by: String,
        /// In which order.
        order: Order,
        /// The Applications that are to be deleted.
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
    /// An Application is to be deleted now.
    Condemned {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// It is being deleted.
    Going {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// What keeps it, or does not any more.
    KeptBy {
        /// Which.
        member: String,
        /// In words; may be empty.
        kept_by: String,
        /// When that was seen; `None` where the program that recorded it kept no time.
        at: Option<Timestamp>,
    },
    /// It was seen to be gone, perhaps by an old sight.
    SeenGone {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// It was looked for once more, and is still there.
    StillThere {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// It is gone.
    Gone {
        /// Which.
        member: String,
        /// When.
        at: Timestamp,
    },
    /// A call about it failed; it is made again at `retry_at`.
    CallFailed {
        /// Which.
        member: String,
        /// Why.
        message: String,
        /// When it is made again.
        retry_at: Timestamp,
    },
    /// A person does not await it.
    Left {
        /// Which.
        member: String,
        /// Who, and why.
        said: Said,
    },
    /// One more Application is to be deleted.
    Joined {
        /// It.
        member: Box<Listed>,
        /// When.
        at: Timestamp,
    },
    /// A step takes too long.
    DeadlinePassed {
        /// Which.
        step: u32,
        /// In words, with the names of then.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// A person holds the teardown.
    Paused(Said),
    /// A person lets it go on.
    Resumed(Said),
    /// A person wants its end.
    TerminateRequested(Said),
    /// The teardown is over.
    Finished {
        /// How.
        end: End,
        /// In words.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// A person has let deletions be done that were held because they are too many.
    Approved(Approval),
    /// An Application is not the set's any more, and stays.
    Released {
        /// Which.
        member: String,
        /// When that was seen.
        at: Timestamp,
    },
}

/// An Application that is to be deleted, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// In which step it is deleted.
    pub place: Assignment,
}

impl Fact {
    /// The member it is about, if it is about one that is known.
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::Condemned { member, .. }
            | Self::Going { member, .. }
            | Self::KeptBy { member, .. }
            | Self::SeenGone { member, .. }
            | Self::StillThere { member, .. }
            | Self::Gone { member, .. }
            | Self::CallFailed { member, .. }
            | Self::Left { member, .. }
            | Self::Released { member, .. } => Some(member),
            _ => None,
        }
    }
}
