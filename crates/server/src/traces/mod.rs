//! Traces: each operation that is over, as a tree of spans, sent to a collector by OTLP over HTTP.
//!
//! ```text
//! Engine::all_events(seen) ──▶ over? ──▶ its log ──▶ Span ──▶ POST, again and again until they are taken ──▶ seen, on the disk
//! ```
//!
//! Spans are made from the log of an operation when it is over, so its trace is whole whatever was killed meanwhile. They are
//! sent at least once, with the same ids each time. What a collector has not taken yet is in the log and nowhere else: one
//! that takes nothing costs no memory, and keeps no operation waiting.

mod collector;
mod course;
mod otlp;
mod post;
mod span;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_executor::{Engine, EngineError, Event, EventKind};
use tidegate_service::applications::Serving;
use tidegate_service::applications::store::AppKey;
use tidegate_service::queries::Queries;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::post::Line;
use crate::seen::{Kept, forget_others};

pub use self::collector::{Collector, WrongCollector};

/// The file that says how far the collector has been told.
const NAME: &str = "collector";
/// So many spans are in one request.
const SPANS_MAX: usize = 512;
/// So many operations are sent together, and an operation waits for others no longer than this.
const TOGETHER_MAX: usize = 64;
const TOGETHER_WITHIN: Duration = Duration::from_secs(1);
/// So many events that end no operation may pass before it is written down that they were seen.
const PASSED_MAX: u32 = 1024;

/// Sends traces until it is dropped.
pub struct Tracing(Option<JoinHandle<()>>);

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(sending) = &self.0 {
            sending.abort();
        }
    }
}

impl Tracing {
    /// Sends the collector the traces of all operations that end from now on, and of those that have ended and were not
    /// taken. `folder` is where it is kept how far that is; a collector that is new there, or that was not named for a while,
    /// is sent nothing of what had ended before.
    ///
    /// # Errors
    ///
    /// The engine has stopped, or its log cannot be read.
    pub async fn begin(
        collector: Option<Collector>,
        engine: &Engine,
        queries: &Queries,
        folder: &Path,
    ) -> Result<Self, EngineError> {
        let Some(collector) = collector else {
            forget_others(folder, BTreeSet::new());
            return Ok(Self(None));
        };
        let kept = Kept::open(folder, NAME, engine).await?;
        let (engine, served) = (engine.clone(), queries.served());
        let sending = tokio::spawn(async move {
            // By then it is known whose projects they are of.
            if let Some(serving) = served.await {
                let line = Line::new(collector);
                Sending { engine, serving, kept, line, spans: Vec::new() }.run().await;
            }
        });
        Ok(Self(Some(sending)))
    }
}

/// What goes to the collector.
struct Sending {
    engine: Engine,
    serving: Serving,
    kept: Kept,
    line: Line,
    /// Those that are not sent yet.
    spans: Vec<Value>,
}

impl Sending {
    async fn run(mut self) {
        let mut events = self.engine.all_events(self.kept.seen());
        let (mut ended, mut until, mut passed) = (Vec::new(), Instant::now(), 0_u32);
        loop {
            let event = if ended.is_empty() {
                events.next().await
            } else if let Ok(event) = tokio::time::timeout_at(until, events.next()).await {
                event
            } else {
                self.send(&mut ended).await;
                continue;
            };
            match event {
                Some(Ok(event)) if matches!(event.what, EventKind::Finished { .. }) => {
                    if ended.is_empty() {
                        until = Instant::now() + TOGETHER_WITHIN;
                    }
                    ended.push(event);
                }
                Some(Ok(event)) => {
                    self.kept.note(&event);
                    passed = passed.saturating_add(1);
                }
                Some(Err(missed)) => tracing::warn!(%missed, "not everything is traced"),
                None => return,
            }
            if ended.len() >= TOGETHER_MAX {
                self.send(&mut ended).await;
            } else if passed > PASSED_MAX {
                self.kept.write().await;
                passed = 0;
            }
        }
    }

    /// Returns when the traces of operations were taken, or never will be.
    async fn send(&mut self, ended: &mut Vec<Event>) {
        for event in ended.iter() {
            match self.engine.history(event.operation).await {
                Ok((state, facts)) => {
                    let application = self.serving.application(&AppKey::named(&event.application));
                    let project = application.as_ref().map(|application| application.spec.project.as_str());
                    let spans = course::spans(&state, &facts, project);
                    self.spans.extend(spans.iter().map(|span| otlp::span(event.operation, span)));
                }
                Err(error) => {
                    let operation = event.operation.to_string();
                    tracing::warn!(operation, %error, "an operation is not traced");
                }
            }
            while self.spans.len() >= SPANS_MAX {
                let later = self.spans.split_off(SPANS_MAX);
                self.line.deliver(&self.spans).await;
                self.spans = later;
            }
        }
        if !self.spans.is_empty() {
            self.line.deliver(&self.spans).await;
            self.spans.clear();
        }
        ended.drain(..).for_each(|event| self.kept.note(&event));
        self.kept.write().await;
    }
}
