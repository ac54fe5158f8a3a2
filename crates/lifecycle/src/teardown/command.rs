/// An outstanding command of a teardown.
///
/// Every command may be executed twice. The second execution must not have an effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Delete the Application, with this UID as a precondition. Its finalizers decide what happens to its deployed
    /// objects. Both "not found" and "another UID" mean that the Application is gone. Answer:
    /// [`Input::Answered`](super::Input).
    Delete {
        /// Name of the member.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
    /// Read the Application, bypassing every cache. Answer: [`Input::Answered`](super::Input).
    Read {
        /// Name of the member.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
    /// Report observations of an Application as [`Input::Observed`](super::Input), beginning with the current state.
    WatchMember {
        /// Name of the member.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
}

/// Subject of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A call about a member.
    Call(String),
    /// The watch of a member.
    Watch(String),
}

impl Command {
    /// Returns the subject.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Delete { member, .. } | Self::Read { member, .. } => Subject::Call(member.clone()),
            Self::WatchMember { member, .. } => Subject::Watch(member.clone()),
        }
    }

    /// Returns true for a subscription, which runs as long as it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::WatchMember { .. })
    }
}
