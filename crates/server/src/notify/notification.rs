//! Content of notifications.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_executor::{Event, EventKind};
use tidegate_model::{OperationId, OperationOutcome, Timestamp};

/// Kind of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NotificationKind {
    Started,
    Succeeded,
    Failed,
    Deadline,
    Superseded,
}

impl NotificationKind {
    pub const ALL: [Self; 5] =
        [Self::Started, Self::Succeeded, Self::Failed, Self::Deadline, Self::Superseded];

    /// Returns the name used in configuration files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Deadline => "deadline",
            Self::Superseded => "superseded",
        }
    }
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notification {
    /// ID of the notification, unchanged by retries.
    pub id: String,
    pub event: NotificationKind,
    pub application: String,
    pub operation: OperationId,
    pub sequence: u64,
    pub at: Option<Timestamp>,
    /// Human-readable message.
    pub text: String,
}

/// Returns the kind of notification to send for an event; `None` for most events.
pub(crate) fn notification_kind(event: &Event) -> Option<NotificationKind> {
    match &event.what {
        EventKind::Accepted => Some(NotificationKind::Started),
        EventKind::DeadlineExceeded { .. } => Some(NotificationKind::Deadline),
        EventKind::Finished { phase, message } => Some(match OperationOutcome::from_phase(*phase, message) {
            OperationOutcome::Succeeded => NotificationKind::Succeeded,
            OperationOutcome::Superseded => NotificationKind::Superseded,
            _ => NotificationKind::Failed,
        }),
        _ => None,
    }
}

impl Notification {
    pub fn from_event(event: &Event) -> Option<Self> {
        let Event { operation, application, sequence, at, what: kind } = event;
        let what = notification_kind(event)?;
        let text = match kind {
            EventKind::DeadlineExceeded { message, .. } => {
                format!("{application}: deadline passed: {message}")
            }
            EventKind::Finished { phase, message } => {
                format!("{application}: {}: {message}", OperationOutcome::from_phase(*phase, message))
            }
            _ => format!("{application}: operation started"),
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

    /// Returns the message body for Slack-compatible chats, with markup and mentions in the text escaped.
    pub fn chat_body(&self) -> Value {
        let plain = self.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        json!({"text": format!("{plain} (operation {})", self.operation)})
    }
}
