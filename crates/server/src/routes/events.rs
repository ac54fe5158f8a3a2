//! The stream of events: what happens, as it happens, and what was missed.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use tidegate_executor::Event;
use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::Lookup;
use tidegate_service::applications::store::AppKey;
use tidegate_service::documents::events::EventDocument;
use tidegate_service::queries::Queries;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use crate::bulletin::{About, Bulletin, Entry, EventId};
use crate::following::{News, Reset};
use crate::problem::{Code, Problem};
use crate::route::{Answer, Call, Gives, Route, look_otherwise, text};
use crate::site::Site;
use crate::tokens::{LOOK_EVERY, Pass};

/// How often somebody who listens is told that the connection is alive, while nothing happens.
pub(super) const STILL_HERE: Duration = Duration::from_secs(15);
/// Who goes on by the log is told again what happened so long before: what was recorded a little later may be a little older.
const AGAIN: Duration = Duration::from_secs(60);
/// How soon clients come again that were cut off, in milliseconds.
const COME_AGAIN: u32 = 1000;

/// The rows of the table that are about the stream of events.
pub(super) fn routes() -> Vec<Route> {
    let words = (
        "/api/v1/events",
        "followEvents",
        "What happens to applications, ApplicationSets and operations, as it happens",
    );
    vec![look_otherwise(words, Gives::Events(SchemaGenerator::subschema_for::<News>), follow)]
}

/// What is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct EventsQuery {
    /// Only of this application: NAMESPACE/NAME, or the name of one of the control plane.
    application: Option<String>,
    /// Only of this ApplicationSet: NAMESPACE/NAME, or the name of one of the control plane.
    application_set: Option<String>,
    /// Only of this operation.
    operation: Option<String>,
    /// As the header Last-Event-ID, which counts more: go on after this event.
    last_event_id: Option<String>,
}

async fn follow(call: Call<EventsQuery>) -> Answer {
    let EventsQuery { application, application_set, operation, last_event_id } = call.query;
    let queries = Arc::clone(call.site.queries()?);
    let wanted = Wanted {
        application: application.map(|text| AppKey::named(&text).to_string()),
        set: application_set.map(|text| AppKey::named(&text).to_string()),
        operation: operation
            .map(|text| {
                text.parse().map_err(|_| Problem::bad(format!("{text:?} is not the id of an operation")))
            })
            .transpose()?,
    };
    let last = call.last_event.or(last_event_id).filter(|text| !text.is_empty());
    let foreign = |_| Problem::bad("Last-Event-ID is not the id of an event of this API; begin without it");
    let last: Option<EventId> = last.map(|text| text.parse().map_err(foreign)).transpose()?;
    let place = place(&call.site)?;
    let bulletin = Arc::clone(call.site.bulletin());
    let newest = bulletin.newest();
    let (after, missed) = match last {
        None => (newest, None),
        Some(last) if bulletin.has_after(last) => (last, None),
        Some(last) => (newest, Some(missed(&queries, &wanted, last.at).await?)),
    };
    let reader = Reader {
        changes: bulletin.changes(),
        ending: call.site.ending(),
        bulletin,
        queries,
        wanted,
        after,
        missed,
        has_begun: false,
        pass: call.pass,
        _place: place,
    };
    let chunks = futures_util::stream::unfold(reader, async |mut reader| {
        let chunk = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(chunk)), reader))
    });
    Ok(text(StatusCode::OK, "text/event-stream", Body::from_stream(chunks)))
}

/// A place among those who listen.
pub(super) fn place(site: &Site) -> Result<OwnedSemaphorePermit, Problem> {
    site.stream_place().ok_or_else(|| {
        Problem::new(Code::TooOften, "as many listen to events as may").after(Duration::from_secs(10))
    })
}

/// What is wanted; all that is not excluded.
struct Wanted {
    application: Option<String>,
    set: Option<String>,
    operation: Option<OperationId>,
}

impl Wanted {
    fn is(&self, about: &About) -> bool {
        self.application.as_ref().is_none_or(|wanted| *wanted == about.application)
            && self.set.as_ref().is_none_or(|wanted| *wanted == about.set)
            && (self.operation.is_none() || self.operation == about.operation)
    }
}

/// What is read from the log, because it is not kept any more.
struct Missed {
    operations: VecDeque<OperationId>,
    /// Only what happened since then.
    since: Timestamp,
    is_told: bool,
}

/// The operations to which something happened since then.
async fn missed(queries: &Queries, wanted: &Wanted, at: Timestamp) -> Result<Missed, Problem> {
    let since = at - AGAIN;
    let listed = queries.operations(Lookup::all()).await?;
    let went_on = listed.into_iter().filter(|one| {
        one.summary.as_ref().is_some_and(|known| {
            known.finished_at.is_none_or(|at| at >= since)
                && wanted.is(&About {
                    application: AppKey::named(&known.application).to_string(),
                    set: String::new(),
                    operation: Some(one.operation),
                })
        })
    });
    Ok(Missed { operations: went_on.map(|one| one.operation).collect(), since, is_told: false })
}

/// Somebody who listens.
struct Reader {
    bulletin: Arc<Bulletin>,
    queries: Arc<Queries>,
    wanted: Wanted,
    /// All up to here was told.
    after: EventId,
    missed: Option<Missed>,
    changes: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    has_begun: bool,
    pass: Pass,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// What is told next; nothing when the stream ends: then the client comes again with the last id it has seen, and with a
    /// token that counts.
    async fn next(&mut self) -> Option<String> {
        if !self.pass.counts(Instant::now()) {
            return None;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            // Who goes on by the log has not seen what happened before the newest.
            let id = if self.missed.is_some() { String::new() } else { format!("id: {}\n", self.after) };
            return Some(format!("retry: {COME_AGAIN}\n{id}\n"));
        }
        if self.missed.is_some() {
            return Some(self.next_missed().await);
        }
        let quiet_until = Instant::now() + STILL_HERE;
        loop {
            self.changes.borrow_and_update();
            // What is not there any more comes from the log, in another connection.
            let entries = self.bulletin.after(self.after.number).ok()?;
            if let Some(last) = entries.last() {
                self.after = last.id;
                let mut told = String::new();
                for entry in entries.iter().filter(|entry| self.is_wanted(entry)) {
                    let _ = writeln!(told, "id: {}", entry.id);
                    tell(&mut told, entry.kind, &entry.data);
                }
                // All are seen, also those that are not wanted.
                let _ = write!(told, "id: {}\n\n", self.after);
                return Some(told);
            }
            tokio::select! {
                _ = self.ending.wait_for(|ending| *ending) => return None,
                changed = timeout(LOOK_EVERY, self.changes.changed()) => match changed {
                    Ok(Ok(())) | Err(_) => {}
                    Ok(Err(_)) => return None,
                },
            }
            let now = Instant::now();
            if !self.pass.counts(now) {
                return None;
            }
            if now >= quiet_until && !self.changes.has_changed().unwrap_or(false) {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        self.wanted.is(&entry.about)
    }

    /// What happened to one operation since then. It has no id until all is told: who is cut off before is told all again.
    async fn next_missed(&mut self) -> String {
        let mut told = String::new();
        let Some(missed) = &mut self.missed else { return told };
        if !std::mem::replace(&mut missed.is_told, true) {
            let message =
                "what happened to applications and ApplicationSets since that event is not kept; look at their lists".to_owned();
            tell(&mut told, "reset", &News::Reset(Reset { message }).data());
        }
        let Some(operation) = missed.operations.pop_front() else {
            self.missed = None;
            let _ = write!(told, "id: {}\n\n", self.after);
            return told;
        };
        match self.queries.events(operation, 0, false).await {
            Ok(found) => {
                let since = missed.since;
                let mut at = Timestamp::default();
                for event in &found.events {
                    // Those without a time follow the one before them closely.
                    at = event.at.unwrap_or(at);
                    if at >= since {
                        tell(&mut told, "operation", &data(event));
                    }
                }
            }
            Err(error) => tracing::warn!(%operation, %error, "what happened to an operation cannot be told"),
        }
        if told.is_empty() {
            told.push_str(": nothing\n\n");
        }
        told
    }
}

fn data(event: &Event) -> String {
    News::Operation(Box::new(EventDocument::from(event))).data()
}

/// One event; its data is one line.
pub(super) fn tell(told: &mut String, kind: &str, data: &str) {
    let _ = write!(told, "event: {kind}\ndata: {data}\n\n");
}
