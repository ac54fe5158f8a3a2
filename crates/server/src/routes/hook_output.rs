//! Live output of an operation's hooks.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use schemars::SchemaGenerator;
use tidegate_executor::{EngineError, HookOutput};
use tidegate_state::error::ServiceError;
use tidegate_views::output::OutputDocument;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use super::events::{KEEP_ALIVE_INTERVAL, stream_permit, write_event};
use super::operations::operation_id;
use crate::query::NoParameters;
use crate::route::{Call, HandlerResult, ResponseContent, Route, get_route_as, text_response};
use crate::tokens::{AuthContext, CHECK_INTERVAL};

/// Maximum number of events to send in one chunk.
const CHUNK_EVENTS_MAX: usize = 256;
/// Kind of the stream's last event.
const END_EVENT: &str = "end";

pub(super) fn routes() -> Vec<Route> {
    vec![get_route_as(
        "/api/v1/operations/{id}/output",
        "followOutput",
        "Stream the output of an operation's running hooks",
        ResponseContent::Events(SchemaGenerator::subschema_for::<OutputDocument>),
        stream_output,
    )]
}

async fn stream_output(call: Call<NoParameters>) -> HandlerResult {
    let id = operation_id(&call)?;
    let place = stream_permit(&call.state)?;
    let output = match call.state.queries()?.follow_output(id).await {
        Ok(output) => Some(output),
        // The operation finished before the client connected.
        Err(ServiceError::Engine(EngineError::AlreadyFinished { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let reader = OutputReader {
        output,
        shutdown: call.state.shutdown_signal(),
        auth: call.auth,
        state: ReaderState::Starting,
        _permit: place,
    };
    let chunks = futures_util::stream::unfold(reader, async |mut reader| {
        let chunk = reader.next_chunk().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), reader))
    });
    Ok(text_response(StatusCode::OK, "text/event-stream", Body::from_stream(chunks)))
}

/// A connected client.
struct OutputReader {
    /// Hook output, or `None` if the operation has finished.
    output: Option<HookOutput>,
    shutdown: watch::Receiver<bool>,
    auth: AuthContext,
    state: ReaderState,
    _permit: OwnedSemaphorePermit,
}

enum ReaderState {
    Starting,
    Streaming,
    Ended,
}

impl OutputReader {
    /// Returns the next chunk, or `None` at the end of the stream.
    async fn next_chunk(&mut self) -> Option<String> {
        if !self.auth.is_valid(Instant::now()) {
            return None;
        }
        match self.state {
            ReaderState::Starting => {
                self.state = ReaderState::Streaming;
                // Send a comment first, because the server holds back the response head until the first
                // chunk.
                return Some(": begins\n\n".to_owned());
            }
            ReaderState::Streaming => {}
            ReaderState::Ended => return None,
        }
        let quiet_until = Instant::now() + KEEP_ALIVE_INTERVAL;
        loop {
            let Some(output) = &mut self.output else { return Some(self.finish_stream()) };
            let item = tokio::select! {
                _ = self.shutdown.wait_for(|ending| *ending) => return None,
                item = timeout(CHECK_INTERVAL, output.next()) => item,
            };
            match item {
                Ok(Some(first)) => {
                    let mut text = String::new();
                    let more = std::iter::from_fn(|| output.next().now_or_never().flatten());
                    for item in std::iter::once(first).chain(more.take(CHUNK_EVENTS_MAX)) {
                        let document = OutputDocument::from(item);
                        let data = serde_json::to_string(&document).unwrap_or_default();
                        write_event(&mut text, document.kind.as_str(), &data);
                    }
                    return Some(text);
                }
                Ok(None) => return Some(self.finish_stream()),
                Err(_) => {}
            }
            let now = Instant::now();
            if !self.auth.is_valid(now) {
                return None;
            }
            if now >= quiet_until {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    /// Ends the stream with an event that tells clients not to reconnect automatically.
    fn finish_stream(&mut self) -> String {
        self.state = ReaderState::Ended;
        let mut text = String::new();
        write_event(&mut text, END_EVENT, "{}");
        text
    }
}
