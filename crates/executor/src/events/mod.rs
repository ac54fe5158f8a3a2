//! Events: told when their facts are durable, and read from the log by whoever missed them.
//!
//! ```text
//! facts ─▶ log ─▶ durable ─▶ Narrator ─▶ Announcer ──▶ Events, notifiers
//!           └───────────── Narrator ◀── who was away, or slow ──┘
//! ```
//!
//! The same facts give the same events both ways, so a stream of them has no gap and no repetition, whatever was missed
//! of what was told: a slow listener, an actor that failed, a process that died.

mod announcer;
mod replay;
mod stream;

use ractor::ActorRef;
use tidegate_lifecycle::operation::Event;

pub(crate) use self::announcer::{Announcer, Told};
pub use self::replay::{Gone, Missed, Replay, replay};
pub(crate) use self::stream::recorded;
pub use self::stream::{Events, Seen};

/// Passes everything on to a notifier, until nothing more is told. One that is gone is told nothing.
pub(crate) async fn notify(notifier: ActorRef<Event>, mut events: Events) {
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if notifier.send_message(event).is_err() {
                    return;
                }
            }
            Err(missed) => tracing::warn!(%missed, "a notifier is not told everything"),
        }
    }
}
