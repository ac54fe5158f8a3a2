//! What the hooks of an operation write, as they write it.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use schemars::SchemaGenerator;
use tidegate_executor::{EngineError, HookOutput};
use tidegate_service::documents::output::OutputDocument;
use tidegate_service::error::ServiceError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use super::events::{STILL_HERE, place, tell};
use super::operations::id;
use crate::question::Nothing;
use crate::route::{Answer, Call, Gives, Route, look_otherwise, text};
use crate::tokens::{LOOK_EVERY, Pass};

/// What is there already is told in one piece of so many events at most.
const TOGETHER_MAX: usize = 256;
/// The word of the event after which none follows.
const END: &str = "end";

/// The rows of the table that are about the output of hooks.
pub(super) fn routes() -> Vec<Route> {
    let words = (
        "/api/v1/operations/{id}/output",
        "followOutput",
        "What the hooks of an operation write while they run, line by line",
    );
    vec![look_otherwise(words, Gives::Events(SchemaGenerator::subschema_for::<OutputDocument>), follow)]
}

async fn follow(call: Call<Nothing>) -> Answer {
    let id = id(&call)?;
    let place = place(&call.site)?;
    let output = match call.site.queries()?.follow_output(id).await {
        Ok(output) => Some(output),
        // It ended before anybody listened.
        Err(ServiceError::Engine(EngineError::AlreadyFinished { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let reader =
        Reader { output, ending: call.site.ending(), pass: call.pass, stage: Stage::Begins, _place: place };
    let chunks = futures_util::stream::unfold(reader, async |mut reader| {
        let chunk = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), reader))
    });
    Ok(text(StatusCode::OK, "text/event-stream", Body::from_stream(chunks)))
}

/// Somebody who listens.
struct Reader {
    /// Nothing where the operation is over.
    output: Option<HookOutput>,
    ending: watch::Receiver<bool>,
    pass: Pass,
    stage: Stage,
    _place: OwnedSemaphorePermit,
}

enum Stage {
    Begins,
    GoesOn,
    IsOver,
}

impl Reader {
    /// What is told next; nothing when the stream ends.
    async fn next(&mut self) -> Option<String> {
        if !self.pass.counts(Instant::now()) {
            return None;
        }
        match self.stage {
            Stage::Begins => {
                self.stage = Stage::GoesOn;
                // The head of the answer is sent with it.
                return Some(": begins\n\n".to_owned());
            }
            Stage::GoesOn => {}
            Stage::IsOver => return None,
        }
        let quiet_until = Instant::now() + STILL_HERE;
        loop {
            let Some(output) = &mut self.output else { return Some(self.end()) };
            let item = tokio::select! {
                _ = self.ending.wait_for(|ending| *ending) => return None,
                item = timeout(LOOK_EVERY, output.next()) => item,
            };
            match item {
                Ok(Some(first)) => {
                    let mut told = String::new();
                    let more = std::iter::from_fn(|| output.next().now_or_never().flatten());
                    for item in std::iter::once(first).chain(more.take(TOGETHER_MAX)) {
                        let document = OutputDocument::from(item);
                        let data = serde_json::to_string(&document).unwrap_or_default();
                        tell(&mut told, document.kind.word(), &data);
                    }
                    return Some(told);
                }
                Ok(None) => return Some(self.end()),
                Err(_) => {}
            }
            let now = Instant::now();
            if !self.pass.counts(now) {
                return None;
            }
            if now >= quiet_until {
                return Some(": still here\n\n".to_owned());
            }
        }
    }

    /// Clients that come again by themselves are told not to.
    fn end(&mut self) -> String {
        self.stage = Stage::IsOver;
        let mut told = String::new();
        tell(&mut told, END, "{}");
        told
    }
}
