//! Events, delivered once their records are durable. Listeners that miss some read them from the log.
//!
//! ```text
//! records ─▶ log ─▶ durable ─▶ EventEmitter ─▶ EventBroadcaster ──▶ Events, notifiers
//!             └───────────── EventEmitter ◀── absent or slow listeners ──┘
//! ```
//!
//! Live delivery and the log produce the same events from the same records. A stream therefore has neither
//! gaps nor repetitions, even if a listener is slow, an actor fails, or the process crashes.

mod broadcaster;
mod replay;
mod stream;

use ractor::ActorRef;
use tidegate_lifecycle::operation::Event;

pub(crate) use self::broadcaster::{EventBatch, EventBroadcaster};
pub use self::replay::{EventGap, MissingEvents, Replay, replay};
pub(crate) use self::stream::read_log_end;
pub use self::stream::{EventCursor, EventStream};

/// Forwards all events to a notifier until the stream ends or the notifier stops.
pub(crate) async fn forward_events(notifier: ActorRef<Event>, mut events: EventStream) {
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if notifier.send_message(event).is_err() {
                    return;
                }
            }
            Err(missed) => tracing::warn!(%missed, "a notifier fell behind and missed events"),
        }
    }
}
