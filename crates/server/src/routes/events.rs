//! Event stream with live and missed events.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use tidegate_application::AppKey;
use tidegate_daemon::queries::Queries;
use tidegate_executor::Event;
use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::Lookup;
use tidegate_views::events::EventDocument;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use crate::event_buffer::{BufferedEvent, EventBuffer, EventCursor, EventId, EventSubject};
use crate::event_publisher::{ResetReason, StreamEvent};
use crate::problem::{Code, Problem};
use crate::route::{Call, HandlerResult, ResponseContent, Route, get_route_as, text_response};
use crate::server_state::ServerState;
use crate::tokens::{AuthContext, CHECK_INTERVAL};

/// Interval between keep-alive comments on an idle stream.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Overlap when a client resumes from the log. Events from this period are sent again, because a later event
/// may have an earlier time.
const RESUME_OVERLAP: Duration = Duration::from_secs(60);
/// Reconnection delay for clients, in milliseconds.
const COME_AGAIN: u32 = 1000;

/// Path of the event stream.
pub(crate) const EVENTS_PATH: &str = "/api/v1/events";

pub(super) fn routes() -> Vec<Route> {
    vec![get_route_as(
        EVENTS_PATH,
        "followEvents",
        "Stream events of applications, ApplicationSets and operations",
        ResponseContent::Events(SchemaGenerator::subschema_for::<StreamEvent>),
        stream_events,
    )]
}

/// Filter for events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct EventsQuery {
    /// Only events for this application: NAMESPACE/NAME, or NAME if it is in the control plane's namespace.
    application: Option<String>,
    /// Only events for this ApplicationSet: NAMESPACE/NAME, or NAME if it is in the control plane's
    /// namespace.
    application_set: Option<String>,
    /// Only events for this operation.
    operation: Option<String>,
    /// Event ID after which to resume. The Last-Event-ID header takes precedence.
    last_event_id: Option<String>,
}

async fn stream_events(call: Call<EventsQuery>) -> HandlerResult {
    let EventsQuery { application, application_set, operation, last_event_id } = call.query;
    let queries = Arc::clone(call.state.queries()?);
    let filter = EventFilter {
        application: application.map(|text| AppKey::parse(&text).to_string()),
        appset: application_set.map(|text| AppKey::parse(&text).to_string()),
        operation: operation
            .map(|text| {
                text.parse().map_err(|_| Problem::bad_request(format!("{text:?} is not an operation ID")))
            })
            .transpose()?,
    };
    let last = call.last_event.or(last_event_id).filter(|text| !text.is_empty());
    let foreign = |_| {
        Problem::bad_request(
            "Last-Event-ID is not a valid event ID: to start with the newest event, reconnect without this header",
        )
    };
    let last: Option<EventCursor> = last.map(|text| text.parse().map_err(foreign)).transpose()?;
    let place = stream_permit(&call.state)?;
    let buffer = Arc::clone(call.state.event_buffer());
    let newest = buffer.newest_id();
    let (after, missed) = match last.map(|last| buffer.find_position(&last)) {
        None => (newest, None),
        Some(Ok(last)) => (last, None),
        Some(Err(at)) => (newest, Some(find_missed_events(&queries, &filter, at).await?)),
    };
    let reader = EventReader {
        changes: buffer.subscribe(),
        shutdown: call.state.shutdown_signal(),
        buffer,
        queries,
        filter,
        after,
        missed,
        has_started: false,
        auth: call.auth,
        _permit: place,
    };
    let chunks = futures_util::stream::unfold(reader, async |mut reader| {
        let chunk = reader.next_chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(chunk)), reader))
    });
    Ok(text_response(StatusCode::OK, "text/event-stream", Body::from_stream(chunks)))
}

/// Returns a permit for an event stream.
pub(super) fn stream_permit(state: &ServerState) -> Result<OwnedSemaphorePermit, Problem> {
    state.acquire_stream_permit().ok_or_else(|| {
        Problem::new(Code::TooOften, "too many event streams are open")
            .with_retry_after(Duration::from_secs(10))
    })
}

/// Event filter. A field that is `None` matches every event.
struct EventFilter {
    application: Option<String>,
    appset: Option<String>,
    operation: Option<OperationId>,
}

impl EventFilter {
    fn is_match(&self, about: &EventSubject) -> bool {
        self.application.as_ref().is_none_or(|wanted| *wanted == about.application)
            && self.appset.as_ref().is_none_or(|wanted| *wanted == about.appset)
            && (self.operation.is_none() || self.operation == about.operation)
    }
}

/// Events to read from the log, because the buffer has dropped them.
struct MissedEvents {
    operations: VecDeque<OperationId>,
    /// Time of the earliest event to send.
    since: Timestamp,
    is_reset_sent: bool,
}

/// Finds the operations with events since the given time, less the overlap.
async fn find_missed_events(
    queries: &Queries,
    wanted: &EventFilter,
    at: Timestamp,
) -> Result<MissedEvents, Problem> {
    let since = at - RESUME_OVERLAP;
    let listed = queries.list_operations(Lookup::all()).await?;
    let went_on = listed.into_iter().filter(|one| {
        one.summary.as_ref().is_some_and(|known| {
            known.finished_at.is_none_or(|at| at >= since)
                && wanted.is_match(&EventSubject {
                    application: AppKey::parse(&known.application).to_string(),
                    appset: String::new(),
                    operation: Some(one.operation),
                })
        })
    });
    Ok(MissedEvents { operations: went_on.map(|one| one.operation).collect(), since, is_reset_sent: false })
}

/// A connected client.
struct EventReader {
    buffer: Arc<EventBuffer>,
    queries: Arc<Queries>,
    filter: EventFilter,
    /// ID of the last event sent. All earlier events were sent, too.
    after: EventId,
    missed: Option<MissedEvents>,
    changes: watch::Receiver<u64>,
    shutdown: watch::Receiver<bool>,
    has_started: bool,
    auth: AuthContext,
    _permit: OwnedSemaphorePermit,
}

impl EventReader {
    /// Returns the next chunk, or `None` at the end of the stream. The client then reconnects with its last
    /// event ID and a valid token.
    async fn next_chunk(&mut self) -> Option<String> {
        if !self.auth.is_valid(Instant::now()) {
            return None;
        }
        if !std::mem::replace(&mut self.has_started, true) {
            // Don't send an ID while resuming from the log, because the client hasn't received all earlier
            // events.
            let id = if self.missed.is_some() { String::new() } else { format!("id: {}\n", self.after) };
            return Some(format!("retry: {COME_AGAIN}\n{id}\n"));
        }
        if self.missed.is_some() {
            return Some(self.next_missed_chunk().await);
        }
        let quiet_until = Instant::now() + KEEP_ALIVE_INTERVAL;
        loop {
            self.changes.borrow_and_update();
            // If the buffer has dropped the events, end the stream. The client then reconnects and gets the
            // events from the log.
            let entries = self.buffer.events_after(self.after.number).ok()?;
            if let Some(last) = entries.last() {
                self.after = last.id;
                let mut text = String::new();
                for entry in entries.iter().filter(|entry| self.is_selected(entry)) {
                    let _ = writeln!(text, "id: {}", entry.id);
                    write_event(&mut text, entry.kind, &entry.data);
                }
                // Filtered-out events count as received.
                let _ = write!(text, "id: {}\n\n", self.after);
                return Some(text);
            }
            tokio::select! {
                _ = self.shutdown.wait_for(|ending| *ending) => return None,
                changed = timeout(CHECK_INTERVAL, self.changes.changed()) => match changed {
                    Ok(Ok(())) | Err(_) => {}
                    Ok(Err(_)) => return None,
                },
            }
            let now = Instant::now();
            if !self.auth.is_valid(now) {
                return None;
            }
            if now >= quiet_until && !self.changes.has_changed().unwrap_or(false) {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    fn is_selected(&self, entry: &BufferedEvent) -> bool {
        self.filter.is_match(&entry.subject)
    }

    /// Returns the missed events of one operation. Events have no ID until all missed events are sent, so a
    /// client that disconnects earlier receives all of them again.
    async fn next_missed_chunk(&mut self) -> String {
        let mut text = String::new();
        let Some(missed) = &mut self.missed else { return text };
        if !std::mem::replace(&mut missed.is_reset_sent, true) {
            let message =
                "some events after the last one that you received are no longer available; fetch the lists of Applications, ApplicationSets and plans again".to_owned();
            write_event(&mut text, "reset", &StreamEvent::Reset(ResetReason { message }).to_json());
        }
        let Some(operation) = missed.operations.pop_front() else {
            self.missed = None;
            let _ = write!(text, "id: {}\n\n", self.after);
            return text;
        };
        match self.queries.events(operation, 0, false).await {
            Ok(found) => {
                let since = missed.since;
                let mut at = Timestamp::default();
                for event in &found.events {
                    // An event without a time takes the time of the preceding event.
                    at = event.at.unwrap_or(at);
                    if at >= since {
                        write_event(&mut text, "operation", &event_json(event));
                    }
                }
            }
            Err(error) => tracing::warn!(%operation, %error, "failed to read the events of an operation"),
        }
        if text.is_empty() {
            text.push_str(": nothing\n\n");
        }
        text
    }
}

fn event_json(event: &Event) -> String {
    StreamEvent::Operation(Box::new(EventDocument::from(event))).to_json()
}

/// Writes one event, with its data on a single line.
pub(super) fn write_event(text: &mut String, kind: &str, data: &str) {
    let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
}
