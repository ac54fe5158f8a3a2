/// Outstanding command of a teardown.
///
/// A command may run twice, so it must be idempotent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Delete the Application, with this UID as a precondition. The Application's finalizers determine
    /// whether its deployed objects are deleted too. Both "not found" and "another UID" mean that it is gone.
    /// Result: [`Input::Answered`](super::Input).
    Delete {
        /// Name of the Application.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
    /// Read the Application, bypassing every cache. Result: [`Input::Answered`](super::Input).
    Read {
        /// Name of the Application.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
    /// Report observations of an Application as [`Input::Observed`](super::Input), beginning with the
    /// Application's current state.
    WatchMember {
        /// Name of the Application.
        member: String,
        /// `metadata.uid` of the Application.
        uid: String,
    },
}

/// Subject of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A call for an Application.
    Call(String),
    /// The watch of an Application.
    Watch(String),
}

impl Command {
    /// Returns the subject of the command.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Delete { member, .. } | Self::Read { member, .. } => Subject::Call(member.clone()),
            Self::WatchMember { member, .. } => Subject::Watch(member.clone()),
        }
    }

    /// Returns true for a subscription, which runs while it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::WatchMember { .. })
    }
}
