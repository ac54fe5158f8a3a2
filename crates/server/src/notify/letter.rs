//! What somebody is notified of.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_executor::{Event, EventKind};
use tidegate_model::{OperationId, OperationPhase, Timestamp};

/// What happened, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    Started,
    Succeeded,
    Failed,
    Deadline,
}

impl What {
    pub const ALL: [Self; 4] = [Self::Started, Self::Succeeded, Self::Failed, Self::Deadline];

    /// As it is written in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Deadline => "deadline",
        }
    }
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Letter {
    /// The same whenever it is sent.
    pub id: String,
    pub event: What,
    pub application: String,
    pub operation: OperationId,
    pub sequence: u64,
    pub at: Option<Timestamp>,
    /// In words.
    pub text: String,
}

/// What an event is, for those who are notified; nothing of most.
pub(crate) fn what(event: &Event) -> Option<What> {
    match &event.what {
        EventKind::Accepted => Some(What::Started),
        EventKind::DeadlinePassed { .. } => Some(What::Deadline),
        EventKind::Finished { phase: OperationPhase::Succeeded, .. } => Some(What::Succeeded),
        EventKind::Finished { .. } => Some(What::Failed),
        _ => None,
    }
}

impl Letter {
    pub fn of(event: &Event) -> Option<Self> {
        let Event { operation, application, sequence, at, what: kind } = event;
        let what = what(event)?;
        let text = match kind {
            EventKind::DeadlinePassed { message, .. } => {
                format!("{application}: a deadline has passed: {message}")
            }
            EventKind::Finished { phase, message } => format!("{application}: {phase}: {message}"),
            _ => format!("{application}: an operation has begun"),
        };
        Some(Self {
            id: format!("{operation}-{sequence}"),
            event: what,
            application: application.clone(),
            operation: *operation,
            sequence: *sequence,
            at: *at,
            text,
        })
    }

    /// As chats of the manner of Slack take it. What people write there for emphasis and mention means nothing.
    pub fn for_chat(&self) -> Value {
        let plain = self.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        json!({"text": format!("{plain} (operation {})", self.operation)})
    }
}
