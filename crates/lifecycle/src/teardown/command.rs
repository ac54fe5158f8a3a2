/// What the world still owes a teardown.
///
/// Every command may be carried out twice and must then change nothing the second time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Delete the Application, with this UID as a precondition; its finalizers say what becomes of what it has deployed.
    /// "Not found" and "another UID" both mean that it is gone. Answer: [`Input::Answered`](super::Input).
    Delete {
        /// Which member.
        member: String,
        /// Its `metadata.uid`.
        uid: String,
    },
    /// Look for the Application, past every cache. Answer: [`Input::Answered`](super::Input).
    Look {
        /// Which member.
        member: String,
        /// Its `metadata.uid`.
        uid: String,
    },
    /// Keep telling how an Application is as [`Input::Sighted`](super::Input), beginning with now.
    Watch {
        /// Which member.
        member: String,
        /// Its `metadata.uid`.
        uid: String,
    },
}

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A call about a member.
    Call(String),
    /// The watch of a member.
    Watch(String),
}

impl Command {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Delete { member, .. } | Self::Look { member, .. } => Subject::Call(member.clone()),
            Self::Watch { member, .. } => Subject::Watch(member.clone()),
        }
    }

    /// Whether it is kept up for as long as it is owed.
    pub fn is_standing(&self) -> bool {
        matches!(self, Self::Watch { .. })
    }
}
